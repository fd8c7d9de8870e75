// Training on a folder of pictures, as somebody with photos would.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <string>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// Two classes of pictures of several kinds in FOLDER/photos.
void make_photos(const fs::path& folder) {
    const fs::path from = source_folder() / "tests/fixtures/pictures";
    const char* const kinds[] = {"rgb.png",  "rgb.jpg",  "grey.jpg", "palette.png",      "progressive.jpg",
                                 "cmyk.jpg", "rgba.png", "grey.png", "orientation-6.jpg"};
    for (const char* name : {"caf\u00e9 noir", "dogs"}) {
        fs::create_directories(folder / "photos" / name);
        for (const char* kind : kinds) fs::copy_file(from / kind, folder / "photos" / name / kind);
    }
}

} // namespace

TEST_CASE("a folder of photos is described, trained on with some held out, evaluated and resumed") {
    const TemporaryFolder folder;
    make_photos(folder.path());
    const RunOptions here{.folder = folder.path()};
    const Outcome all = run_towers({"data", "describe", "photos"}, here);
    check_worked(all);
    CHECK(contains(all.out, "train: 18 pictures of 13x13 to 19x19\n  0 caf\u00e9 noir"));
    CHECK(contains(all.out, "test: none\n"));
    const Outcome split = run_towers({"data", "describe", "photos?size=12x10", "--hold-out", "40%"}, here);
    check_worked(split);
    CHECK(contains(split.out, "images of 12x10x3\n"));
    CHECK(!contains(split.out, "test: none"));
    check_failed(run_towers({"data", "describe", "photos", "--hold-out", "40"}, here), 2,
                 "--hold-out 40: give a percentage between 0 and 100, such as 10%");
    check_failed(run_towers({"data", "describe", "photos", "--format", "jpeg"}, here), 2,
                 "--format jpeg: there is no such format; choose one of cifar10, cifar100");

    const auto train = [&](const char* run, const char* steps, std::vector<std::string> more) {
        std::vector<std::string> words{"train", "--towers", "cpu", "--batch", "4", "--log-every",
                                       "1",     "--steps",  steps, "--run",   run};
        words.insert(words.end(), more.begin(), more.end());
        const Outcome outcome = run_towers(words, here);
        CHECK(outcome.code == 0);
        CAPTURE(outcome.err);
        CHECK(
            contains(outcome.err, "pictures of 13x13 to 19x19 become images of 28x28x1 for mnist-tutorial"));
    };
    const std::vector<std::string> data{"--recipe", "mnist-tutorial", "--data",
                                        "photos",   "--hold-out",     "40%"};
    train("whole", "4", data);
    train("parts", "2", data);
    train("parts", "4", {"--resume"});
    CHECK(read_text(folder / "whole/metrics.jsonl") == read_text(folder / "parts/metrics.jsonl"));
    const Outcome held_out = run_towers({"eval", "--run", "parts", "--towers", "cpu"}, here);
    CHECK(held_out.code == 0);
    CHECK(contains(held_out.out, " examples, cross entropy"));
    CHECK(!contains(held_out.out, " of 18 examples"));
    const auto evaluate_on = [&](const char* source) {
        return lines_of(
            run_towers({"eval", "--run", "parts", "--towers", "cpu", "--data", source}, here).out)[1];
    };
    CHECK(evaluate_on("photos") == lines_of(held_out.out)[1]); // not those that it was trained on
    fs::copy(folder / "photos", folder / "others", fs::copy_options::recursive);
    CHECK(contains(evaluate_on("others"), " of 18 examples"));
    write_text(folder / "others/dogs/text.jpg", "this is no picture");
    const Outcome skipped =
        run_towers({"eval", "--run", "parts", "--towers", "cpu", "--data", "others", "--skip-broken"}, here);
    CHECK(contains(skipped.out, " of 18 examples"));
}

TEST_CASE("a broken picture is named before the first step, and may be skipped") {
    const TemporaryFolder folder;
    make_photos(folder.path());
    write_text(folder / "photos/dogs/text.jpg", "this is no picture");
    const RunOptions here{.folder = folder.path()};
    std::vector<std::string> words{"train",    "--towers",       "cpu",     "--batch", "4",
                                   "--recipe", "mnist-tutorial", "--steps", "2",       "--data",
                                   "photos",   "--run",          "run"};
    check_failed(
        run_towers(words, here), 1,
        "dogs/text.jpg is neither JPEG nor PNG; replace it, or leave broken pictures out with --skip-broken");
    CHECK(!fs::exists(folder / "run"));
    words.emplace_back("--skip-broken");
    const Outcome skipped = run_towers(words, here);
    CHECK(skipped.code == 0);
    CHECK(contains(skipped.err, "1 of 19 pictures are broken and left out, such as: "));
    CHECK(contains(read_text(folder / "run/config.toml"), "skip-broken = true\n"));
}
