// A recipe: model, data pipeline, optimizer and schedule under one name.
#pragma once

#include "backends/precision.h"
#include "engine/data/mix.h"
#include "engine/data/pipeline.h"
#include "engine/data/sampler.h"
#include "engine/model/model.h"
#include "engine/optimizers/optimizer.h"
#include "engine/recipes/schedule.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {

struct Recipe {
    std::string name, description;
    std::string source;             ///< the file's name, for messages
    std::string text;               ///< the file's, or written anew if changes were made
    std::uint64_t checksum = 0;     ///< of the content without comments and layout
    std::vector<std::string> notes; ///< lines for the user about the changes
    Model model;
    Pipeline pipeline;
    Mixing mixing; ///< of training images, after the pipeline
    std::shared_ptr<const Optimizer> optimizer;
    Schedule schedule;
    std::optional<double> average_decay; ///< of the moving averages; absent: there are none
    bool average_warm_up = false;        ///< the decay is min(average_decay, (1 + n) / (10 + n))
    unsigned batch = 0;                  ///< mean examples per tower and step
    std::uint64_t steps = 0;
    Sampling sampling = Sampling::uniform; ///< how often training takes each example
    Precision precision = Precision::fp32; ///< in which it is meant to be trained
};

/// Reads a recipe. `name` is a built-in recipe's, or the path of a TOML file if it ends in .toml or contains
/// a '/'. Each of `changes` is `table.key=value`; `key=` removes a key or table. Changing a table's kind
/// removes the keys that the new kind lacks. Throws UsageError with file and line.
Recipe find_recipe(const std::string& name, const std::vector<std::string>& changes = {});

/// Reads the file in which a run keeps the recipe of this name.
Recipe read_recipe(const std::string& name, const std::filesystem::path& file);

/// Reads a recipe's text; `source` is the file's name, for messages.
Recipe parse_recipe(const std::string& name, const std::string& text, const std::string& source,
                    const std::vector<std::string>& changes = {});

} // namespace towers
