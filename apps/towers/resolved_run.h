// Resolves what a run will do. Each setting comes from the first of these that has it: flags, configuration
// file, earlier run, recipe, machine.
#pragma once

#include "apps/towers/resume.h"
#include "apps/towers/train_flags.h"
#include "engine/recipes/quirks.h"
#include "engine/recipes/recipe.h"
#include "engine/run/run_directory.h"
#include "engine/shares/shares.h"
#include "engine/tuning/tuning.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

/// The inputs that decide a run besides its flags.
struct RunInputs {
    std::optional<Past> past; ///< set if the run is resumed
    TrainSettings settings;   ///< merged from the earlier run, the file that --config names, and the flags
};

/// Reads the files that the flags name. Throws InputError, and UsageError for --resume without --run and for
/// what a resumed run cannot do, as without one of its devices unless others are named.
RunInputs read_inputs(const TrainFlags& flags, const Machine& machine);

struct ResolvedRun {
    TrainSettings settings; ///< complete, with `steps` or `epochs`; paths are absolute
    Recipe recipe;
    Quirks quirks;
    std::vector<std::string> towers; ///< device ids
    unsigned global_batch = 0;
    SharePolicy shares;
    std::string folder; ///< the run directory; empty: a new one
    Existing existing = Existing::refuse;
    OpenOptions open;
    std::optional<TuningOptions> tuning; ///< none: the devices estimate
    std::vector<std::string> notes;      ///< for the user, about the towers
    std::uint64_t traced_steps = 0;      ///< that the trace keeps; 0: there is none
};

/// Decides everything that can be decided before a device is opened. Reads recipes and metrics, changes
/// nothing, and asks only `machine` about devices. Throws UsageError and InputError if something
/// is wrong or does not fit together.
ResolvedRun resolve(const TrainFlags& flags, const RunInputs& inputs, const Machine& machine);

/// How devices are tuned by --tune, without known choices.
std::optional<TuningOptions> tuning_by(const TrainSettings& settings);

} // namespace towers
