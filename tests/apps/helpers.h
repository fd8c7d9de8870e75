// Helpers for the command line tests: messages, run directories, checkpoints, devices.
#pragma once

#include "tests/apps/program.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace towers::test {

/// Checks the exit code, and that stderr is one line that contains `name`.
void check_failed(const Outcome& outcome, int code, std::string_view name);

/// Checks for exit code 0 and an empty stderr.
void check_worked(const Outcome& outcome);

/// Runs `towers train` with these flags, and with `--towers cpu --log-every 1` unless they say otherwise.
/// Checks that it worked and returns its stdout.
std::string train(const std::filesystem::path& run, const Arguments& flags);

/// The same on small_data(), unless the run resumes or the flags name other data.
std::string train_small(const std::filesystem::path& run, const Arguments& flags);

/// `--data` and a folder with a few random records, the same for the whole test program. Most of the time of
/// a short run on `shapes` goes into drawing them.
Arguments small_data();

Arguments operator+(Arguments first, const Arguments& second);

std::vector<std::string> lines_of(const std::string& text);
bool contains(std::string_view text, std::string_view part);

/// What `towers devices --json` prints, and the Vulkan devices in it.
nlohmann::json list_devices(const RunOptions& options = {});
std::vector<nlohmann::json> vulkan_devices(const nlohmann::json& all);
/// The library of the device `cpu` with its version and, at the end, the number of threads
std::string driver_of_cpu(const nlohmann::json& all);

/// For a program that runs in `folder` under the layer of tests/broken_vulkan, with these rules.
RunOptions broken_vulkan(const std::string& rules, const std::filesystem::path& folder = {});

/// Every device except the CPU, as `towers devices --json` lists them. If there is none, prints that once.
const std::vector<std::string>& other_devices();
/// The one of them on which tests are fastest, or "".
std::string quick_device();

/// The contents of every file below a folder, by path.
std::map<std::string, std::string> contents(const std::filesystem::path& folder);

/// The lines of a run's metrics.jsonl.
std::vector<nlohmann::json> metrics(const std::filesystem::path& run);

std::filesystem::path checkpoint(const std::filesystem::path& run, unsigned step);

/// Checks that two runs have the same bytes in this step's checkpoint and in their metrics.
void check_same(const std::filesystem::path& run, const std::filesystem::path& other, unsigned step);

/// A safetensors file, parsed by the tests' own reader.
struct RawTensors {
    nlohmann::ordered_json header;
    std::string data;

    static RawTensors read(const std::filesystem::path& path);
    /// Otherwise a tensor that the test changes counts as damaged.
    void forget_checksum() { header["__metadata__"].erase("tensors_checksum"); }
    std::string bytes() const;
    std::vector<float> values(const std::string& name) const;
};

/// All variables of a checkpoint, or all their moving averages, one after another.
std::vector<float> variables(const std::filesystem::path& checkpoint, bool averages = false);
/// The same of any model
std::vector<float> any_variables(const std::filesystem::path& checkpoint, bool averages = false);

/// The L2 norm of the difference divided by the norm of `expected`.
double relative_distance(const std::vector<float>& actual, const std::vector<float>& expected);

/// The text of a recipe with a batch norm of groups of `group`, dropout and moving averages. `optimizer`: the
/// lines of that section.
std::string tiny_recipe(const std::string& group, const std::string& optimizer);

/// The text of a recipe whose pipeline changes the box and all colours of an image.
extern const char* const colourful_recipe;

/// Writes CIFAR-10's five training files and the test file with this many random records each.
void write_records(const std::filesystem::path& folder, unsigned records_per_file);

} // namespace towers::test
