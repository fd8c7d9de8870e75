// What the command line says of data sets.
#pragma once

#include "apps/towers/settings.h"
#include "engine/data/formats.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace towers {

extern const char* const hold_out_help;    ///< what --hold-out takes
extern const char* const skip_broken_help; ///< what --skip-broken does

/// What --format takes.
std::string format_help();

extern const char* const fold_help; ///< what --fold takes

/// What --hold-out names, `10%`, or --fold, `2/5`; none if both are "". UsageError for what is neither, or
/// both.
HeldOut held_out_by(const std::string& percent, const std::string& fold);

/// A data set that a command names, with the flags that say how to read it.
struct SourceFlags {
    std::string source, format, hold_out, fold;
    std::uint64_t seed = 1;
    bool skip_broken = false;

    /// UsageError as held_out_by().
    DataRequest request(Split split) const;
};

/// Adds the argument `source` and its flags.
void add_source(CLI::App& command, SourceFlags& flags);

/// Whether there is nothing any more at the path of what an earlier run used.
bool is_gone(const std::string& source);

/// InputError if it is gone: the message says to give its new place with `flag`.
void check_still_there(const std::string& source, const char* flag);

/// The split's data set that the settings name, with the classes of what a network was trained on, if they
/// are known. UsageError as held_out_by().
DataRequest data_request(const TrainSettings& settings, Split split, std::uint64_t seed,
                         std::vector<std::string> trained = {});

} // namespace towers
