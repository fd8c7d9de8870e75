// Rows of tables: a command line of train, without the program and without devices, and what is decided of
// it.
#pragma once

#include "apps/towers/resolved_run.h"

#include <span>
#include <string>
#include <vector>

namespace towers::rows {

/// What the run in HERE/run has left.
struct Before {
    std::string trained =
        "towers = 'a,b'\nshares = '3:1'\nbatch = 4\nlr = 0.1\nseed = 7\n"; ///< as checkpoints say
    std::string config = "steps = 10\n"; ///< its config.toml; "": there is none
    std::string metrics = {};            ///< likewise
    std::string recipe = {};
    std::string towers = {},
                threads = "1"; ///< in the checkpoints' metadata, unless an early version wrote them
    std::string times = {};    ///< its times.jsonl; "": there is none
};

struct Row {
    std::string flags;       ///< of train; HERE is a temporary folder
    std::string config = {}; ///< the file that --config names
    Before before = {};      ///< of a run that is resumed
    Before recorded = {};    ///< of a run in HERE/recorded
    std::vector<std::string> has =
        {};                 ///< lines that describe() gives, or `!name` for a setting that is not set
    std::string error = {}; ///< instead: the message
    bool usage = true;      ///< whether it is a UsageError
};

/// A machine whose only backend `gpu` shows devices a, b and c, besides the cpu.
std::vector<std::string> select(const std::string& backend, const std::string& towers,
                                const OpenOptions& options);

/// The cards' names are A, B and C. There is no other.
FoundAgain find(std::span<const DeviceRecord> before, const OpenOptions&);

void check(const Row& row, const Machine& machine = {select, find});

} // namespace towers::rows
