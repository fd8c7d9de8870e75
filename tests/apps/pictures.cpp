// Training on a folder of pictures, as somebody with photos would.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
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
    CHECK(
        contains(all.out, "train: 18 pictures of 13x13 to 19x19, as images of 64x64x3\n  0 caf\u00e9 noir"));
    CHECK(contains(all.out, "test: none\n"));
    const Outcome split = run_towers({"data", "describe", "photos?size=12x10", "--hold-out", "40%"}, here);
    check_worked(split);
    CHECK(contains(split.out, "images of 12x10x3\n"));
    CHECK(!contains(split.out, "test: none"));
    check_failed(run_towers({"data", "describe", "photos", "--hold-out", "40"}, here), 2,
                 "--hold-out 40: give a percentage; write 40%\n");
    check_failed(run_towers({"data", "describe", "photos", "--hold-out", "0.4"}, here), 2,
                 "--hold-out 0.4: give a percentage; write 40%\n");
    check_failed(run_towers({"data", "describe", "photos", "--hold-out", "100"}, here), 2,
                 "--hold-out 100: give a percentage between 0 and 100, such as 10%");
    check_failed(run_towers({"data", "describe", "photos", "--format", "jpeg"}, here), 2,
                 "--format jpeg: there is no such format; choose one of cifar10, cifar100");

    std::string out;
    const auto train = [&](const char* run, const char* steps, std::vector<std::string> more) {
        std::vector<std::string> words{"train", "--towers", "cpu", "--batch", "4", "--log-every",
                                       "1",     "--steps",  steps, "--run",   run};
        words.insert(words.end(), more.begin(), more.end());
        const Outcome outcome = run_towers(words, here);
        CHECK(outcome.code == 0);
        CAPTURE(outcome.err);
        CHECK(contains(outcome.err, " 12 training pictures of 13x13 to 19x19 become images of 28x28x1 for "
                                    "mnist-tutorial"));
        out = outcome.out;
    };
    const std::vector<std::string> data{"--recipe", "mnist-tutorial", "--data",
                                        "photos",   "--hold-out",     "40%"};
    train("whole", "4", data);
    CHECK(contains(out, "mnist-tutorial tells 10 classes apart, and " + (folder / "photos").string() +
                            " has 2; --set input.classes=2 leaves out the others\n"));
    CHECK(contains(out, "\nevaluate with: "));
    train("parts", "2", data);
    train("parts", "4", {"--resume"});
    CHECK(read_text(folder / "whole/metrics.jsonl") == read_text(folder / "parts/metrics.jsonl"));
    const Outcome held_out = run_towers({"eval", "--run", "parts", "--towers", "cpu"}, here);
    CHECK(held_out.code == 0);
    CHECK(contains(held_out.err, ": 6 test pictures of "));
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

    fs::rename(folder / "photos", folder / "moved");
    const std::string gone = (folder / "photos").string() +
                             ", which the run used, is not there any more; give its new place with --data\n";
    check_failed(run_towers({"eval", "--run", "parts", "--towers", "cpu"}, here), 1, gone);
    check_failed(run_towers({"train", "--run", "parts", "--towers", "cpu", "--resume", "--steps", "5"}, here),
                 1, gone);
    CHECK(evaluate_on("moved") == lines_of(held_out.out)[1]); // not those that it was trained on
    train("parts", "5", {"--resume", "--data", "moved"});
}

TEST_CASE("pictures that do not count are said, and a class without any") {
    const TemporaryFolder folder;
    make_photos(folder.path());
    const RunOptions here{.folder = folder.path()};
    fs::create_directory(folder / "photos/apes");
    for (const char* name : {"dogs/a.BMP", "dogs/deep.heic", "loose.jpg", "dogs/notes.txt", "dogs/Thumbs.db"})
        write_text(folder / "photos" / name, "?");
    for (int i = 0; i < 12; ++i) write_text(folder / "photos" / fmt::format("list{:02}.csv", i), "?");
    const std::string photos = (folder / "photos").string();
    const std::vector<std::string> said{
        "towers: " + photos +
            ": 2 pictures left out: dogs/a.BMP, dogs/deep.heic; only names with .jpg, .jpeg, .png or .webp "
            "count: "
            "convert such files",
        "towers: " + photos +
            ": 1 picture left out: loose.jpg; only those in a class's folder count: move such files into "
            "one"};
    const std::vector<std::string> others{"towers: " + photos + ": 1 other file left out: dogs/notes.txt",
                                          "towers: " + photos +
                                              ": 12 other files left out: list00.csv, list01.csv, "
                                              "list02.csv, list03.csv, list04.csv, list05.csv, "
                                              "list06.csv, list07.csv, list08.csv, list09.csv and 2 more"};
    const std::string empty = "towers: " + photos +
                              ": 1 folder without JPEG, PNG or WebP files is a class without examples: apes; "
                              "remove it if it is none";
    const auto check = [&](const Outcome& outcome, const std::vector<std::string>& expected) {
        CHECK(outcome.code == 0);
        CAPTURE(outcome.err);
        const std::vector<std::string> err = lines_of(outcome.err);
        REQUIRE(err.size() >= expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) CHECK(err[i] == expected[i]);
        return err.size();
    };
    CHECK(check(run_towers({"data", "describe", photos, "--hold-out", "40%"}, here),
                {said[0], said[1], others[0], others[1], empty}) == 5);
    const Outcome trained = run_towers({"train", "--towers", "cpu", "--batch", "4", "--recipe",
                                        "mnist-tutorial", "--steps", "1", "--data", photos, "--run", "it's"},
                                       here);
    // And what the pictures become, and that there are no test examples
    CHECK(check(trained, {said[0], said[1], empty}) == 5);
    CHECK(contains(trained.out, "there are no sound test examples; evaluate on others with: "));
    CHECK(contains(trained.out, " eval 'it'\\''s' --data PATH\n"));
    CHECK(contains(trained.out, " has 3; --set input.classes=3"));
}

TEST_CASE("a contact sheet of pictures of many sizes, and the files on it") {
    const TemporaryFolder folder;
    make_photos(folder.path());
    const RunOptions here{.folder = folder.path()};
    const Outcome shown = run_towers({"data", "show", "photos", "sheet.PNG", "--count", "3"}, here);
    check_worked(shown);
    CHECK(read_text(folder / "sheet.PNG").starts_with("\x89PNG"));
    const std::vector<std::string> lines = lines_of(shown.out);
    REQUIRE(lines.size() == 4);
    for (std::size_t i = 1; i < lines.size(); ++i) {
        const std::size_t space = lines[i].rfind(" photos/");
        REQUIRE(space != std::string::npos);
        CHECK(std::stoi(lines[i].substr(0, space)) < 18);
        CHECK(fs::exists(folder.path() / lines[i].substr(space + 1)));
    }
    check_failed(run_towers({"data", "show", "photos", "s.jpg"}, here), 2,
                 "s.jpg: a sheet is a PNG file; give a name that ends in .png");
    CHECK_FALSE(fs::exists(folder / "s.jpg"));
}

TEST_CASE("data describe names every broken picture, and counts the others") {
    const TemporaryFolder folder;
    make_photos(folder.path());
    const RunOptions here{.folder = folder.path()};
    for (const char* name : {"1.jpg", "2.jpg"})
        write_text(folder / "photos/dogs" / name, "this is no picture");
    const fs::path cut = folder / "photos/dogs/rgb.jpg"; // its header is sound
    fs::resize_file(cut, fs::file_size(cut) - 40);
    for (const bool skip : {false, true}) {
        Arguments words{"data", "describe", "photos"};
        if (skip) words.emplace_back("--skip-broken");
        const Outcome outcome = run_towers(words, here);
        CHECK(outcome.code == (skip ? 0 : 1));
        CHECK(outcome.err == "");
        CHECK(contains(outcome.out, "train: 17 pictures of "));
        CHECK(contains(outcome.out, "  1 dogs              8\n"));
        CHECK(contains(outcome.out, "  broken: photos/dogs/1.jpg is neither JPEG, PNG nor WebP\n"
                                    "  broken: photos/dogs/2.jpg is neither JPEG, PNG nor WebP\n"
                                    "  broken: photos/dogs/rgb.jpg is cut short\n"));
        CHECK(contains(outcome.out, "  replace what is broken, or leave it out with --skip-broken\n") !=
              skip);
    }
}

TEST_CASE("data describe names broken pictures also where none is sound") {
    const TemporaryFolder folder;
    for (const char* name : {"a", "b"}) fs::create_directories(folder / "photos" / name);
    for (int i = 0; i < 12; ++i)
        write_text(folder / "photos" / (i % 2 == 0 ? "a" : "b") / (std::to_string(i) + ".jpg"), "no picture");
    const std::string cut = read_text(source_folder() / "tests/fixtures/pictures/rgb.jpg");
    const auto describe = [&](const Arguments& more) {
        return run_towers(Arguments{"data", "describe", "photos"} + more, {.folder = folder.path()});
    };
    for (const Arguments& more : {Arguments{}, {"--skip-broken"}}) {
        const Outcome outcome = describe(more);
        check_failed(outcome, 1, "photos has no picture that is sound (the first: photos/a/0.jpg is neither");
        const std::vector<std::string> lines = lines_of(outcome.out);
        REQUIRE(lines.size() == 11);
        CHECK(lines[0] == "  broken: photos/a/0.jpg is neither JPEG, PNG nor WebP");
        CHECK(lines[10] == "  and 2 more");
    }
    // Those that prove broken when they are decoded
    for (int i = 0; i < 12; ++i)
        write_text(folder / "photos" / (i % 2 == 0 ? "a" : "b") / (std::to_string(i) + ".jpg"),
                   cut.substr(0, cut.size() - 40));
    const Outcome decoded = describe({});
    CHECK(decoded.code == 1);
    CHECK(contains(decoded.out, "train: 0 images of 13x19x3\n"));
    CHECK(contains(decoded.out, "  broken: photos/a/0.jpg is cut short\n"));
    CHECK(contains(decoded.out, "  and 2 more\n"));
    CHECK_FALSE(contains(decoded.out, "nan"));
}

TEST_CASE("pictures that are turned have their upright size everywhere") {
    const TemporaryFolder folder;
    for (const char* name : {"turned.png", "turned-after.png", "turned-raw.png", "turned-long-big.jpg"})
        for (const char* kind : {"a", "b"}) {
            fs::create_directories(folder / "photos" / kind);
            fs::copy_file(source_folder() / "tests/fixtures/pictures" / name,
                          folder / "photos" / kind / name);
        }
    const RunOptions here{.folder = folder.path()};
    const Outcome described = run_towers({"data", "describe", "photos"}, here);
    check_worked(described);
    CHECK(contains(described.out, "train: 8 images of 19x13x3\n"));
    check_worked(run_towers({"data", "import", "photos", "records"}, here));
    check_worked(run_towers({"data", "pack", "photos", "packed"}, here));
    for (const char* copy : {"records", "packed"}) {
        const Outcome copied = run_towers({"data", "describe", copy}, here);
        check_worked(copied);
        CHECK(contains(copied.out, "train: 8 images of 19x13x3\n"));
        CHECK(lines_of(copied.out).back() == lines_of(described.out).back());
        const auto mean = [](const std::string& text) { return text.substr(text.find("  mean"), 60); };
        CHECK(mean(copied.out) == mean(described.out));
    }
}

TEST_CASE("a broken picture is named before the first step, and may be skipped") {
    const TemporaryFolder folder;
    make_photos(folder.path());
    write_text(folder / "photos/dogs/text.jpg", "this is no picture");
    const RunOptions here{.folder = folder.path()};
    std::vector<std::string> words{"train",    "--towers",       "cpu",     "--batch", "4",
                                   "--recipe", "mnist-tutorial", "--steps", "2",       "--data",
                                   "photos",   "--run",          "run"};
    check_failed(run_towers(words, here), 1,
                 "dogs/text.jpg is neither JPEG, PNG nor WebP; replace it, or leave broken pictures out with "
                 "--skip-broken");
    CHECK(!fs::exists(folder / "run"));
    words.emplace_back("--skip-broken");
    const Outcome skipped = run_towers(words, here);
    CHECK(skipped.code == 0);
    CHECK(contains(skipped.err, "1 of 19 pictures are broken and left out, such as: "));
    CHECK(contains(read_text(folder / "run/config.toml"), "skip-broken = true\n"));
}
