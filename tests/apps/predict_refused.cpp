// towers predict: pictures and models that cannot be read, and names of any bytes.
#include "tests/apps/predicting.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/stat.h>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("a picture that cannot be read is named, and the others go on") {
    const Trained trained;
    const fs::path folder = trained.folder / "hostile";
    fs::create_directories(folder / "empty");
    const std::string jpeg = read_text(fixture("rgb.jpg"));
    write_text(folder / "cut.jpg", jpeg.substr(0, jpeg.size() / 2));
    write_text(folder / "text.png", "no picture");
    write_text(folder / "nothing.png", "");
    std::string bomb = jpeg;
    const std::size_t frame = bomb.find("\xff\xc0");
    REQUIRE(frame != std::string::npos);
    bomb.replace(frame + 5, 4, "\xff\xdc\xff\xdc"); // its height and width, 4 thousand million pixels
    write_text(folder / "bomb.jpg", bomb);
    fs::copy(fixture("rgb.jpg"), folder / "jpeg.png");
    for (const char* name :
         {"cmyk.jpg", "rgb-16-bits.png", "palette-transparent.png", "interlaced.png", "orientation-6.jpg"})
        fs::copy(fixture(name), folder / name);
    write_text(folder / "moving.gif", "GIF89a");
    REQUIRE(::mkfifo((folder / "pipe.png").c_str(), 0600) == 0);
    fs::create_symlink("loop.png", folder / "loop.png");
    const std::string at = folder.string() + "/";

    for (const bool skip : {false, true}) {
        Arguments words{folder.string(), at + "empty", at + "absent.png", at + "moving.gif", "--batch", "3"};
        if (skip) words.emplace_back("--skip-broken");
        const Outcome outcome = trained.predict(words);
        CHECK(outcome.code == (skip ? 0 : 1));
        std::vector<std::string> sound;
        for (const std::string& line : lines_of(outcome.out))
            sound.push_back(line.substr(0, line.find(": ")));
        CHECK(sound == std::vector<std::string>{at + "cmyk.jpg", at + "interlaced.png", at + "jpeg.png",
                                                at + "orientation-6.jpg", at + "palette-transparent.png",
                                                at + "rgb-16-bits.png"});
        std::vector<std::string> problems = lines_of(outcome.err);
        const std::vector<std::string> expected{
            fmt::format("towers: {}: 1 picture left out: moving.gif; only names with .jpg, .jpeg, .png or "
                        ".webp count: "
                        "convert such files",
                        folder.string()),
            fmt::format("towers: {}empty has no JPEG, PNG or WebP files; name another folder", at),
            fmt::format("towers: {}bomb.jpg has ", at),
            fmt::format("towers: {}cut.jpg is cut short", at),
            fmt::format("towers: cannot read {}loop.png: Too many levels of symbolic links", at),
            fmt::format("towers: {}nothing.png is empty", at),
            fmt::format("towers: cannot read {}pipe.png: it is not a regular file", at),
            fmt::format("towers: {}text.png is neither JPEG, PNG nor WebP", at),
            fmt::format("towers: cannot read {}absent.png: No such file or directory", at),
            fmt::format("towers: {}moving.gif is GIF, neither JPEG, PNG nor WebP", at)};
        CAPTURE(outcome.err);
        REQUIRE(problems.size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) CHECK(problems[i].starts_with(expected[i]));
    }
    const Outcome empty = trained.predict({at + "empty"});
    check_failed(empty, 1, "empty has no JPEG, PNG or WebP files");
}

TEST_CASE("names of any bytes are printed so that nobody is misled") {
    const Trained trained;
    fs::create_directory(trained.folder / "names");
    const std::string at = (trained.folder / "names").string() + "/";
    for (const char* name : {"a,\"b\".png", "c\nd.png", "e\xff.png"})
        fs::copy(fixture("grey.png"), at + name);
    const Outcome text = trained.predict({at}), csv = trained.predict({at, "--csv", "--top", "1"}),
                  json = trained.predict({at, "--json"});
    for (const Outcome* each : {&text, &csv, &json}) CHECK(each->code == 0);
    CHECK(lines_of(text.out).size() == 3);
    CHECK(contains(text.out, at + "c?d.png: "));
    CHECK(contains(csv.out, "\"" + at + "a,\"\"b\"\".png\","));
    CHECK(contains(csv.out, "\"" + at + "c\nd.png\","));
    std::vector<std::string> pictures;
    for (const std::string& line : lines_of(json.out))
        pictures.push_back(nlohmann::json::parse(line)["picture"]);
    CHECK(pictures ==
          std::vector<std::string>{at + "a,\"b\".png", at + "c\nd.png", at + "e\xef\xbf\xbd.png"});
}

TEST_CASE("predict refuses what is no model, a diverged one, and mistakes") {
    const Trained trained;
    const std::string picture = fixture("rgb.jpg");
    check_failed(run_towers({"predict", picture, picture}), 1, picture);
    const std::string other = fixture("grey.jpg"), both = trained.predict({picture, other}).out;
    for (const Arguments& words :
         {Arguments{"--run", trained.run, picture, other}, Arguments{picture, other, "--run", trained.run},
          Arguments{picture, "--checkpoint", checkpoint(trained.run, 3), other}}) {
        const Outcome named = run_towers(Arguments{"predict", "--towers", "cpu"} + words);
        check_worked(named);
        CHECK(named.out == both);
    }
    check_failed(run_towers({"predict", trained.files, picture}), 1, "no checkpoint");
    check_failed(run_towers({"predict", (trained.folder / "absent").string(), picture}), 1, "absent");
    check_failed(trained.predict({picture, "--recipe", "mnist-lenet"}), 1, "belongs to recipe");
    check_failed(trained.predict({picture, "--json", "--csv"}), 2, "--json and --csv: give one of them");
    check_failed(trained.predict({picture, "--top", "0"}), 2, "--top");
    check_failed(run_towers({"predict", trained.run, "--towers", "vulkan:99", picture}), 2, "vulkan:99");

    const fs::path file = checkpoint(trained.run, 3);
    RawTensors poisoned = RawTensors::read(file);
    poisoned.forget_checksum();
    const std::size_t begin = poisoned.header["softmax_linear/weights"]["data_offsets"][0];
    poisoned.data.replace(begin, 4, "\xff\xff\xff\x7f"); // NaN
    write_text(file, poisoned.bytes());
    const Outcome outcome = trained.predict({picture, "--raw"});
    check_failed(outcome, 1, file.string() + ": it gives no finite scores for " + picture);
    CHECK(outcome.out.empty());
    fs::resize_file(file, 1000);
    const Outcome damaged = trained.predict({picture});
    check_failed(damaged, 1, file.string() + " is not a sound");
    CHECK(contains(damaged.err, "give " + checkpoint(trained.run, 0).string() + ", which is sound"));
}
