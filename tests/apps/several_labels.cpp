// Several labels an image, from a table to predictions, as somebody with data of Kaggle would.
#include "tests/apps/helpers.h"
#include "tests/apps/json_schema.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> tags{"clear primary", "haze", "", "primary", "haze clear water", "clear"};

/// Pictures in FOLDER/train_images, and FOLDER/train.csv with their tags.
void make_planet(const fs::path& folder) {
    const fs::path from = source_folder() / "tests/fixtures/pictures";
    const char* const kinds[] = {"rgb.png", "rgb.jpg", "grey.jpg", "palette.png", "progressive.jpg"};
    fs::create_directories(folder / "train_images");
    std::string table = "image_name,tags\n";
    for (int i = 0; i < 18; ++i) {
        const fs::path kind = kinds[i % 5];
        fs::copy_file(from / kind,
                      folder / "train_images" / fmt::format("p{}{}", i, kind.extension().string()));
        table += fmt::format("p{},{}\n", i, tags[std::size_t(i) % tags.size()]);
    }
    write_text(folder / "train.csv", table);
}

std::set<std::string> split(const std::string& text, char separator) {
    std::set<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) parts.insert(part);
    return parts;
}

/// As check_failed(), after other lines.
void check_refused(const Outcome& outcome, int code, std::string_view text) {
    CAPTURE(outcome.err);
    CHECK(outcome.code == code);
    CHECK(contains(outcome.err, text));
}

const std::string source = "train.csv?root=train_images&separator=space";

} // namespace

TEST_CASE("a table with several labels is described, shown and packed, and refused where one is needed") {
    const TemporaryFolder folder;
    make_planet(folder.path());
    const RunOptions here{.folder = folder.path()};
    const auto run = [&](const Arguments& arguments) { return run_towers(arguments, here); };
    std::string full = read_text(folder / "train.csv");
    for (std::size_t at; (at = full.find(",\n")) != full.npos;) full.insert(at + 1, "clear");
    write_text(folder / "full.csv", full);
    check_failed(
        run({"data", "describe", "full.csv?root=train_images"}), 1,
        "full.csv row 2: 'clear primary' is several labels, each of which stands alone in other rows; "
        "say with 'full.csv?root=train_images&separator=space' that a picture may have several, or");
    const auto check_description = [&](const std::string& what) {
        const Outcome described = run({"data", "describe", what});
        check_worked(described);
        CHECK(contains(described.out, "train: 18 images of "));
        for (const char* const line :
             {"  0 clear             9\n", "  1 haze              6\n", "  2 primary           6\n",
              "  3 water             3\n", "  labels an image: 0 to 3, mean 1.33; 3 images without any\n"})
            CHECK(contains(described.out, line));
        CHECK(contains(described.out, "  clear has 3 times as many examples as water: think of 'train --set "
                                      "loss.positive_weights=balanced'\n"));
    };
    check_description(source);
    check_worked(run({"data", "pack", source + "&size=28", "packed"}));
    check_description("packed");
    check_worked(run({"data", "show", source, "sheet.png", "--count", "6"}));
    for (const char* const as : {"tfrecord", "folder", "cifar10"})
        check_failed(run({"data", "import", source + "&size=32", "other", "--as", as}), 1,
                     fmt::format("{}&size=32: an image may have several labels, which --as {} cannot say; "
                                 "write a packed file with 'towers data pack'",
                                 source, as));

    const Arguments train{"train",   "--towers", "cpu",   "--recipe", "mnist-lenet",
                          "--steps", "1",        "--run", "r"};
    check_failed(run(train + Arguments{"--data", "packed"}), 1,
                 "packed: a picture may have several labels, but a loss of recipe mnist-lenet is a softmax, "
                 "which takes one of each; use --set loss.kind=sigmoid");
    const Arguments sigmoid{"--set", "loss.kind=sigmoid", "--data", "packed"};
    check_refused(
        run(train + sigmoid + Arguments{"--set", "training.sampler=balanced"}), 1,
        "'sampler' is \"balanced\", but an example of pictures may have several classes; use sampler "
        "\"uniform\"");
    check_refused(
        run(train + sigmoid +
            Arguments{"--test-data", "packed", "--eval-every", "1", "--keep-best", "--best-by", "accuracy"}),
        2,
        "--best-by accuracy: the test examples may have several labels; give another metric, such as "
        "average_precision_macro");
}

TEST_CASE("a network with sigmoids is evaluated with thresholds, predicts labels, and is exported") {
    const TemporaryFolder folder;
    make_planet(folder.path());
    const RunOptions here{.folder = folder.path()};
    const auto run = [&](const Arguments& arguments) { return run_towers(arguments, here); };
    const auto works = [&](const Arguments& arguments) {
        const Outcome outcome = run(arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        return outcome.out;
    };
    works({"train", "--towers", "cpu", "--batch", "6", "--recipe", "mnist-lenet", "--set",
           "loss.kind=sigmoid", "--set", "input.classes=4", "--steps", "4", "--data", source, "--run",
           "run"});
    const Arguments eval{"eval", "run", "--towers", "cpu", "--split", "train"};
    const std::string text = works(eval + Arguments{"--per-class", "--json", "all.json", "--confusion",
                                                    "c.csv", "--best-thresholds", "best.json"});
    CHECK(schema_errors("eval.schema.json", folder / "all.json") == "");
    const nlohmann::json all = nlohmann::json::parse(read_text(folder / "all.json"));
    CHECK(all.at("labels") == "several");
    CHECK(all.at("examples") == 18);
    CHECK(all.at("accuracy").is_null());
    CHECK(all.at("top_k").is_null());
    CHECK(all.at("subset_accuracy") == all.at("correct").get<double>() / 18);
    CHECK(contains(
        text, fmt::format("mean average precision = {:.3f}\n{} of 18 examples have exactly the labels "
                          "found, cross entropy ",
                          all.at("average_precision_macro").get<double>(), all.at("correct").get<int>())));
    CHECK(contains(
        text, "\nclass             examples  precision  recall     F1    AUC     AP  threshold        TP "
              "       FP        FN        TN\nclear                    9 "));
    const std::vector<std::string> rows = lines_of(read_text(folder / "c.csv"));
    REQUIRE(rows.size() == 5);
    CHECK(rows[0] == "class,threshold,true_positives,false_positives,false_negatives,true_negatives\r");
    for (std::size_t c = 0; c < 4; ++c) {
        const nlohmann::json& its = all.at("classes")[c];
        const int correct = its.at("correct"), predicted = its.at("predicted"), examples = its.at("examples");
        CHECK(rows[c + 1] == fmt::format("{},0.5,{},{},{},{}\r", its.at("class").get<std::string>(), correct,
                                         predicted - correct, examples - correct,
                                         18 - examples - predicted + correct));
    }

    // The thresholds that are best are taken back, and are at least as good.
    const nlohmann::json thresholds = nlohmann::json::parse(read_text(folder / "best.json"));
    CHECK(thresholds.size() == 4);
    CHECK(thresholds.at("water").is_number());
    works(eval + Arguments{"--threshold", "best.json", "--json", "best_all.json"});
    const nlohmann::json best = nlohmann::json::parse(read_text(folder / "best_all.json"));
    CHECK(best.at("f1_macro").get<double>() >= all.at("f1_macro").get<double>());
    CHECK(
        contains(text, fmt::format("macro F1 {:.3f}, micro F1 {:.3f} with the thresholds that are best here, "
                                   "written to best.json\n",
                                   best.at("f1_macro").get<double>(), best.at("f1_micro").get<double>())));
    CHECK(best.at("average_precision_macro") == all.at("average_precision_macro"));
    CHECK(best.at("classes")[3].at("threshold") == thresholds.at("water"));
    CHECK(contains(works(eval + Arguments{"--threshold", "0.0"}), "; threshold 0.0\n"));

    // What predict finds in the files is what eval has counted.
    const Arguments predict{"predict", "run", "train_images", "--towers", "cpu"};
    const std::vector<std::string> found =
        lines_of(works(predict + Arguments{"--csv", "--threshold", "best.json"}));
    REQUIRE(found.size() == 19);
    CHECK(found[0] == "picture,labels,clear,haze,primary,water\r");
    int exact = 0;
    for (std::size_t i = 1; i < found.size(); ++i) {
        const std::string number = found[i].substr(std::string("train_images/p").size());
        std::string labels = found[i].substr(found[i].find(',') + 1);
        labels.resize(labels.find(','));
        exact += split(labels, '|') == split(tags[std::stoul(number) % tags.size()], ' ');
    }
    CHECK(exact == best.at("correct"));
    CHECK(contains(works(predict + Arguments{"--threshold", "1"}), "train_images/p0.png: no label\n"));
    const nlohmann::json line =
        nlohmann::json::parse(lines_of(works(predict + Arguments{"--json", "--threshold", "0"})).at(0));
    CHECK(line.at("classes").size() == 4);
    CHECK(line.at("classes")[0].at("probability") >= line.at("classes")[3].at("probability"));
    CHECK(nlohmann::json::parse(lines_of(works(predict + Arguments{"--json", "--threshold", "1"})).at(0))
              .at("classes")
              .empty());
    const std::string two = lines_of(works(predict + Arguments{"--top", "2", "--threshold", "0"})).at(0);
    CHECK(std::ranges::count(two, ',') == 1);

    works({"export", "run", "--onnx", "m.onnx", "--torch", "m.py", "--threshold", "best.json"});
    const std::string onnx = read_text(folder / "m.onnx"), torch = read_text(folder / "m.py");
    CHECK(contains(onnx, "Sigmoid"));
    CHECK_FALSE(contains(onnx, "Softmax"));
    const std::string list = nlohmann::json{thresholds.at("clear"), thresholds.at("haze"),
                                            thresholds.at("primary"), thresholds.at("water")}
                                 .dump();
    CHECK(contains(onnx, list));
    CHECK(contains(torch, "\nTHRESHOLDS = " + list + "\n"));
    CHECK(contains(torch, "    probabilities = logits.sigmoid()"));

    check_refused(run(eval + Arguments{"--threshold", "1.5"}), 2,
                  "--threshold 1.5: give a probability from 0 to 1, or a file");
    check_failed(run(predict + Arguments{"--threshold", "none.json"}), 1, "none.json");
    write_text(folder / "part.json", "{\"clear\": 0.5}");
    check_failed(run(predict + Arguments{"--threshold", "part.json"}), 1,
                 "part.json has no threshold for class 'haze'; add it");
    check_refused(run(eval + Arguments{"--top", "2"}), 2,
                  "--top: the examples may have several labels; leave it out");
    check_refused(
        run(eval + Arguments{"--confusion", "c.png"}), 2,
        "--confusion c.png: the examples may have several labels, of which there is no picture; give a "
        "file whose name ends in .csv");
    check_refused(run(eval + Arguments{"--json", "-", "--best-thresholds", "-"}), 2,
                  "--json and --best-thresholds both write to standard output; give a file for one of them");
}

TEST_CASE(
    "test passes measure several labels, and the best one is that of the highest mean average precision") {
    const TemporaryFolder folder;
    make_planet(folder.path());
    const RunOptions here{.folder = folder.path()};
    fs::copy_file(folder / "train.csv", folder / "test.csv");
    const Arguments flags{"train",
                          "--towers",
                          "cpu",
                          "--batch",
                          "6",
                          "--recipe",
                          "mnist-lenet",
                          "--set",
                          "loss.kind=sigmoid",
                          "--set",
                          "input.classes=4",
                          "--data",
                          source,
                          "--test-data",
                          "test.csv?root=train_images&separator=space",
                          "--eval-every",
                          "2",
                          "--eval-raw",
                          "--keep-best",
                          "--summary-every",
                          "2"};
    const Outcome whole = run_towers(flags + Arguments{"--steps", "8", "--run", "whole"}, here);
    CAPTURE(whole.err);
    CHECK(whole.code == 0);
    CHECK(contains(whole.out, ", test mean average precision = 0."));
    CHECK_FALSE(contains(whole.out, "precision @ 1"));
    CHECK(contains(read_text(folder / "whole/config.toml"), "best-by = 'average_precision_macro'"));
    double best = 0;
    int step = -1, passes = 0;
    for (const nlohmann::json& line : metrics(folder / "whole")) {
        if (!line.contains("test_examples")) continue;
        ++passes;
        CHECK_FALSE(line.contains("test_precision"));
        CHECK_FALSE(line.contains("test_balanced_accuracy"));
        CHECK(line.at("test_subset_accuracy") ==
              line.at("test_correct").get<double>() / line.at("test_examples").get<double>());
        for (const char* const name :
             {"test_f1_micro", "test_f1_macro", "test_hamming_loss", "test_auc_macro", "test_cross_entropy"})
            CHECK(line.at(name).is_number());
        if (const double value = line.at("test_average_precision_macro"); value > best) {
            best = value;
            step = line.at("step");
        }
    }
    CHECK(passes == 4);
    CHECK(contains(
        whole.out,
        fmt::format("best in the test: step {}, mean average precision = {:.3f}, kept in ", step, best)));
    const Outcome evaluated = run_towers(
        {"eval", "whole/best.safetensors", "--towers", "cpu", "--raw", "--json", "best.json"}, here);
    CAPTURE(evaluated.err);
    CHECK(evaluated.code == 0);
    CHECK(
        nlohmann::json::parse(read_text(folder / "best.json")).at("average_precision_macro").get<double>() ==
        doctest::Approx(best).epsilon(1e-6));

    // A run that is resumed goes on with the comparison, to the bit.
    for (const Arguments& more : {Arguments{"--steps", "4"}, {"--steps", "8", "--resume"}})
        CHECK(run_towers((more.size() > 2 ? Arguments{"train", "--towers", "cpu"} : flags) + more +
                             Arguments{"--run", "parts"},
                         here)
                  .code == 0);
    for (const char* const file : {"metrics.jsonl", "model.ckpt-8.safetensors", "best.safetensors"})
        CHECK(read_text(folder / "parts" / file) == read_text(folder / "whole" / file));

    const Outcome page = run_towers({"report", "whole", "--towers", "cpu"}, here);
    CHECK(page.code == 0);
    CHECK(contains(read_text(folder / "whole/report.html"), "\"several\":true"));
}

TEST_CASE("thresholds are for networks with sigmoids and data with several labels") {
    const TemporaryFolder folder;
    const RunOptions here{.folder = folder.path()};
    train_small(folder / "softmax", {"--steps", "1", "--batch", "2"});
    const std::string refusal =
        "--threshold: the loss of cifar10-tutorial is a softmax, so that a picture has one "
        "class, the most probable; leave it out";
    check_failed(run_towers({"eval", "softmax", "--towers", "cpu", "--threshold", "0.5"}, here), 2, refusal);
    check_failed(run_towers({"predict", "softmax", "x.png", "--towers", "cpu", "--threshold", "0.5"}, here),
                 2, refusal);
    check_failed(run_towers({"export", "softmax", "--onnx", "m", "--threshold", "0.5"}, here), 2, refusal);
    train_small(folder / "sigmoid", {"--steps", "1", "--batch", "2", "--set", "loss.kind=sigmoid"});
    check_refused(run_towers({"eval", "sigmoid", "--towers", "cpu", "--threshold", "0.5"}, here), 2,
                  "--threshold: each example of ");
}
