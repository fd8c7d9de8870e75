// --precision: what is said of it, kept of it and done with it. With --round-operands the cpu device rounds
// without units for it, so these tests need no card.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

const Arguments rounding{"--precision", "bf16", "--round-operands"};
const std::string all_in_bf16 = "; all multiplications in bf16\n";

/// The lines of times.jsonl that say this of a start.
std::vector<std::string> precisions_of(const fs::path& run) {
    std::vector<std::string> precisions;
    for (const std::string& line : lines_of(read_text(run / "times.jsonl")))
        if (const Json event = Json::parse(line); event.contains("precision"))
            precisions.push_back(event.at("event").get<std::string>() + " in " +
                                 event.at("precision").get<std::string>());
    return precisions;
}

std::string settings_in(const fs::path& checkpoint) {
    return RawTensors::read(checkpoint).header.at("__metadata__").at("settings");
}

float last_loss(const fs::path& run) { return metrics(run).back().at("loss"); }

} // namespace

TEST_CASE("a run says what part of its multiplications it rounds, and keeps its precision") {
    const TemporaryFolder folder;
    const Arguments flags{"--batch", "4", "--steps", "2"};
    const std::string plain = train_small(folder / "fp32", flags);
    CHECK_FALSE(contains(plain, "multiplications"));
    CHECK(precisions_of(folder / "fp32") == std::vector<std::string>{"start in fp32"});

    const fs::path run = folder / "bf16";
    CHECK(contains(train_small(run, flags + rounding), "), 4 examples a step" + all_in_bf16));
    for (const std::string& text : {read_text(run / "config.toml"), settings_in(checkpoint(run, 2))}) {
        CHECK(contains(text, "precision = 'bf16'\n"));
        CHECK(contains(text, "round-operands = true\n"));
    }
    CHECK(precisions_of(run) == std::vector<std::string>{"start in bf16"});
    const float exact = last_loss(folder / "fp32"), rounded = last_loss(run);
    CHECK(rounded != exact);
    CHECK(rounded == doctest::Approx(exact).epsilon(0.01));

    const std::string placed =
        train_small(folder / "placed", flags + rounding + Arguments{"--log-placement"});
    CHECK(contains(placed, "), 4 examples a step" + all_in_bf16 + "operation "));
    CHECK(contains(placed, " in bf16 "));
    check_same(run, folder / "placed", 2); // to the bit
}

TEST_CASE("no choice and no measuring makes the cpu leave out rounding") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--batch", "4", "--steps", "1", "--precision", "bf16", "--tune", "quick"});
    // A line on stderr names choices that cannot be.
    const auto out_of = [&](const Arguments& flags) {
        const Outcome outcome = run_towers(Arguments{"train", "--towers", "cpu"} + small_data() + flags);
        CHECK(outcome.code == 0);
        return outcome.out;
    };
    const Arguments flags = rounding + Arguments{"--batch", "4", "--steps", "1", "--tune"};
    CHECK(contains(out_of(flags + Arguments{"quick", "--run", (folder / "quick").string()}), all_in_bf16));
    CHECK(contains(
        out_of(flags + Arguments{(run / "choices.json").string(), "--run", (folder / "given").string()}),
        all_in_bf16));
    CHECK(contains(out_of({"--run", run.string(), "--resume", "--steps", "2", "--round-operands"}),
                   all_in_bf16));
}

TEST_CASE("a processor's units are those on which it can run products") {
    const Outcome variants = run_towers({"bench", "--towers", "cpu", "--batch", "2", "--variants",
                                         "conv2 forward", "--precision", "bf16", "--threads", "1"});
    check_worked(variants);
    const Json all = list_devices();
    for (const Json& device : all.at("devices"))
        if (device.at("id") == "cpu") {
            const bool has = device.at("units") == Json{"bf16"};
            CHECK(contains(variants.out, " in bf16 ") == has);
            if (!has) {
                CHECK(device.at("units") == Json::array());
                std::printf("SKIPPED units of the processor: it has none for bf16\n");
            }
        }
}

TEST_CASE("a processor without units, or products that no units take, run in fp32, and a run says so") {
    const TemporaryFolder folder;
    const std::string out = train_small(
        folder / "run", {"--batch", "4", "--steps", "1", "--precision", "fp16", "--threads", "1"});
    CHECK(contains(out, "), 4 examples a step; all multiplications in fp32\n"));
}

TEST_CASE("a recipe may have a precision of its own") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    CHECK(contains(train_small(run, {"--batch", "4", "--steps", "1", "--set", "training.precision=tf32",
                                     "--round-operands"}),
                   "; all multiplications in tf32\n"));
    CHECK(contains(read_text(run / "config.toml"), "precision = 'tf32'\n"));
    CHECK(contains(run_towers({"recipe", "describe", (run / "recipe.toml").string()}).out,
                   "products round their operands to tf32, where a device has units for it\n"));
    CHECK_FALSE(contains(run_towers({"recipe", "describe", "cifar10-tutorial"}).out, "operands"));
}

TEST_CASE("a resumed run keeps its precision, and another one is told") {
    const TemporaryFolder folder;
    const fs::path whole = folder / "whole", parts = folder / "parts";
    const Arguments flags = Arguments{"--batch", "4"} + rounding;
    train_small(whole, flags + Arguments{"--steps", "4"});
    train_small(parts, flags + Arguments{"--steps", "2"});
    const std::string kept = train_small(parts, {"--resume", "--steps", "4"});
    CHECK(contains(kept, all_in_bf16));
    CHECK_FALSE(contains(kept, "changed"));
    check_same(whole, parts, 4);

    const std::string other = train_small(parts, {"--resume", "--steps", "5", "--precision", "fp32"});
    CHECK(contains(other, "changed: precision from 'bf16' to 'fp32'\n"));
    CHECK_FALSE(contains(other, "multiplications"));
    CHECK(precisions_of(parts) ==
          std::vector<std::string>{"start in bf16", "resume in bf16", "resume in fp32"});
    CHECK(contains(settings_in(checkpoint(parts, 5)), "precision = 'fp32'\n"));

    // A checkpoint of an early version names none.
    RawTensors file = RawTensors::read(checkpoint(parts, 5));
    std::string settings = file.header["__metadata__"]["settings"];
    for (const std::string line : {"precision = 'fp32'\n", "round-operands = false\n"})
        settings.erase(settings.find(line), line.size());
    file.header["__metadata__"]["settings"] = settings;
    write_text(checkpoint(parts, 5), file.bytes());
    write_text(parts / "config.toml", "steps = 5\n");
    CHECK_FALSE(contains(train_small(parts, {"--resume", "--steps", "6"}), "changed"));
    CHECK(contains(train_small(parts, Arguments{"--resume", "--steps", "7"} + rounding),
                   "changed: precision from 'fp32' to 'bf16'\n"));
}

TEST_CASE("eval, predict and report use the run's precision unless they are told another") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, Arguments{"--batch", "4", "--steps", "1"} + rounding);
    const auto scores = [&](const Arguments& flags) {
        const Outcome outcome = run_towers(
            Arguments{"predict", run.string(), (source_folder() / "tests/fixtures/pictures").string(),
                      "--towers", "cpu", "--json", "--scores", "--skip-broken"} +
            flags);
        CHECK(outcome.code == 0);
        return outcome.out;
    };
    const std::string own = scores({}), exact = scores({"--precision", "fp32"});
    const auto same = [](const std::string& a, const std::string& b) { return a == b; }; // they are long
    CHECK(same(own, scores(rounding)));
    CHECK_FALSE(same(own, exact));
    CHECK_FALSE(same(own, scores({"--precision", "tf32"})));
    CHECK_FALSE(same(own, scores({"--precision", "fp16", "--round-operands", "on"})));
    CHECK(same(exact, scores({"--precision", "fp16", "--round-operands", "off"})));
    const Arguments cpu{"--towers", "cpu"};
    for (const Arguments& flags : {Arguments{}, rounding, Arguments{"--precision", "fp32"}}) {
        check_worked(run_towers(Arguments{"eval", run.string()} + cpu + flags));
        check_worked(run_towers(Arguments{"report", run.string()} + cpu + flags));
    }
}

TEST_CASE("bench says what it rounds, and compares only what rounds alike") {
    const TemporaryFolder folder;
    const std::string json = (folder / "b.json").string();
    const Arguments bench{"bench",     "--batch", "4",        "--repetitions", "1",         "--steps", "1",
                          "--warm-up", "1",       "--towers", "cpu",           "--threads", "1"};
    const Outcome outcome = run_towers(bench + rounding + Arguments{"--json", json});
    check_worked(outcome);
    CHECK(contains(outcome.out, ", CPU threads: 1, bf16 products, rounded on the cpu\n"));
    CHECK(contains(outcome.out, all_in_bf16));
    const Json report = Json::parse(read_text(json));
    CHECK(report.at("settings").at("precision") == "bf16");
    CHECK(report.at("settings").at("round_operands") == true);
    CHECK(report.at("devices").at(0).at("multiplications") == Json{{{"operands", "bf16"}, {"part", 1.0}}});
    check_failed(run_towers(bench + Arguments{"--baseline", json}), 1,
                 "its precision is bf16, here it is fp32");
}

TEST_CASE("parity names the precision of each product, and a device agrees with itself in each") {
    for (const std::string precision : {"tf32", "bf16"}) {
        CAPTURE(precision);
        const Outcome outcome = run_towers({"parity", "--towers", "cpu,cpu", "--batch", "2", "--steps", "2",
                                            "--precision", precision, "--round-operands"});
        check_worked(outcome);
        CHECK(contains(outcome.out, "cpu: all multiplications in " + precision + "\n"));
        for (const std::string& line : lines_of(outcome.out))
            if (line.starts_with("conv1 forward ") || line.starts_with("local3 data gradient "))
                CHECK(line.ends_with("  " + precision));
            else if (line.starts_with("norm1 forward "))
                CHECK(line.ends_with(" 0"));
    }
}

TEST_CASE("a device in fp32 agrees with one that rounds within what its operands round") {
    const std::string device = quick_device();
    if (device.empty()) return;
    for (const std::string precision : {"tf32", "bf16", "fp16"}) {
        CAPTURE(precision);
        const Outcome outcome = run_towers({"parity", "--towers", "cpu," + device, "--batch", "4", "--steps",
                                            "1", "--precision", precision, "--round-operands"});
        CAPTURE(outcome.out);
        check_worked(outcome);
        CHECK(contains(outcome.out, "cpu: all multiplications in " + precision + "\n"));
        for (const std::string& line : lines_of(outcome.out))
            if (line.starts_with("conv1 forward ") &&
                !contains(outcome.out, device + ": all multiplications in " + precision))
                CHECK(line.ends_with("  " + precision + " beside fp32"));
    }
}

TEST_CASE("a step that diverged in bf16 is repeated in bf16") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    check_failed(run_towers(Arguments{"train", "--towers", "cpu", "--batch", "2", "--lr", "1e30", "--steps",
                                      "5", "--run", run.string()} +
                            small_data() + rounding),
                 1, "done again on cpu, the step is first not finite in ");
    const std::string file = (run / "diverged-1.safetensors").string();
    const auto replay = [&](const Arguments& flags) {
        const Outcome outcome = run_towers(Arguments{"replay", file, "--towers", "cpu"} + flags);
        check_worked(outcome);
        return lines_of(outcome.out).at(0);
    };
    CHECK(replay({}).ends_with(", seed 1, bf16 products"));
    CHECK(replay({"--round-operands", "off"}).ends_with(", seed 1, bf16 products"));
    CHECK(replay({"--precision", "fp32"}).ends_with(", seed 1"));
    RawTensors broken = RawTensors::read(file);
    CHECK(broken.header["__metadata__"]["round_operands"] == "true");
    broken.header["__metadata__"]["precision"] = "half";
    write_text(file, broken.bytes());
    check_failed(run_towers({"replay", file, "--towers", "cpu"}), 1, "'half' is no precision");
}

TEST_CASE("a run in fp16 tells once that its gradients overflowed, and loses no step") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    const Arguments fp16{"--batch", "2", "--precision", "fp16", "--round-operands"};
    CHECK_FALSE(contains(train_small(run, fp16 + Arguments{"--steps", "1"}), "overflowed"));
    RawTensors file = RawTensors::read(checkpoint(run, 1));
    file.header["__metadata__"]["loss_scale"] = "1.329227995784916e+36"; // 2^120
    write_text(checkpoint(run, 1), file.bytes());
    const std::string out = train_small(run, {"--resume", "--steps", "4", "--progress", "log"});
    CHECK(
        contains(out, ": step 1, gradients overflowed with a loss scale of 1.329228e+36: taken again with "));
    const std::size_t first = out.find("overflowed");
    CHECK(out.find("overflowed", first + 1) == std::string::npos);
    CHECK(contains(read_text(run / "times.jsonl"), "gradients overflowed"));
    const auto all = metrics(run);
    REQUIRE(all.size() == 4);
    for (std::size_t step = 1; step < 4; ++step) {
        CHECK(all[step].at("step") == step);
        CHECK(all[step].at("loss_scale") < 1e36);
    }
}

TEST_CASE("an activation that fp16 does not hold is blamed, and bf16 goes on from the same checkpoint") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--batch", "2", "--steps", "1"});
    RawTensors file = RawTensors::read(checkpoint(run, 1));
    const std::size_t begin = file.header["local3/biases"]["data_offsets"][0];
    const float large = 1e5f; // more than 65504: an activation of local3, an operand of local4
    std::memcpy(file.data.data() + begin, &large, sizeof large);
    file.forget_checksum();
    write_text(checkpoint(run, 1), file.bytes());
    fs::copy(run, folder / "other", fs::copy_options::recursive);

    const Arguments resume{"--resume", "--steps", "3", "--round-operands", "--precision"};
    const auto goes_on = [&](const fs::path& from, const std::string& precision) {
        return run_towers(Arguments{"train", "--run", from.string()} + resume + Arguments{precision});
    };
    const Outcome outcome = goes_on(run, "fp16");
    check_failed(outcome, 1,
                 "in step 1; try a smaller --lr, or --precision bf16: numbers above 65504 are "
                 "infinite in fp16; done again on cpu, the step is first not finite in tensor "
                 "'local4/relu'");
    CHECK(contains(outcome.err, "the loss of tower_0 (cpu)"));
    CHECK_FALSE(contains(outcome.out, "overflowed")); // no loss scale helps, so none is tried
    for (const std::string precision : {"fp16", "bf16"}) {
        const Outcome replayed = run_towers({"replay", (run / "diverged-1.safetensors").string(), "--towers",
                                             "cpu", "--round-operands", "on", "--precision", precision});
        check_worked(replayed);
        const std::string row = lines_of(replayed.out).back();
        CHECK(contains(row, precision == "fp16" ? " yes " : " no "));
        CHECK(contains(row, " local4 forward ") == (precision == "fp16"));
    }
    CHECK(goes_on(folder / "other", "bf16").code == 0);
}

TEST_CASE("a precision that there is not is refused by every command") {
    check_failed(run_towers({"eval", "none", "--precision", "bf16", "--round-operands=maybe"}), 2,
                 "--round-operands 'maybe': give on or off");
    for (const Arguments& command : {Arguments{"train", "--towers", "cpu"},
                                     {"eval", "none"},
                                     {"predict", "none", "picture.png"},
                                     {"bench"},
                                     {"parity", "--towers", "cpu,cpu"},
                                     {"report", "none"},
                                     {"replay", "none"}}) {
        CAPTURE(command[0]);
        check_failed(run_towers(command + Arguments{"--precision", "half"}), 2,
                     "--precision 'half': give fp32, tf32, bf16 or fp16");
    }
}
