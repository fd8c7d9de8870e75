// towers must refuse a damaged or foreign checkpoint by name, and change nothing around it.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <functional>
#include <utility>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// A run of two steps with a checkpoint of each, on its own data; made once.
struct SmallRun {
    TemporaryFolder folder;
    std::string data;

    SmallRun() {
        data = (folder / "data").string();
        write_records(data, 2);
        train(folder / "run", {"--steps", "2", "--save-every", "1", "--batch", "2", "--data", data});
    }
    fs::path run() const { return folder / "run"; }
};

struct Damage {
    const char* what;
    std::function<std::string(RawTensors)> damaged; ///< the file's new bytes
    const char* named;
    bool also_as_initial; ///< --init needs only variables, whoever wrote them
};

std::string edit(RawTensors file, const std::function<void(nlohmann::ordered_json&)>& change) {
    change(file.header);
    return file.bytes();
}

std::string rename_tensor(RawTensors file, const std::string& name, const std::string& to) {
    file.header[to] = file.header.at(name);
    file.header.erase(name);
    return file.bytes();
}

const std::vector<Damage>& damages() {
    static const std::vector<Damage> all = {
        {"empty", [](RawTensors) { return std::string(); }, "safetensors", true},
        {"cut short in its data", [](RawTensors f) { return f.bytes().substr(0, 4'000'000); }, "cut short",
         true},
        {"cut short in its header", [](RawTensors f) { return f.bytes().substr(0, 100); }, "header", true},
        {"with a byte too many", [](RawTensors f) { return f.bytes() + "x"; }, "safetensors", true},
        {"of a header longer than the file",
         [](RawTensors f) {
             return std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + f.bytes().substr(8);
         },
         "header", true},
        {"of a header shorter than it is",
         [](RawTensors f) { return std::string("\x40\0\0\0\0\0\0\0", 8) + f.bytes().substr(8); }, "header",
         true},
        {"of another shape",
         [](RawTensors f) { return edit(f, [](auto& h) {
                                h["conv1/weights"]["shape"] = {5, 5, 64, 3};
                            }); },
         "conv1/weights", true},
        {"of a variable with another name",
         [](RawTensors f) { return rename_tensor(f, "local4/biases", "local5/biases"); }, "local4/biases",
         true},
        {"of an average with another name",
         [](RawTensors f) { return rename_tensor(f, "local4/biases/ExponentialMovingAverage", "ema"); },
         "local4/biases/ExponentialMovingAverage", false},
        {"with overlapping tensors",
         [](RawTensors f) {
             return edit(
                 f, [](auto& h) { h["conv2/biases"]["data_offsets"] = h["conv1/biases"]["data_offsets"]; });
         },
         "safetensors", true},
        {"of another recipe",
         [](RawTensors f) {
             return edit(f, [](auto& h) {
                 h["__metadata__"]["recipe"] = "mnist";
                 h["__metadata__"]["recipe_checksum"] = "1";
             });
         },
         "mnist", false},
        {"with a flipped bit in a tensor",
         [](RawTensors f) {
             f.data[f.data.size() / 2] ^= 1;
             return f.bytes();
         },
         "tensors_checksum", true},
        {"without metadata", [](RawTensors f) { return edit(f, [](auto& h) { h.erase("__metadata__"); }); },
         "metadata", false},
        {"without a step",
         [](RawTensors f) { return edit(f, [](auto& h) { h["__metadata__"].erase("step"); }); }, "step",
         false},
        {"with a step that is no number",
         [](RawTensors f) { return edit(f, [](auto& h) { h["__metadata__"]["step"] = "2x"; }); }, "step",
         false},
        {"without a seed",
         [](RawTensors f) { return edit(f, [](auto& h) { h["__metadata__"].erase("seed"); }); }, "seed",
         false},
    };
    return all;
}

} // namespace

TEST_CASE("a bad checkpoint is refused by name and nothing else is touched") {
    const SmallRun small;
    const RawTensors sound = RawTensors::read(checkpoint(small.run(), 2));
    bool replaced = false;
    for (const Damage& damage : damages()) {
        CAPTURE(damage.what);
        const fs::path bad = checkpoint(small.run(), 2);
        write_text(bad, damage.damaged(sound));
        const auto before = contents(small.folder.path());

        const auto check = [&](const Outcome& outcome) {
            check_failed(outcome, 1, damage.named);
            CHECK(contains(outcome.err, bad.string()));
            const bool untouched = contents(small.folder.path()) == before;
            CHECK(untouched);
        };
        check(run_towers({"eval", "--towers", "cpu", "--data", small.data, "--checkpoint", bad.string()}));
        check(run_towers({"train", "--resume", "--run", small.run().string(), "--steps", "3"}));

        const TemporaryFolder other;
        const Outcome initial =
            run_towers({"train", "--towers", "cpu", "--steps", "1", "--batch", "2", "--data", small.data,
                        "--init", bad.string(), "--run", (other / "run").string()});
        if (damage.also_as_initial) {
            check(initial);
            CHECK_FALSE(fs::exists(other / "run/config.toml"));
            // The same command must work once the file is replaced, whatever was wrong with it.
            if (std::exchange(replaced, true)) continue;
            write_text(bad, sound.bytes());
            train(other / "run",
                  {"--steps", "1", "--batch", "2", "--data", small.data, "--init", bad.string()});
        } else {
            check_worked(initial);
        }
    }
    // The checkpoint before the bad ones still works.
    check_worked(run_towers({"eval", "--towers", "cpu", "--data", small.data, "--checkpoint",
                             checkpoint(small.run(), 1).string()}));
}

TEST_CASE("--init finds the variables among any other tensors of a file") {
    const SmallRun small;
    const TemporaryFolder folder;
    RawTensors file = RawTensors::read(checkpoint(small.run(), 2));
    file.forget_checksum();
    const std::size_t end = file.data.size();
    file.header["ids"] = {{"dtype", "I64"}, {"shape", {2}}, {"data_offsets", {end, end + 16}}};
    file.data.append(16, 'x');
    write_text(folder / "more.safetensors", file.bytes());
    train(folder / "run",
          {"--steps", "0", "--data", small.data, "--init", (folder / "more.safetensors").string()});
    const bool given = variables(checkpoint(folder / "run", 0)) == variables(checkpoint(small.run(), 2));
    CHECK(given);
}

TEST_CASE("a header that would parse into a far larger tree is refused before it does") {
    const TemporaryFolder folder;
    const fs::path bomb = folder / "bomb.safetensors";
    std::string entries;
    for (unsigned i = 0; entries.size() < 99'998'000; ++i)
        entries.append("\"").append(std::to_string(i)).append("\":0,");
    entries.back() = '}';
    struct Case {
        const char *begin, *says;
    };
    for (const Case& each :
         {Case{"{", "tensor \"0\" has no dtype"},
          {"{\"w\":{", "the entry of \"w\" in its header is too long"},
          {"{\"__metadata__\":{", "the entry of \"__metadata__\" in its header is too long"}}) {
        CAPTURE(each.begin);
        std::string header = each.begin + entries;
        if (header.starts_with("{\"")) header += '}';
        const std::uint64_t length = header.size();
        write_text(bomb, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
        check_failed(run_towers({"train", "--towers", "cpu", "--steps", "1", "--init", bomb.string(), "--run",
                                 (folder / "run").string()}),
                     1, each.says);
    }
}

TEST_CASE("--init starts the variables and their averages from the given file") {
    const SmallRun small;
    const TemporaryFolder folder;
    train(folder / "run",
          {"--steps", "0", "--data", small.data, "--init", checkpoint(small.run(), 2).string()});
    const std::vector<float> given = variables(checkpoint(small.run(), 2));
    const bool parameters_given = variables(checkpoint(folder / "run", 0)) == given;
    const bool averages_given = variables(checkpoint(folder / "run", 0), true) == given;
    CHECK(parameters_given);
    CHECK(averages_given);
}

TEST_CASE("a missing checkpoint is named") {
    const TemporaryFolder folder;
    const std::string none = (folder / "none.safetensors").string();
    check_failed(run_towers({"eval", "--towers", "cpu", "--checkpoint", none}), 1, none);
    check_failed(run_towers({"eval", "--towers", "cpu", "--checkpoint", folder.path().string()}), 1,
                 folder.path().string());
    check_failed(run_towers({"eval", "--towers", "cpu", "--run", folder.path().string()}), 1,
                 folder.path().string());
    check_failed(run_towers({"train", "--towers", "cpu", "--init", none, "--run", (folder / "run").string()}),
                 1, none);
    check_failed(run_towers({"train", "--towers", "cpu", "--resume", "--run", (folder / "gone").string()}), 1,
                 (folder / "gone").string());
    CHECK_FALSE(fs::exists(folder / "gone"));
}
