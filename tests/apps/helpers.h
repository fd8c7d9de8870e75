// What the tests of the command line look at: messages, run directories, checkpoints, devices.
#pragma once

#include "tests/apps/program.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace towers::test {

/// Checks for the exit code and for one line on stderr that names `name`.
void check_failed(const Outcome& outcome, int code, std::string_view name);

/// Checks for exit code 0 and nothing on stderr.
void check_worked(const Outcome& outcome);

/// Runs `towers train` with these flags, and `--towers cpu --log-every 1` where they say nothing else, checks
/// that it worked, gives its stdout.
std::string train(const std::filesystem::path& run, const Arguments& flags);

Arguments operator+(Arguments first, const Arguments& second);

std::vector<std::string> lines_of(const std::string& text);
bool contains(std::string_view text, std::string_view part);

/// Every device but the CPU, as `towers devices --json` lists them. None: said once on stdout.
const std::vector<std::string>& other_devices();
/// The fastest of them to test on, or "".
std::string quick_device();

/// The content of every file below a folder, by path.
std::map<std::string, std::string> contents(const std::filesystem::path& folder);

/// The lines of a run's metrics.jsonl.
std::vector<nlohmann::json> metrics(const std::filesystem::path& run);

std::filesystem::path checkpoint(const std::filesystem::path& run, unsigned step);

/// Checks that two runs have the same bytes in the checkpoint of this step and in their metrics.
void check_same(const std::filesystem::path& run, const std::filesystem::path& other, unsigned step);

/// A safetensors file taken apart by the tests' own reader.
struct RawTensors {
    nlohmann::ordered_json header;
    std::string data;

    static RawTensors read(const std::filesystem::path& path);
    std::string bytes() const;
    std::vector<float> values(const std::string& name) const;
};

/// All variables of a checkpoint, or all their moving averages, one after another.
std::vector<float> variables(const std::filesystem::path& checkpoint, bool averages = false);

/// The L2 norm of the difference over the norm of `expected`.
double relative_distance(const std::vector<float>& actual, const std::vector<float>& expected);

/// Writes CIFAR-10's five training files and the test file, of so many random records each.
void write_records(const std::filesystem::path& folder, unsigned records_per_file);

} // namespace towers::test
