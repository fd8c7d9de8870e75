// Chooses by measuring how the devices of a run run its launches.
#pragma once

#include "engine/tuning/kept_choices.h"
#include "engine/tuning/measure.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// The distinct launches of plans, by key_of().
struct DistinctLaunch {
    PlannedLaunch planned;
    std::string name; ///< of the first operation
    unsigned times;   ///< that the plans have it
};
using DistinctLaunches = std::map<std::string, DistinctLaunch>;
DistinctLaunches distinct_launches(std::span<const Plan* const> plans);

struct TuningOptions {
    Effort effort;
    /// A file with choices to begin with; empty: none.
    std::filesystem::path known = {};
    std::string known_text = {};           ///< of that file, if another rank has it; else empty
    bool complete = false;                 ///< `known` must name each device
    std::filesystem::path cache = {};      ///< folder where choices are kept for other runs; empty: nowhere
    bool exact_products = false;           ///< of the devices
    Precision precision = Precision::fp32; ///< likewise
    /// Seconds for the measurements of each device. What they do not suffice for is left to the estimate.
    double budget = std::numeric_limits<double>::infinity();
    /// Whether the shares follow the towers' times, so that each run has others: then what is kept for a near
    /// batch serves them.
    bool changing_shares = false;
    unsigned rank = 0; ///< of this process in its run
    /// Gets a line for the user about what is measured now, and an empty one at the end; may be null.
    std::function<void(const std::string&)> progress = {};
};

/// The choices of a run's devices. One thread at a time uses it, and no device records meanwhile.
class Tuning {
public:
    /// Throws InputError if the known choices cannot be read.
    explicit Tuning(TuningOptions options);

    /// For OpenOptions::choices of the device with this id; devices with the same id share them.
    const Choices& choices(const std::string& id) { return devices_[id].made.choices; }
    /// Takes the known choices for a device, before it records anything. Throws InputError if there are none,
    /// but should be.
    void opened(const DeviceInfo& info);

    /// Whether tune() has anything to do for a device that is opened.
    bool concerns(const DeviceInfo& info) const;

    /// Replaces known choices for the launches of a step that the device does not have by its estimate's,
    /// which it used for them, and makes the missing ones, unless it ends early because `stop`, which may be
    /// null, becomes true. Returns whether choices have changed so that recordings are out of date. Throws
    /// DeviceError.
    bool tune(Device& device, std::span<const Plan* const> plans, const std::atomic<bool>* stop);

    /// Adds another rank's choices, as its to_json(), to what this one records.
    void add(const std::string& choices);
    /// Whether there is anything to record.
    bool has_choices() const;

    /// One line for the user about all that tune() has done, or nothing. Warns of what went wrong.
    std::string summary() const;
    /// All choices, as the file that TuningOptions::known names.
    std::string to_json() const;

private:
    struct OfDevice {
        DeviceChoices made;
        KeptChoices* kept = nullptr; ///< null if nothing is measured
        double seconds = 0;          ///< of its measurements
    };
    /// A launch without a choice.
    struct Undecided {
        const std::string* key;
        const DistinctLaunch* launch;
        std::vector<Candidate> candidates;
        std::optional<Candidate> used, kept; ///< by the device now; from the cache
        double time;                         ///< in a step, by estimate
    };
    bool replace_unknown(const Device& device, Choices& choices, const DistinctLaunches& launches);
    bool decide(Device& device, OfDevice& of, const DistinctLaunches& launches,
                const std::atomic<bool>* stop);
    /// Those first that take the longest.
    std::vector<Undecided> undecided(const Device& device, const OfDevice& of,
                                     const DistinctLaunches& launches);
    std::optional<Candidate> choose_by_measuring(Device& device, Choices& choices,
                                                 const DistinctLaunch& launch,
                                                 std::span<const Candidate> candidates, const Measuring& how);

    TuningOptions options_;
    std::vector<DeviceChoices> known_, others_;
    std::map<std::string, OfDevice> devices_; ///< by id
    std::map<std::string, KeptChoices> kept_; ///< by kind of device
    /// Launches: measured, found in the cache, or chosen before by the run
    unsigned measured_ = 0, found_ = 0, recorded_ = 0;
    /// Launches left to the estimate: it is sure enough, or budget or memory did not suffice.
    unsigned sure_ = 0, late_ = 0, large_ = 0;
    double seconds_ = 0;                  ///< of all measurements
    double before_us_ = 0, after_us_ = 0; ///< of all measured launches of the steps
    std::set<std::string> wrong_;         ///< candidates
    /// The launches whose known choices the devices do not have, by key, for people to read.
    std::map<std::string, std::string> unknown_;
};

} // namespace towers
