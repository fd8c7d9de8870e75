// Training on a table of pictures and classes, as somebody with data of Kaggle would.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <string>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// Pictures without classes in FOLDER/train_images, and FOLDER/train.csv, which names them without endings.
void make_kaggle(const fs::path& folder) {
    const fs::path from = source_folder() / "tests/fixtures/pictures";
    const char* const kinds[] = {"rgb.png",     "rgb.jpg",         "grey.jpg",
                                 "palette.png", "progressive.jpg", "rgba.png"};
    fs::create_directories(folder / "train_images");
    std::string table = "image_id,width,label\r\n";
    for (int i = 0; i < 18; ++i) {
        const fs::path kind = kinds[i % 6];
        fs::copy_file(from / kind,
                      folder / "train_images" / fmt::format("p{}{}", i, kind.extension().string()));
        table += fmt::format("p{},19,{}\r\n", i, i % 3 == 0 ? "\"melanoma, \"\"in situ\"\"\"" : "nevus");
    }
    write_text(folder / "train.csv", table);
}

} // namespace

TEST_CASE("a table of pictures is described, trained on with some held out, evaluated, resumed and packed") {
    const TemporaryFolder folder;
    make_kaggle(folder.path());
    const RunOptions here{.folder = folder.path()};
    check_failed(run_towers({"data", "describe", "train.csv"}, here), 1,
                 "train.csv names 18 files, none of which is in .: p0 (row 2), p1 (row 3), ");
    const Outcome all = run_towers({"data", "describe", "train.csv?root=train_images"}, here);
    check_worked(all);
    CHECK(contains(all.out, "train: 18 images of 13x19x3\n  0 melanoma, \"in situ\"      6\n  1 nevus "));
    CHECK(contains(all.out, " 12\n"));
    CHECK(contains(all.out, "test: none\n"));

    const Arguments data{"--recipe", "mnist-tutorial", "--data", "train.csv?root=train_images", "--hold-out",
                         "40%"};
    const auto train = [&](const char* run, const char* steps, const Arguments& more) {
        const Outcome outcome = run_towers(Arguments{"train", "--towers", "cpu", "--batch", "4",
                                                     "--log-every", "1", "--steps", steps, "--run", run} +
                                               more,
                                           here);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
    };
    check_failed(run_towers({"train", "--towers", "cpu", "--recipe", "mnist-tutorial", "--data", "train.csv",
                             "--run", "none"},
                            here),
                 1, "they are in " + (folder / "train_images").string() + ": give '");
    train("whole", "6", data);
    train("parts", "2", data);
    train("parts", "6", {"--resume"});
    CHECK(read_text(folder / "whole/metrics.jsonl") == read_text(folder / "parts/metrics.jsonl"));
    CHECK(contains(read_text(folder / "whole/config.toml"), "train.csv?root=train_images"));

    const Outcome held_out = run_towers({"eval", "--run", "parts", "--towers", "cpu", "--per-class"}, here);
    CHECK(held_out.code == 0);
    CHECK(contains(held_out.out, "melanoma, \"in situ\" "));
    CHECK(!contains(held_out.out, " of 18 examples"));
    const auto evaluate_on = [&](const Arguments& flags) {
        const Outcome outcome =
            run_towers(Arguments{"eval", "--run", "parts", "--towers", "cpu"} + flags, here);
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        return lines_of(outcome.out)[1];
    };
    CHECK(evaluate_on({"--data", "train.csv?root=train_images"}) == lines_of(held_out.out)[1]);
    fs::copy_file(folder / "train.csv", folder / "others.csv");
    CHECK(contains(evaluate_on({"--data", "others.csv?root=train_images"}), " of 18 examples"));
    const Outcome predicted =
        run_towers({"predict", "parts", "train_images", "--csv", "--top", "2", "--towers", "cpu"}, here);
    check_worked(predicted);
    CHECK(lines_of(predicted.out).size() == 19);
    CHECK(contains(predicted.out, ",\"melanoma, \"\"in situ\"\"\","));

    check_worked(run_towers(
        {"data", "pack", "others.csv?root=train_images&size=28", "packed", "--hold-out", "40%"}, here));
    CHECK(evaluate_on({"--data", "packed"}).substr(2) != "");
    const Outcome packed = run_towers({"data", "describe", "packed"}, here);
    check_worked(packed);
    CHECK(contains(packed.out, "  0 melanoma, \"in situ\""));
    CHECK(!contains(packed.out, "test: none"));
    check_worked(run_towers(
        {"data", "import", "others.csv?root=train_images&size=28", "folders", "--as", "folder"}, here));
    CHECK(contains(evaluate_on({"--data", "folders/train"}), " of 18 examples"));

    // Another order of rows is other data.
    const std::string table = read_text(folder / "train.csv");
    const std::size_t last = table.rfind("p17");
    write_text(folder / "train.csv", table.substr(0, 22) + table.substr(last) + table.substr(22, last - 22));
    const Outcome other =
        run_towers({"train", "--run", "parts", "--towers", "cpu", "--resume", "--steps", "7"}, here);
    CHECK(other.code == 1);
    CHECK(contains(other.err, "is not the data that parts/model.ckpt-6.safetensors was trained on"));
}

TEST_CASE("a table's own test rows, and a broken table") {
    const TemporaryFolder folder;
    make_kaggle(folder.path());
    const RunOptions here{.folder = folder.path()};
    std::string table = "Path;Class;Split\n";
    for (int i = 0; i < 18; ++i)
        table += fmt::format("train_images/p{};{};{}\n", i, i % 2,
                             i % 6 == 5 ? "val"
                             : i == 0   ? "test"
                                        : "train");
    write_text(folder / "split.csv", table);
    const Outcome described = run_towers({"data", "describe", "split.csv"}, here);
    CHECK(described.code == 0);
    CHECK(described.err ==
          "towers: split.csv: 1 row left out, such as row 2, since it is 'test'; 'split.csv?test=WORD' says "
          "which word is for testing\n");
    CHECK(contains(described.out, "train: 14 images of "));
    CHECK(contains(described.out, "test: 3 images of "));
    check_failed(run_towers({"data", "describe", "split.csv", "--hold-out", "40%"}, here), 1,
                 "split.csv has a column that says what is for testing; leave out --hold-out");
    write_text(folder / "split.csv", table + "train_images/p1;0;train;\n");
    check_failed(run_towers({"data", "describe", "split.csv"}, here), 1,
                 "split.csv row 20 has 4 fields, but row 1 has 3; ");
}

TEST_CASE("folds: all together test on every picture once, and a run keeps its own") {
    const TemporaryFolder folder;
    make_kaggle(folder.path());
    const RunOptions here{.folder = folder.path()};
    const std::string source = "train.csv?root=train_images";
    int tested = 0;
    for (int fold = 1; fold <= 3; ++fold) {
        const Outcome outcome =
            run_towers({"data", "describe", source, "--fold", fmt::format("{}/3", fold)}, here);
        check_worked(outcome);
        const std::size_t test = outcome.out.find("test: ");
        REQUIRE(test != std::string::npos);
        tested += std::stoi(outcome.out.substr(test + 6));
    }
    CHECK(tested == 18);
    const Arguments run{"train", "--towers", "cpu", "--batch", "4", "--log-every", "1", "--run", "run"};
    CHECK(run_towers(run + Arguments{"--recipe", "mnist-tutorial", "--data", source, "--fold", "2/3",
                                     "--steps", "2"},
                     here)
              .code == 0);
    CHECK(contains(read_text(folder / "run/config.toml"), "fold = '2/3'\n"));
    CHECK(run_towers(run + Arguments{"--resume", "--steps", "4"}, here).code == 0);
    const Outcome own = run_towers({"eval", "--run", "run", "--towers", "cpu"}, here);
    CHECK(own.code == 0);
    CHECK(!contains(own.out, " of 18 examples"));
    const Outcome again = run_towers({"eval", "--run", "run", "--towers", "cpu", "--data", source}, here);
    CHECK(lines_of(again.out).at(1) == lines_of(own.out).at(1));
    const Outcome other = run_towers(run + Arguments{"--resume", "--fold", "1/3", "--steps", "5"}, here);
    CHECK(other.code == 1);
    CHECK(contains(other.err, "is not the data that run/model.ckpt-4.safetensors was trained on"));
    for (const char* const wrong : {"2", "2/", "/3", "0/3", "4/3", "1/1", "1/1001", "-1/3", "1/3x", "1.5/3"})
        check_failed(
            run_towers({"data", "describe", source, std::string("--fold=") + wrong}, here), 2,
            fmt::format(
                "--fold {}: give the part for testing and the number of parts, up to 1000, such as 2/5",
                wrong));
    check_failed(run_towers({"data", "describe", source, "--fold", "1/3", "--hold-out", "10%"}, here), 2,
                 "--hold-out and --fold both say what to test on; give one of them");
    check_failed(run_towers({"data", "describe", "shapes", "--fold", "1/3"}, here), 1,
                 "shapes: --hold-out and --fold are for folders and tables of pictures, and these are "
                 "shapes; leave it out");
}
