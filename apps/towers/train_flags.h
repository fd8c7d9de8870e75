// The command line of train.
#pragma once

#include "apps/towers/settings.h"

#include <cstdint>
#include <optional>
#include <string>

namespace towers {

struct TrainFlags {
    GivenSettings settings;
    std::string config, run, progress = "auto";
    bool resume = false;
    std::optional<std::uint64_t> resume_from;
    bool report = false;
    std::string trace;
    std::optional<std::uint64_t> trace_steps;
    bool log_placement = false;
    OpenOptions open{.timeout = default_timeout};

    bool resumes() const { return resume || resume_from; }
};

/// Reads the file that --config names. Throws InputError.
Given given_by(const TrainFlags& flags);

/// Adds the flags. Parsing fills `flags`, except settings.names, which given_settings() returns afterwards.
void add_train_flags(CLI::App& command, TrainFlags& flags);

} // namespace towers
