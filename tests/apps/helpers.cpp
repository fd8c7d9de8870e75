#include "tests/apps/helpers.h"

#include "tests/support/files.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <random>

namespace towers::test {

namespace fs = std::filesystem;

void check_failed(const Outcome& outcome, int code, std::string_view name) {
    CAPTURE(outcome.out);
    CAPTURE(outcome.err);
    CAPTURE(name);
    CHECK(outcome.code == code);
    CHECK(outcome.err.starts_with("towers: "));
    CHECK(outcome.err.find('\n') + 1 == outcome.err.size()); // exactly one line, with its newline
    CHECK(contains(outcome.err, name));
    if (code == 2) CHECK(outcome.out.empty());
}

void check_worked(const Outcome& outcome) {
    CAPTURE(outcome.out);
    CHECK(outcome.err == "");
    REQUIRE(outcome.code == 0);
}

std::string train(const fs::path& run, const Arguments& flags) {
    Arguments all{"train", "--run", run.string()};
    const auto unless_given = [&](const char* flag, const char* value) {
        if (std::find(flags.begin(), flags.end(), flag) == flags.end()) all = all + Arguments{flag, value};
    };
    unless_given("--towers", "cpu");
    unless_given("--log-every", "1");
    const Outcome outcome = run_towers(all + flags);
    check_worked(outcome);
    return outcome.out;
}

std::string train_small(const fs::path& run, const Arguments& flags) {
    const bool has_data = std::ranges::any_of(flags, [](const std::string& flag) {
        return flag == "--data" || flag == "--config" || flag.starts_with("--resume");
    });
    return train(run, has_data ? flags : flags + small_data());
}

Arguments small_data() {
    static const TemporaryFolder folder;
    static const fs::path data = [] {
        write_records(folder / "data", 40);
        return folder / "data";
    }();
    return {"--data", data.string()};
}

Arguments operator+(Arguments first, const Arguments& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

namespace {

struct Listed {
    std::vector<std::string> ids;
    std::string quick;
};

const Listed& list() {
    static const Listed listed = [] {
        Listed found;
        const nlohmann::json all = nlohmann::json::parse(run_towers({"devices", "--json"}).out);
        for (const nlohmann::json& device : all.at("devices")) {
            const std::string id = device.at("id"), name = device.at("name");
            if (id == "cpu" || device.at("withheld") != "") continue;
            found.ids.push_back(id);
            // SwiftShader takes several times as long as any other device.
            if (found.quick.empty() || contains(name, "llvmpipe") || device.at("kind") == "discrete GPU")
                found.quick = id;
        }
        if (found.ids.empty()) std::printf("SKIPPED devices other than the CPU: there are none\n");
        return found;
    }();
    return listed;
}

} // namespace

std::string driver_of_cpu(const nlohmann::json& all) {
    for (const nlohmann::json& device : all.at("devices"))
        if (device.at("id") == "cpu") return device.at("driver");
    return "";
}

RunOptions broken_vulkan(const std::string& rules, const std::filesystem::path& folder) {
    return {.folder = folder,
            .environment = {{"VK_ADD_LAYER_PATH", TOWERS_BROKEN_VULKAN},
                            {"VK_INSTANCE_LAYERS", "VK_LAYER_TOWERS_broken"},
                            {"TOWERS_BROKEN_VULKAN", rules}}};
}

const std::vector<std::string>& other_devices() { return list().ids; }
std::string quick_device() { return list().quick; }

nlohmann::json list_devices(const RunOptions& options) {
    const Outcome outcome = run_towers({"devices", "--json"}, options);
    check_worked(outcome);
    return nlohmann::json::parse(outcome.out);
}

std::vector<nlohmann::json> vulkan_devices(const nlohmann::json& all) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& device : all.at("devices"))
        if (device.at("id").get<std::string>().starts_with("vulkan:")) found.push_back(device);
    return found;
}

std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file())
            files[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
    return files;
}

std::vector<nlohmann::json> metrics(const fs::path& run) {
    std::vector<nlohmann::json> parsed;
    for (const std::string& line : lines_of(read_text(run / "metrics.jsonl")))
        parsed.push_back(nlohmann::json::parse(line));
    return parsed;
}

fs::path checkpoint(const fs::path& run, unsigned step) {
    return run / ("model.ckpt-" + std::to_string(step) + ".safetensors");
}

void check_same(const fs::path& run, const fs::path& other, unsigned step) {
    CAPTURE(step);
    // CHECK(a == b) would print megabytes.
    const bool same_checkpoint = read_text(checkpoint(run, step)) == read_text(checkpoint(other, step));
    CHECK(same_checkpoint);
    CHECK(read_text(run / "metrics.jsonl") == read_text(other / "metrics.jsonl"));
    CHECK(metrics(run).size() == step);
}

RawTensors RawTensors::read(const fs::path& path) {
    const std::string text = read_text(path);
    std::uint64_t length = 0;
    REQUIRE(text.size() > sizeof(length));
    std::memcpy(&length, text.data(), sizeof(length));
    REQUIRE(length < text.size());
    return {nlohmann::ordered_json::parse(text.substr(8, length)), text.substr(8 + length)};
}

std::string RawTensors::bytes() const {
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data;
}

std::vector<float> RawTensors::values(const std::string& name) const {
    const auto& offsets = header.at(name).at("data_offsets");
    const std::size_t begin = offsets[0], end = offsets[1];
    std::vector<float> values((end - begin) / sizeof(float));
    REQUIRE(end <= data.size());
    std::memcpy(values.data(), data.data() + begin, end - begin);
    return values;
}

std::vector<float> any_variables(const fs::path& path, bool averages) {
    const RawTensors file = RawTensors::read(path);
    std::vector<float> all;
    for (const auto& [name, entry] : file.header.items()) {
        if (name == "__metadata__" || name.ends_with("/ExponentialMovingAverage") != averages) continue;
        const std::vector<float> values = file.values(name);
        all.insert(all.end(), values.begin(), values.end());
    }
    return all;
}

std::vector<float> variables(const fs::path& path, bool averages) {
    std::vector<float> all = any_variables(path, averages);
    CHECK(all.size() == 1068298); // the size of the tutorial's model
    return all;
}

double relative_distance(const std::vector<float>& actual, const std::vector<float>& expected) {
    REQUIRE(actual.size() == expected.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        difference += std::pow(double(actual[i]) - double(expected[i]), 2);
        norm += std::pow(double(expected[i]), 2);
    }
    return std::sqrt(difference / norm);
}

std::string tiny_recipe(const std::string& group, const std::string& optimizer) {
    return fmt::format(R"([input]
shape = [16, 16, 3]
classes = 10
[network]
layers = [
  {{ name = "conv", kind = "conv2d", filters = 4, kernel = 3, stride = 2 }},
  {{ name = "bn", kind = "batch_norm", group = {}, activation = "relu" }},
  {{ name = "drop", kind = "dropout", keep = 0.8 }},
  {{ name = "fc", kind = "dense", units = 10 }},
]
[averages]
decay = 0.9
[training]
batch = 4
steps = 2
[optimizer]
{})",
                       group, optimizer);
}

const char* const colourful_recipe = R"([input]
shape = [16, 16, 3]
classes = 10
[network]
layers = [{ name = "fc", kind = "dense", units = 10 }]
[training]
batch = 4
steps = 2
[optimizer]
kind = "sgd"
learning_rate = 0.01
[pipeline.train]
box = "random_area"
flip = true
brightness = [0.8, 1.2]
contrast = [0.5, 1.5]
saturation = [0.5, 1.5]
hue = [-0.2, 0.2]
)";

void write_records(const fs::path& folder, unsigned records_per_file) {
    fs::create_directories(folder);
    std::mt19937 random(7);
    for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                             "data_batch_5.bin", "test_batch.bin"}) {
        std::string text;
        for (unsigned i = 0; i < records_per_file; ++i) {
            text += char(i % 10);
            for (unsigned k = 0; k < 3072; ++k) text += char(random() & 0xff);
        }
        write_text(folder / name, text);
    }
}

} // namespace towers::test
