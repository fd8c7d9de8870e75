// A run that was interrupted or is repeated must come to the same bits; else no experiment can be trusted.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

void check_resumes(const std::string& device, unsigned half, const std::string& batch) {
    const TemporaryFolder folder;
    const Arguments flags{"--towers", device, "--batch", batch};
    const auto steps = [](unsigned n) { return Arguments{"--steps", std::to_string(n)}; };
    train(folder / "whole", flags + steps(2 * half));
    train(folder / "parts", flags + steps(half));
    train(folder / "parts", flags + steps(2 * half) + Arguments{"--resume"});
    check_same(folder / "whole", folder / "parts", 2 * half);
    train(folder / "again", flags + steps(2 * half));
    check_same(folder / "whole", folder / "again", 2 * half);
}

} // namespace

TEST_CASE("two halves make the same run as a whole one, and a run repeated is the same: CPU") {
    check_resumes("cpu", 10, "8");
}

TEST_CASE("two halves make the same run as a whole one, and a run repeated is the same: two towers") {
    check_resumes("cpu,cpu", 4, "4");
}

TEST_SUITE("slow") {
    TEST_CASE("two halves make the same run as a whole one, and a run repeated is the same: another device") {
        if (quick_device().empty()) return;
        check_resumes(quick_device(), 3, "4");
    }
}

TEST_CASE("a run may change to other devices") {
    const TemporaryFolder folder;
    train(folder / "one", {"--steps", "4", "--batch", "8"});
    train(folder / "two", {"--steps", "2", "--batch", "8"});
    train(folder / "two", {"--steps", "4", "--batch", "4", "--towers", "cpu,cpu", "--resume"});
    // Not the same bits, and a tie in a pooling may be decided the other way.
    CHECK(relative_distance(variables(checkpoint(folder / "two", 4)),
                            variables(checkpoint(folder / "one", 4))) < 1e-3);
}

TEST_CASE("--resume goes on with the run's settings, and a flag overrides one") {
    const TemporaryFolder folder;
    const Arguments flags{"--batch",   "6",   "--lr",      "0.05", "--seed", "9",
                          "--distort", "off", "--shuffle", "off",  "--steps"};
    train(folder / "whole", flags + Arguments{"8"});
    train(folder / "parts", flags + Arguments{"4"});
    const std::string parts = (folder / "parts").string();
    check_worked(run_towers({"train", "--resume", "--run", parts})); // to the step where it is already
    CHECK(metrics(parts).size() == 4);
    check_worked(run_towers({"train", "--resume", "--run", parts, "--steps", "8"}));
    check_same(folder / "whole", parts, 8);
    CHECK(read_text(folder / "whole/config.toml") == read_text(folder / "parts/config.toml"));

    check_worked(run_towers({"train", "--resume", "--run", parts, "--steps", "10", "--lr", "0.01"}));
    const auto lines = metrics(parts);
    REQUIRE(lines.size() == 10);
    CHECK(lines[7].at("learning_rate") == doctest::Approx(0.05));
    CHECK(lines[8].at("learning_rate") == doctest::Approx(0.01));
    CHECK(lines[9].at("examples") == 9 * 6);

    // Another seed would be another run.
    check_failed(run_towers({"train", "--resume", "--run", parts, "--steps", "11", "--seed", "8"}), 2,
                 "--seed 8");
    CHECK(metrics(parts).size() == 10);
}

TEST_CASE("a run whose config.toml is lost goes on with its checkpoint's seed") {
    const TemporaryFolder folder;
    const Arguments flags{"--batch", "4", "--steps"};
    train(folder / "whole", flags + Arguments{"4", "--seed", "9"});
    train(folder / "parts", flags + Arguments{"2", "--seed", "9"});
    fs::remove(folder / "parts/config.toml");
    train(folder / "parts", flags + Arguments{"4", "--resume"});
    check_same(folder / "whole", folder / "parts", 4);
    CHECK(read_text(folder / "whole/config.toml") == read_text(folder / "parts/config.toml"));
    fs::remove(folder / "parts/config.toml");
    check_failed(run_towers({"train", "--resume", "--run", (folder / "parts").string(), "--towers", "cpu",
                             "--seed", "1"}),
                 2, "--seed 1: " + checkpoint(folder / "parts", 4).string() + " was trained with seed 9");
}

TEST_CASE("a run does not go on with other data unnoticed") {
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
    // The same data may lie elsewhere, and other data where it lay.
    fs::copy(data, folder / "moved");
    std::string records = read_text(data / "data_batch_3.bin");
    records[1000] ^= 1; // of an image
    write_text(data / "data_batch_3.bin", records);
    check_refused({}, "as many examples, but others");
    train(run, {"--resume", "--data", (folder / "moved").string(), "--steps", "2"});

    // A checkpoint of before its data was noted goes on with whatever it is given.
    RawTensors file = RawTensors::read(checkpoint(run, 2));
    CHECK(file.header["__metadata__"].erase("checksum") == 1);
    CHECK(file.header["__metadata__"].erase("records") == 1);
    write_text(checkpoint(run, 2), file.bytes());
    train(run, {"--resume", "--data", more.string(), "--steps", "3"});
    CHECK(RawTensors::read(checkpoint(run, 3)).header["__metadata__"]["records"] == "25");
}

TEST_CASE("--epochs counts passes over the data, also of a run that was given --steps") {
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
    CHECK(lines[3].at("epoch") == 1); // it begins after 24 examples
}

TEST_CASE("--config of a run makes the same run again") {
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

TEST_CASE("a run that was stopped before its first step and then killed has each step once") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "0", "--batch", "2"});
    // What a kill leaves behind: metrics of steps that no checkpoint holds.
    write_text(run / "metrics.jsonl", "{\"step\":0}\n{\"step\":1}\n{\"st");
    train(run, {"--steps", "2", "--batch", "2", "--resume"});
    train(folder / "whole", {"--steps", "2", "--batch", "2"});
    check_same(folder / "whole", run, 2);
}
