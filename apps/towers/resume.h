// How a stopped run is resumed: from which checkpoint, with which settings.
#pragma once

#include "apps/towers/settings.h"
#include "engine/observers/times.h"
#include "engine/shares/selection.h"
#include "engine/train/checkpoint.h"
#include "engine/train/circumstances.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// A run's settings and what follows from them.
struct Course {
    TrainSettings settings;
    std::vector<std::string> towers; ///< as the devices are called now; "" for one that is not there
    unsigned global_batch;
    std::vector<DeviceRecord> devices = {}; ///< of the towers; empty: not known, so the ids are as before
    std::string missing = {};               ///< see FoundAgain
};

/// The start of a resumed run.
struct Past {
    FoundCheckpoint checkpoint;                 ///< without its tensors: the towers need the memory
    std::optional<Circumstances> circumstances; ///< of the checkpoint; none if an early version wrote it
    Course trained;                             ///< settings with which the checkpoint was trained
    Course latest; ///< settings of the run's later config.toml; otherwise the same
};

/// What decides about a run's devices; tests have another.
struct Machine {
    /// select_towers()
    std::function<std::vector<std::string>(const std::string& backend, const std::string& towers,
                                           const OpenOptions& options)>
        select;
    /// find_devices()
    std::function<FoundAgain(std::span<const DeviceRecord> before, const OpenOptions& options)> find;
};

/// Finds the checkpoint of step `from`, else the latest one, in the folder `run`, and the settings of the
/// run, which are `given.file`'s where neither checkpoint nor run has them. Looks for the run's devices
/// unless only the processor is given. Throws InputError.
Past find_past(const std::string& run, std::optional<std::uint64_t> from, const Given& given,
               OpenOptions open, const Machine& machine);

/// The starts of the run in this folder, with the devices of its towers. Warns, and knows none, if the file
/// is damaged.
std::vector<RunEvent> starts_of(const std::filesystem::path& run);

/// The settings of a resumed run unless the user changes them: its own, with the same global batch for any
/// towers. adopt_layout() adds what depends on the towers.
TrainSettings settings_to_go_on_with(const Past& past);

/// If `towers` are the same, takes over the run's shares and whether it sets --batch or --global-batch.
void adopt_layout(TrainSettings& settings, const Past& past, const std::vector<std::string>& towers);

/// Prints what has changed since the checkpoint was written: settings, and what decides the last bits of the
/// results. `global`: the global batch now.
void print_changes(const Past& past, const TrainSettings& settings, unsigned global,
                   const Circumstances& now);

} // namespace towers
