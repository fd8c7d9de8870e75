// A trained network must leave for other programs as it is, or with one line that says why not.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// A short run whose averages differ from its variables.
const TemporaryFolder& small_run() {
    static const TemporaryFolder folder;
    if (!fs::exists(folder / "run")) train_small(folder / "run", {"--steps", "2", "--batch", "4"});
    return folder;
}

} // namespace

TEST_CASE("export writes an ONNX model of the averages, or with --raw of the variables themselves") {
    const TemporaryFolder& folder = small_run();
    const std::string run = folder / "run", file = folder / "model.onnx";
    const Outcome outcome = run_towers({"export", run, "--onnx", file});
    check_worked(outcome);
    CHECK(outcome.out ==
          "wrote " + file +
              ": cifar10-tutorial, step 2, moving averages of the variables; takes pictures of "
              "32x32x3, 0 to 255\n");
    const std::string averages = read_text(file);
    check_worked(run_towers({"export", checkpoint(run, 2), "--onnx", file}));
    CHECK(read_text(file) == averages);
    check_worked(run_towers({"export", run, "--onnx", file, "--raw"}));
    const std::string raw = read_text(file);
    CHECK(raw != averages);
    // Biases are in the file as in the checkpoint.
    for (const auto& [name, text] : {std::pair("/ExponentialMovingAverage", &averages), {"", &raw}}) {
        const std::vector<float> biases =
            RawTensors::read(checkpoint(run, 2)).values(std::string("local3/biases") + name);
        const std::string_view bytes(reinterpret_cast<const char*>(biases.data()),
                                     biases.size() * sizeof(float));
        CHECK(contains(*text, bytes));
    }
}

TEST_CASE("export to standard output writes nothing but the model there") {
    const TemporaryFolder& folder = small_run();
    const std::string run = folder / "run", file = folder / "model.onnx";
    check_worked(run_towers({"export", run, "--onnx", file}));
    const Outcome outcome = run_towers({"export", run, "--onnx", "-"});
    CHECK(outcome.code == 0);
    CHECK(outcome.out == read_text(file));
    CHECK(contains(outcome.err, "wrote -: cifar10-tutorial"));
}

TEST_CASE("export refuses in one line what it cannot do, and leaves an earlier file") {
    const TemporaryFolder& folder = small_run();
    const std::string run = folder / "run", file = folder / "kept.onnx";
    write_text(file, "earlier");
    const auto refused = [&](int code, const Arguments& flags, std::string_view text) {
        CAPTURE(text);
        check_failed(run_towers(Arguments{"export"} + flags), code, text);
    };
    refused(2, {run}, "give --onnx FILE or --torch FILE.py");
    refused(2, {"--onnx", file}, "give the model: the folder of a run, or a checkpoint file");
    refused(1, {folder / "nowhere", "--onnx", file}, "nowhere");
    refused(1, {folder.path(), "--onnx", file}, folder.path().string());
    refused(1, {file, "--onnx", folder / "new.onnx"}, "kept.onnx");
    refused(1, {run, "--onnx", folder / "nowhere/model.onnx"}, "nowhere/model.onnx");
    refused(1, {run, "--onnx", folder.path()}, folder.path().string());
    refused(2, {run, "--onnx", file, "--picture-size", "32"}, "--picture-size '32': give HEIGHTxWIDTH");
    refused(2, {run, "--onnx", file, "--picture-size", "8x8"}, "pictures of 8x8 are smaller");
    refused(2, {run, "--onnx", file, "--picture-size", "32x32", "--prepared"}, "give one of them");
    refused(1, {run, "--onnx", file, "--recipe", "cifar10-fast"}, "cifar10-fast");
    CHECK(read_text(file) == "earlier");
    CHECK(!fs::exists(folder / "new.onnx"));
}

TEST_CASE("export to a full disk leaves the earlier file") {
    const TemporaryFolder& folder = small_run();
    write_text(folder / "full.onnx", "earlier");
    const Outcome outcome =
        run_towers({"export", folder / "run", "--onnx", folder / "full.onnx"}, {.largest_file = 100'000});
    check_failed(outcome, 1, "full.onnx");
    CHECK(read_text(folder / "full.onnx") == "earlier");
    for (const std::string& name : names_in(folder.path())) CHECK(!contains(name, ".tmp-"));
}

TEST_CASE("export names the newest sound checkpoint if the latest is damaged") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--steps", "2", "--batch", "4"});
    fs::resize_file(checkpoint(run, 2), 5000);
    const Outcome outcome = run_towers({"export", run, "--onnx", folder / "model.onnx"});
    check_failed(outcome, 1, "give " + checkpoint(run, 0).string() + ", which is sound");
    CHECK(!fs::exists(folder / "model.onnx"));
}
