// An interrupted or repeated run must end with the same bits; otherwise no experiment can be trusted.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

void check_resumes(const std::string& device, unsigned half, const std::string& batch) {
    const TemporaryFolder folder;
    const Arguments flags{"--towers", device, "--shares", "even", "--batch", batch};
    const auto steps = [](unsigned n) { return Arguments{"--steps", std::to_string(n)}; };
    train(folder / "whole", flags + steps(2 * half));
    train(folder / "parts", flags + steps(half));
    train(folder / "parts", flags + steps(2 * half) + Arguments{"--resume"});
    check_same(folder / "whole", folder / "parts", 2 * half);
    train(folder / "again", flags + steps(2 * half));
    check_same(folder / "whole", folder / "again", 2 * half);
}

} // namespace

TEST_CASE("two halves give the same run as a whole one, and so does a repetition: CPU") {
    check_resumes("cpu", 10, "8");
}

TEST_CASE("two halves give the same run as a whole one, and so does a repetition: two towers") {
    check_resumes("cpu,cpu", 4, "4");
}

TEST_SUITE("slow") {
    TEST_CASE("two halves give the same run as a whole one, and so does a repetition: another device") {
        if (quick_device().empty()) return;
        check_resumes(quick_device(), 3, "4");
    }
}

TEST_CASE("a resumed run may use other devices") {
    const TemporaryFolder folder;
    train(folder / "one", {"--steps", "4", "--batch", "8"});
    train(folder / "two", {"--steps", "2", "--batch", "8"});
    train(folder / "two", {"--steps", "4", "--batch", "4", "--towers", "cpu,cpu", "--resume"});
    // The bits differ, and a tie in a pooling window may be decided the other way.
    CHECK(relative_distance(variables(checkpoint(folder / "two", 4)),
                            variables(checkpoint(folder / "one", 4))) < 1e-3);
}

TEST_CASE("a run whose shares follow its towers' speed goes on with its last ones, and can be repeated") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run", again = folder / "again";
    const Arguments flags{"--towers", "cpu,cpu", "--batch", "8"};
    train(run, flags + Arguments{"--shares", "5:3", "--steps", "2"});
    write_text(run / "metrics.jsonl",
               read_text(run / "metrics.jsonl") + "{\"step\":"); // as a crash leaves it
    std::string out =
        run_towers({"train", "--run", run.string(), "--resume", "--shares", "auto", "--steps", "3"}).out;
    CAPTURE(out);
    CHECK(contains(out, "changed: shares from '5:3' to 'auto'"));
    CHECK(contains(out, "), 10 examples a step"));
    // Of other towers they say nothing.
    out = run_towers({"train", "--run", run.string(), "--resume", "--towers", "cpu,cpu,cpu", "--steps", "4"})
              .out;
    CHECK(contains(out, "changed: towers from 'cpu,cpu' to 'cpu,cpu,cpu'"));
    CHECK(contains(out, "tower_2: cpu ("));
    CHECK(metrics(run).back().at("shares").size() == 3);

    const fs::path recorded = folder / "recorded.jsonl";
    write_text(
        recorded,
        "{\"step\":0,\"shares\":[9,7]}\n{\"step\":2,\"shares\":[16,0]}\n{\"step\":3,\"shares\":[2,14]}\n");
    const Arguments recording{"--shares", fmt::format("@{}", recorded.string())};
    train(again, flags + recording + Arguments{"--steps", "5"});
    const auto lines = metrics(again);
    REQUIRE(lines.size() == 5);
    CHECK(lines[1].at("shares").get<std::vector<unsigned>>() == std::vector{9u, 7u});
    CHECK(lines[2].at("shares").get<std::vector<unsigned>>() == std::vector{16u, 0u});
    CHECK(lines[2].at("tower_losses")[1].is_null());
    CHECK(lines[4].at("shares").get<std::vector<unsigned>>() == std::vector{2u, 14u});
    train(folder / "repeated",
          flags +
              Arguments{"--shares", fmt::format("@{}", (again / "metrics.jsonl").string()), "--steps", "5"});
    CHECK(read_text(folder / "repeated" / "metrics.jsonl") == read_text(again / "metrics.jsonl"));
    CHECK(variables(checkpoint(folder / "repeated", 5)) == variables(checkpoint(again, 5)));
    // A folder means its metrics, and behind their last step the shares stay.
    const fs::path longer = folder / "longer";
    train(longer, flags + Arguments{"--shares", fmt::format("@{}", again.string()), "--steps", "7"});
    CHECK(contains(read_text(longer / "config.toml"), (again / "metrics.jsonl").string()));
    CHECK(read_text(longer / "metrics.jsonl").starts_with(read_text(again / "metrics.jsonl")));
    CHECK(metrics(longer)[6].at("shares").get<std::vector<unsigned>>() == std::vector{2u, 14u});
    const auto refused = [&](const std::string& file, const std::string& why) {
        check_failed(run_towers(Arguments{"train", "--run", again.string(), "--resume", "--steps", "9",
                                          "--shares", fmt::format("@{}", file)}),
                     2, why);
    };
    refused("", "there is no such file");
    refused((folder / "none").string(), "there is no such file");
    refused(folder.path().string(), "the folder has no metrics.jsonl; give @ and the path of a run");
    refused((again / "metrics.jsonl").string(), "this run is going to change the file");
    refused(again.string(), "this run is going to change the file");
    const auto refused_text = [&](const std::string& text, const std::string& why) {
        write_text(recorded, text);
        check_failed(run_towers(Arguments{"train", "--run", (folder / "bad").string()} + flags + recording),
                     2, why);
    };
    refused_text("{\"step\":0,\"shares\":[-4,20]}\n",
                 "--shares: " + recorded.string() + ":1: is no line of a run's metrics.jsonl");
    refused_text("no metrics\n", "recorded.jsonl:1: is no line of a run's metrics.jsonl");
    refused_text("{\"step\":0}\n", "the file tells of no shares");
    refused_text("{\"step\":7,\"shares\":[4,20]}\n", "from step 7 on they were 4:20");
    refused_text("{\"step\":7,\"shares\":[4,8,4]}\n", "from step 7 on they were 4:8:4");
}

TEST_CASE("--resume uses the run's settings, and a flag overrides one") {
    const TemporaryFolder folder;
    const Arguments flags{"--batch",   "6",   "--lr",      "0.05", "--seed", "9",
                          "--distort", "off", "--shuffle", "off",  "--steps"};
    train(folder / "whole", flags + Arguments{"8"});
    train(folder / "parts", flags + Arguments{"4"});
    const std::string parts = (folder / "parts").string();
    check_worked(
        run_towers({"train", "--resume", "--run", parts})); // to the step that it has already reached
    CHECK(metrics(parts).size() == 4);
    // Flags that the run never trained with do not become its settings.
    const auto before = contents(parts);
    const Outcome nothing = run_towers({"train", "--resume", "--run", parts, "--steps", "2", "--lr", "0.5",
                                        "--distort", "on", "--batch", "3"});
    check_worked(nothing);
    CHECK(contains(nothing.out, "nothing to do: 2 steps are asked for, and " + checkpoint(parts, 4).string() +
                                    " has 4; "));
    const bool untouched = contents(parts) == before;
    CHECK(untouched);
    check_failed(run_towers({"train", "--resume", "--run", parts, "--steps", "8", "--init", "x"}), 2,
                 "--init: a resumed run starts from its checkpoint's variables");
    check_failed(run_towers({"train", "--resume", "--run", parts, "--steps", "8", "--init",
                             checkpoint(parts, 0).string()}),
                 2, "--init");
    check_worked(run_towers({"train", "--resume", "--run", parts, "--steps", "8"}));
    check_same(folder / "whole", parts, 8);
    CHECK(read_text(folder / "whole/config.toml") == read_text(folder / "parts/config.toml"));

    check_worked(run_towers({"train", "--resume", "--run", parts, "--steps", "10", "--lr", "0.01"}));
    const auto lines = metrics(parts);
    REQUIRE(lines.size() == 10);
    CHECK(lines[7].at("learning_rate") == doctest::Approx(0.05));
    CHECK(lines[8].at("learning_rate") == doctest::Approx(0.01));
    CHECK(lines[9].at("examples") == 9 * 6);

    // Another seed would make it another run.
    check_failed(run_towers({"train", "--resume", "--run", parts, "--steps", "11", "--seed", "8"}), 2,
                 "--seed 8");
    CHECK(metrics(parts).size() == 10);
}

TEST_CASE("a run whose config.toml is lost or empty resumes with its checkpoint's settings") {
    const TemporaryFolder folder;
    const Arguments flags{"--towers", "cpu,cpu", "--shares", "3:1",       "--batch", "4",         "--lr",
                          "0.05",     "--seed",  "9",        "--distort", "off",     "--shuffle", "off"};
    train(folder / "whole", flags + Arguments{"--steps", "4"});
    train(folder / "parts", flags + Arguments{"--steps", "2"});
    const fs::path parts = folder / "parts";
    const auto resume = [&](const Arguments& more) {
        return run_towers(Arguments{"train", "--resume", "--run", parts.string(), "--log-every", "1"} + more);
    };
    fs::remove(parts / "config.toml");
    check_failed(resume({}), 2,
                 "--steps: " + (parts / "config.toml").string() + " does not say how long to train");
    check_failed(resume({"--steps", "4", "--seed", "1"}), 2,
                 "--seed 1: " + checkpoint(parts, 2).string() + " was trained with seed 9");
    check_worked(resume({"--steps", "3"}));
    write_text(parts / "config.toml", "");
    check_worked(resume({"--steps", "4"}));
    check_same(folder / "whole", parts, 4);
    CHECK(read_text(folder / "whole/config.toml") == read_text(parts / "config.toml"));

    // A checkpoint of an early version does not hold its settings, and towers does not guess them.
    RawTensors file = RawTensors::read(checkpoint(parts, 4));
    CHECK(file.header["__metadata__"].erase("settings") == 1);
    write_text(checkpoint(parts, 4), file.bytes());
    check_worked(resume({"--steps", "5"}));
    file.header["__metadata__"]["step"] = "6";
    write_text(checkpoint(parts, 6), file.bytes());
    fs::remove(parts / "config.toml");
    check_failed(resume({"--steps", "7"}), 1, "says which settings the run was trained with");
    check_worked(resume({"--steps", "7", "--config", (folder / "whole/config.toml").string()}));
}

TEST_CASE("a run resumed on other towers keeps its global batch, and says what changed") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--towers", "cpu,cpu,cpu", "--shares", "2:1:1", "--batch", "4", "--steps", "1"});
    const auto resume = [&](const Arguments& flags) {
        const Outcome outcome =
            run_towers(Arguments{"train", "--resume", "--run", run.string(), "--log-every", "1"} + flags);
        check_worked(outcome);
        return outcome.out;
    };
    const auto examples = [&] { return metrics(run).back().at("examples").get<unsigned>(); };
    std::string out = resume({"--steps", "3", "--towers", "cpu"});
    CAPTURE(out);
    CHECK(contains(out, "tower_0: cpu ("));
    CHECK(contains(out, "), 12 examples a step"));
    CHECK(contains(out, "changed: towers from 'cpu,cpu,cpu' to 'cpu'"));
    CHECK(contains(out, "changed: shares from '2:1:1' to none"));
    CHECK(contains(out, "the global batch stays at 12 examples a step"));
    CHECK(examples() == 24);
    CHECK(contains(read_text(run / "config.toml"), "global-batch = 12\n"));

    // Also a global batch that the towers cannot share evenly.
    out = resume({"--steps", "5", "--towers", "cpu,cpu,cpu,cpu,cpu"});
    CHECK(examples() == 48);
    out = resume({"--steps", "7", "--global-batch", "15"});
    CHECK(contains(out, "changed: global batch from 12 to 15 examples a step"));
    CHECK(examples() == 60 + 15);
    // --batch sets the batch per tower, and the same towers keep their shares.
    out = resume({"--steps", "9", "--towers", "cpu,cpu", "--batch", "4", "--shares", "3:1"});
    CHECK(contains(out, "changed: global batch from 15 to 8 examples a step"));
    out = resume({"--steps", "11", "--towers", "cpu,cpu"});
    CHECK_FALSE(contains(out, "changed"));
    CHECK(contains(out, "tower_0: cpu ("));
    CHECK(contains(out, "), 6 examples a step"));
    CHECK(contains(out, "), 2 examples a step"));
}

TEST_CASE("a run's shares, towers and rate are those of where it goes on, and what changed is said") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run,
          {"--towers", "cpu,cpu", "--shares", "3:1", "--batch", "4", "--steps", "4", "--save-every", "2"});
    const auto resume = [&](const Arguments& flags) {
        const Outcome outcome = run_towers(Arguments{"train", "--run", run.string()} + flags);
        check_worked(outcome);
        return outcome.out;
    };
    resume({"--resume", "--towers", "cpu", "--lr", "0.01", "--steps", "6"});
    // The checkpoint of step 4 was trained otherwise than config.toml says since.
    const std::string out = resume({"--resume-from", "4"});
    CAPTURE(out);
    CHECK(contains(out, "changed: towers from 'cpu,cpu' to 'cpu'"));
    CHECK(contains(out, "changed: shares from '3:1' to none"));
    CHECK(contains(out, "changed: lr from 0.1 to 0.01"));
    CHECK(contains(out, "the global batch stays at 8 examples a step"));
    CHECK_FALSE(contains(resume({"--resume", "--steps", "8"}), "changed"));

    // A configuration's shares are of its own towers.
    write_text(folder / "c.toml", "towers = 'cpu,cpu'\nshares = '3:1'\nbatch = 4\nsteps = 1\n");
    train(folder / "other", {"--config", (folder / "c.toml").string(), "--towers", "cpu"});
    // One that a user has edited is read as it is.
    std::string edited = read_text(run / "config.toml");
    edited.replace(edited.find("towers = 'cpu'"), 14, "backend = 'cpu'");
    write_text(run / "config.toml", edited);
    CHECK_FALSE(contains(resume({"--resume", "--steps", "9"}), "changed"));
}

TEST_CASE("a path that is not UTF-8 survives in the settings") {
    const TemporaryFolder folder;
    const fs::path data = folder / "caf\xe9 100%", run = folder / "run";
    write_records(data, 4);
    train(run, {"--data", data.string(), "--batch", "2", "--steps", "1"});
    CHECK(contains(read_text(run / "config.toml"), "/caf%E9%20100%25'"));
    check_worked(run_towers({"train", "--resume", "--run", run.string(), "--steps", "2"}));
    check_worked(run_towers({"eval", "--run", run.string()}));
    check_worked(run_towers({"parity", "--towers", "cpu,cpu", "--batch", "2", "--steps", "0", "--data",
                             data.string(), "--json", (folder / "json").string()}));
}

TEST_CASE("if the newest checkpoint is damaged, the error names it and the sound one before it") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--batch", "2", "--steps", "3", "--save-every", "1"});
    train(folder / "whole", {"--batch", "2", "--steps", "4", "--save-every", "1"});
    fs::resize_file(checkpoint(run, 3), 1'000'000);
    fs::resize_file(checkpoint(run, 2), 10);
    const Outcome outcome = run_towers({"train", "--resume", "--run", run.string(), "--steps", "4"});
    check_failed(outcome, 1, checkpoint(run, 3).string() + " is not a sound");
    CHECK(
        contains(outcome.err, checkpoint(run, 1).string() + " is sound: go on from it with --resume-from 1"));
    train(run, {"--resume-from", "1", "--steps", "4"});
    check_same(folder / "whole", run, 4);
    CHECK(fs::file_size(run / "replaced-1/model.ckpt-3.safetensors") == 1'000'000);
}

TEST_CASE("a run does not go on from numbers that are infinite or NaN") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--batch", "2", "--steps", "2", "--save-every", "1"});
    const RawTensors sound = RawTensors::read(checkpoint(run, 2));
    const std::string nan("\0\0\xc0\x7f", 4), infinite("\0\0\x80\xff", 4);
    for (const auto& [bits, value] : {std::pair{nan, "NaN"}, {infinite, "an infinite number"}}) {
        RawTensors file = sound;
        file.forget_checksum();
        const std::size_t begin = file.header["local3/biases"]["data_offsets"][0];
        file.data.replace(begin + 4 * sizeof(float), sizeof(float), bits);
        write_text(checkpoint(run, 2), file.bytes());
        for (const Arguments& flags : {Arguments{"--resume"}, Arguments{"--resume-from", "2"}}) {
            const Outcome outcome =
                run_towers(Arguments{"train", "--run", run.string(), "--steps", "3"} + flags);
            check_failed(outcome, 1, checkpoint(run, 2).string() + ": tensor 'local3/biases' holds " + value);
            CHECK(contains(outcome.err,
                           checkpoint(run, 1).string() + " is sound: go on from it with --resume-from 1"));
        }
    }
    train(run, {"--resume-from", "1", "--steps", "3"});
}

TEST_CASE("a flipped bit is noticed, and the sound checkpoint before it is named") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--batch", "2", "--steps", "2", "--save-every", "1"});
    RawTensors file = RawTensors::read(checkpoint(run, 2));
    file.data[1'000'000] ^= 0x10;
    write_text(checkpoint(run, 2), file.bytes());
    check_failed(run_towers({"train", "--resume", "--run", run.string(), "--steps", "3"}), 1,
                 checkpoint(run, 1).string() + " is sound: go on from it with --resume-from 1");
    // Checkpoints of early versions have no checksum.
    file.forget_checksum();
    write_text(checkpoint(run, 2), file.bytes());
    train(run, {"--resume", "--steps", "3"});
}

TEST_CASE("metrics reach the disk before the checkpoint that follows them") {
    const TemporaryFolder folder;
    std::string sanitizer = "verify_asan_link_order=0"; // the log's library is not built with the sanitizer
    if (const char* const options = std::getenv("ASAN_OPTIONS")) sanitizer.append(":").append(options);
    const Outcome outcome =
        run_towers({"train", "--towers", "cpu", "--batch", "2", "--steps", "4", "--save-every", "2",
                    "--log-every", "1", "--run", (folder / "run").string()},
                   {.environment = {{"LD_PRELOAD", TOWERS_DISK_LOG},
                                    {"DISK_LOG", (folder / "log").string()},
                                    {"ASAN_OPTIONS", sanitizer}}});
    check_worked(outcome);
    bool written = false;
    unsigned checked = 0;
    for (const std::string& line : lines_of(read_text(folder / "log"))) {
        if (line == "write metrics.jsonl") written = true;
        if (line == "sync metrics.jsonl") written = false;
        if (line != "rename model.ckpt-2.safetensors" && line != "rename model.ckpt-4.safetensors") continue;
        CAPTURE(line);
        CHECK_FALSE(written);
        ++checked;
    }
    CHECK(checked == 2);
}

TEST_CASE("a run does not silently resume with other data") {
    const TemporaryFolder folder;
    const fs::path data = folder / "data", more = folder / "more", run = folder / "run";
    write_records(data, 4); // 20 training examples
    write_records(more, 5);
    train(run, {"--data", data.string(), "--batch", "2", "--steps", "1"});
    const auto before = contents(run);
    const auto check_refused = [&](const Arguments& flags, const std::string& why) {
        check_failed(
            run_towers(Arguments{"train", "--resume", "--run", run.string(), "--steps", "2"} + flags), 1,
            "--data: is not the data that " + checkpoint(run, 1).string() + " was trained on (" + why + ")");
        const bool untouched = contents(run) == before;
        CHECK(untouched);
    };
    check_refused({"--data", more.string()}, "25 examples, not 20");
    check_refused({"--data", "shapes"}, "10000 examples, not 20");
    // The same data may move elsewhere, and other data may take its place.
    fs::copy(data, folder / "moved");
    std::string records = read_text(data / "data_batch_3.bin");
    records[1000] ^= 1; // a byte of an image
    write_text(data / "data_batch_3.bin", records);
    check_refused({}, "equally many examples, but different ones");
    train(run, {"--resume", "--data", (folder / "moved").string(), "--steps", "2"});

    // A checkpoint from before towers recorded the data accepts any data.
    RawTensors file = RawTensors::read(checkpoint(run, 2));
    CHECK(file.header["__metadata__"].erase("checksum") == 1);
    CHECK(file.header["__metadata__"].erase("records") == 1);
    write_text(checkpoint(run, 2), file.bytes());
    train(run, {"--resume", "--data", more.string(), "--steps", "3"});
    CHECK(RawTensors::read(checkpoint(run, 3)).header["__metadata__"]["records"] == "25");
}

TEST_CASE("--epochs counts passes over the data, even in a run that started with --steps") {
    const TemporaryFolder folder;
    write_records(folder / "data", 4); // 20 training examples
    const fs::path run = folder / "run";
    train(run, {"--data", (folder / "data").string(), "--batch", "8", "--epochs", "1"});
    CHECK(fs::exists(checkpoint(run, 3)));
    train(run, {"--resume", "--epochs", "2"});
    CHECK(fs::exists(checkpoint(run, 5)));
    const auto lines = metrics(run);
    REQUIRE(lines.size() == 5);
    CHECK(lines[2].at("epoch") == 0);
    CHECK(lines[3].at("epoch") == 1); // this step starts after 24 examples
}

TEST_CASE("--config with a run's config.toml makes the same run again") {
    const TemporaryFolder folder;
    const fs::path first = folder / "first", second = folder / "second", third = folder / "third";
    // A learning rate that prints as a whole number must still be read as one.
    train(first, {"--towers", "cpu,cpu", "--shares", "3:1", "--batch", "4", "--lr", "1", "--seed", "3",
                  "--steps", "5", "--distort", "off", "--save-every", "2", "--keep", "1"});
    const std::string config = (first / "config.toml").string();
    check_worked(run_towers({"train", "--config", config, "--run", second.string()}));
    check_same(first, second, 5);
    const bool same_folder = contents(first) == contents(second);
    CHECK(same_folder);

    check_worked(
        run_towers({"train", "--config", config, "--run", third.string(), "--seed", "4", "--steps", "2"}));
    CHECK(metrics(third).size() == 2);
    CHECK(metrics(third)[0].at("loss") != metrics(first)[0].at("loss"));
}

TEST_CASE("a run that was stopped before its first step and then killed logs each step once") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "0", "--batch", "2"});
    // A kill leaves behind metrics of steps that no checkpoint contains.
    write_text(run / "metrics.jsonl", "{\"step\":0}\n{\"step\":1}\n{\"st");
    train(run, {"--steps", "2", "--batch", "2", "--resume"});
    train(folder / "whole", {"--steps", "2", "--batch", "2"});
    check_same(folder / "whole", run, 2);
}
