// A run goes on only from what is sound and its own.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cstdlib>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("if the newest checkpoint is damaged, the error names it and the sound one before it") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--batch", "2", "--steps", "3", "--save-every", "1"});
    train_small(folder / "whole", {"--batch", "2", "--steps", "4", "--save-every", "1"});
    fs::resize_file(checkpoint(run, 3), 1'000'000);
    fs::resize_file(checkpoint(run, 2), 10);
    const Outcome outcome = run_towers({"train", "--resume", "--run", run.string(), "--steps", "4"});
    check_failed(outcome, 1, checkpoint(run, 3).string() + " is not a sound");
    CHECK(
        contains(outcome.err, checkpoint(run, 1).string() + " is sound: go on from it with --resume-from 1"));
    train_small(run, {"--resume-from", "1", "--steps", "4"});
    check_same(folder / "whole", run, 4);
    CHECK(fs::file_size(run / "replaced-1/model.ckpt-3.safetensors") == 1'000'000);
}

TEST_CASE("a run does not resume from numbers that are infinite or NaN") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--batch", "2", "--steps", "2", "--save-every", "1"});
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
    train_small(run, {"--resume-from", "1", "--steps", "3"});
}

TEST_CASE("a flipped bit is noticed, and the sound checkpoint before it is named") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--batch", "2", "--steps", "2", "--save-every", "1"});
    RawTensors file = RawTensors::read(checkpoint(run, 2));
    file.data[1'000'000] ^= 0x10;
    write_text(checkpoint(run, 2), file.bytes());
    check_failed(run_towers({"train", "--resume", "--run", run.string(), "--steps", "3"}), 1,
                 checkpoint(run, 1).string() + " is sound: go on from it with --resume-from 1");
    // Checkpoints of early versions have no checksum.
    file.forget_checksum();
    write_text(checkpoint(run, 2), file.bytes());
    train_small(run, {"--resume", "--steps", "3"});
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
    train_small(run, {"--data", data.string(), "--batch", "2", "--steps", "1"});
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
    train_small(run, {"--resume", "--data", (folder / "moved").string(), "--steps", "2"});

    // A checkpoint from before towers recorded the data accepts any data.
    RawTensors file = RawTensors::read(checkpoint(run, 2));
    CHECK(file.header["__metadata__"].erase("checksum") == 1);
    CHECK(file.header["__metadata__"].erase("records") == 1);
    write_text(checkpoint(run, 2), file.bytes());
    train_small(run, {"--resume", "--data", more.string(), "--steps", "3"});
    CHECK(RawTensors::read(checkpoint(run, 3)).header["__metadata__"]["records"] == "25");
}
