// The images that a recipe's data pipeline makes, as pictures to look at.
#pragma once

#include "engine/data/example.h"
#include "engine/data/mix.h"
#include "engine/data/source.h"
#include "engine/recipes/recipe.h"

#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// A data set of these examples alone, whose slots and labels it sets. Throws InputError.
Dataset bring(const DataSource& data, std::span<Example> examples);

struct PreviewOptions {
    std::uint64_t seed = 1;
    bool distort = true;         ///< false: the evaluation pipeline
    std::vector<Mix> mixes = {}; ///< of the examples, which are then a global batch; empty: none
};

/// The network's images of these examples' records, as training with the seed sees them in the examples'
/// epochs: bytes [examples.size()][channels][height][width]. What the pipeline has normalized is turned back
/// into 0 to 255; what the tutorial's has standardized becomes grey 128 for 0 and 0 or 255 for 2.5
/// deviations. Throws InputError, UsageError.
std::vector<std::uint8_t> preview(const Recipe& recipe, const DataSource& data, std::vector<Example> examples,
                                  const PreviewOptions& options);

} // namespace towers
