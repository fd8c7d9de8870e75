// What a run will do, decided from its flags, its configuration file and what it did before: the flags come
// first, then the file, then the earlier run, then the recipe and the machine.
#pragma once

#include "apps/towers/resume.h"
#include "apps/towers/train_flags.h"
#include "engine/recipes/recipe.h"
#include "engine/run/run_directory.h"
#include "engine/towers/shares.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

/// What decides a run besides its flags.
struct Sources {
    std::optional<Past> past; ///< of a run that is resumed
    GivenSettings config;     ///< those of the file that --config names
};

/// Reads what the flags name. Throws InputError, and UsageError when a run to resume has no name.
Sources read_sources(const TrainFlags& flags, const SelectTowers& select);

struct ResolvedRun {
    TrainSettings
        settings; ///< all that are not optional are set, and `steps` or `epochs`; paths are absolute
    Recipe recipe;
    Quirks quirks;
    std::vector<std::string> towers; ///< device ids
    unsigned global_batch = 0;
    SharePolicy shares;
    std::string folder; ///< the run directory; empty: a new one
    Existing existing = Existing::refuse;
    OpenOptions open;
};

/// Decides everything that can be decided before a device is opened. Reads recipes and metrics, changes
/// nothing, and asks only `select` about the machine's devices. Throws UsageError and InputError for what is
/// wrong or does not fit together.
ResolvedRun resolve(const TrainFlags& flags, const Sources& sources, const SelectTowers& select);

} // namespace towers
