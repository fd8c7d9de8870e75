// Reads metrics.jsonl, which observers/metrics.h writes.
#pragma once

#include "engine/run/test_record.h"
#include "engine/shares/shares.h"

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace towers {

/// Reads a run's shares from its metrics: one entry for each step at which they or their micro-batches
/// changed. Early versions recorded neither the shares of one tower nor micro-batches. Ignores an incomplete
/// last line. Throws InputError if the file cannot be read or is not such a file.
std::vector<SharesFrom> read_shares(const std::filesystem::path& metrics);

/// Whether a line is a test pass's.
bool is_test_pass(const nlohmann::json& line);

/// The metrics in a test pass's line.
MetricValues metrics_in(const nlohmann::json& line);

/// Reads a run's test passes, likewise.
std::vector<TestedStep> read_tests(const std::filesystem::path& metrics);

} // namespace towers
