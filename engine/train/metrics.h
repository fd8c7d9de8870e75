// metrics.jsonl: what a run says of its steps, for programs.
#pragma once

#include "engine/towers/shares.h"
#include "engine/train/trainer.h"

#include <filesystem>
#include <string>
#include <vector>

namespace towers {

/// One JSON object without a line end: numbers that the same run with the same shares repeats bit for bit.
std::string metrics_line(const StepReport& report, std::uint64_t records);

/// The shares that a run had, from its metrics: an entry for each step from which on they were others. Empty
/// when it had one tower. Leaves out a last line that is not complete. Throws InputError when the file cannot
/// be read or is no such file.
std::vector<SharesFrom> read_shares(const std::filesystem::path& metrics);

} // namespace towers
