// towers predict: the classes of pictures in files, as evaluation sees them.
#include "tests/apps/predicting.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// The fields of the lines of CSV that has none with quotes; without the header.
std::vector<std::vector<std::string>> rows_of(const std::string& csv) {
    std::vector<std::vector<std::string>> rows;
    for (std::string line : lines_of(csv)) {
        REQUIRE(line.ends_with('\r'));
        line.pop_back();
        std::vector<std::string>& row = rows.emplace_back();
        for (std::size_t begin = 0; begin <= line.size();) {
            const std::size_t end = std::min(line.find(',', begin), line.size());
            row.push_back(line.substr(begin, end - begin));
            begin = end + 1;
        }
    }
    REQUIRE_FALSE(rows.empty());
    rows.erase(rows.begin());
    return rows;
}

/// How often pictures in the folder of each class are taken for each class, as eval --confusion writes it.
std::map<std::string, std::map<std::string, unsigned>> confusion_of(const std::string& csv) {
    std::map<std::string, std::map<std::string, unsigned>> counts;
    for (const auto& row : rows_of(csv)) ++counts[fs::path(row[0]).parent_path().filename()][row[1]];
    return counts;
}

/// Checks that predict and eval see the same in the test pictures.
void check_as_evaluated(const Trained& trained, const Arguments& flags) {
    const Outcome eval =
        run_towers(Arguments{"eval", "--run", trained.run, "--towers", "cpu", "--confusion", "-"} + flags);
    CHECK(eval.code == 0);
    const std::vector<std::string> header = [&] {
        std::string line = lines_of(eval.out)[0];
        line.pop_back();
        std::vector<std::string> names;
        for (std::size_t begin = 0; begin <= line.size();) {
            const std::size_t end = std::min(line.find(',', begin), line.size());
            names.push_back(line.substr(begin, end - begin));
            begin = end + 1;
        }
        return names;
    }();
    const Outcome outcome =
        trained.predict(Arguments{trained.files + "/test", "--csv", "--top", "1"} + flags);
    check_worked(outcome);
    auto counts = confusion_of(outcome.out);
    unsigned sum = 0;
    for (const auto& row : rows_of(eval.out))
        for (std::size_t i = 1; i < row.size(); ++i) {
            CAPTURE(row[0]);
            CAPTURE(header[i]);
            CHECK(fmt::to_string(counts[row[0]][header[i]]) == row[i]);
            sum += counts[row[0]][header[i]];
        }
    CHECK(sum == 10);
}

} // namespace

TEST_CASE("predict sees in pictures' files what eval sees in the data set") {
    const Trained tutorial;
    check_as_evaluated(tutorial, {});
    check_as_evaluated(tutorial, {"--raw", "--batch", "3"});
    // Another recipe's colours and size: the data are converted to grey images of 28x28.
    const Trained converted({"--recipe", "mnist-lenet", "--batch", "4"});
    check_as_evaluated(converted, {});
    // More classes than the data have, resized and cropped
    const Trained resized({"--recipe", "imagenet-resnet18", "--batch", "32", "--set", "input.shape=[40,40,3]",
                           "--set", "input.classes=12"});
    check_as_evaluated(resized, {});
}

TEST_CASE("predict prints lines, JSON or CSV, in the order of the pictures") {
    const Trained trained;
    const Arguments pictures{fixture("rgb.jpg"), trained.files + "/test", fixture("grey.png")};
    std::vector<std::string> names{fixture("rgb.jpg")};
    for (const char* name :
         {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"})
        names.push_back(fmt::format("{}/test/{}/{:06}.png", trained.files, name, names.size() - 1));
    names.push_back(fixture("grey.png"));

    const Outcome text = trained.predict(pictures);
    check_worked(text);
    const std::vector<std::string> lines = lines_of(text.out);
    const Outcome json = trained.predict(pictures + Arguments{"--json"});
    check_worked(json);
    const std::vector<std::string> objects = lines_of(json.out);
    const Outcome csv = trained.predict(pictures + Arguments{"--csv", "--top", "2"});
    check_worked(csv);
    CHECK(csv.out.starts_with("picture,class_1,probability_1,class_2,probability_2\r\n"));
    const auto rows = rows_of(csv.out);
    REQUIRE(lines.size() == names.size());
    REQUIRE(objects.size() == names.size());
    REQUIRE(rows.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        CAPTURE(names[i]);
        const nlohmann::json object = nlohmann::json::parse(objects[i]);
        CHECK(object["picture"] == names[i]);
        REQUIRE(object["classes"].size() == 5);
        std::string line;
        double before = 1, sum = 0;
        for (const nlohmann::json& each : object["classes"]) {
            const double probability = each["probability"];
            CHECK(probability <= before);
            CHECK(each["label"] < 10);
            line += fmt::format("{}{} {:.3f}", line.empty() ? "" : ", ", each["class"].get<std::string>(),
                                probability);
            before = probability;
            sum += probability;
        }
        CHECK(sum < 1);
        CHECK(lines[i] == names[i] + ": " + line);
        REQUIRE(rows[i].size() == 5);
        CHECK(rows[i][0] == names[i]);
        CHECK(object["classes"][0]["class"] == rows[i][1]);
        CHECK(std::stod(rows[i][4]) == doctest::Approx(object["classes"][1]["probability"].get<double>()));
    }
    const Outcome all = trained.predict({fixture("rgb.jpg"), "--json", "--top", "1000"});
    const nlohmann::json object = nlohmann::json::parse(all.out);
    double sum = 0;
    for (const nlohmann::json& each : object["classes"]) sum += each["probability"].get<double>();
    CHECK(sum == doctest::Approx(1).epsilon(1e-5));

    // A checkpoint alone knows the classes; several devices divide the batches, and the order stays.
    fs::copy(checkpoint(trained.run, 3), trained.folder / "model.safetensors");
    fs::remove_all(trained.data);
    const Outcome alone = run_towers(Arguments{"predict", (trained.folder / "model.safetensors").string(),
                                               "--towers", "cpu,cpu,cpu", "--batch", "1"} +
                                     pictures);
    check_worked(alone);
    CHECK(alone.out == text.out);
}

TEST_CASE("--scores prints the logits of which the probabilities are made") {
    const Trained trained;
    const Outcome outcome = trained.predict({fixture("rgb.jpg"), "--json", "--scores", "--top", "10"});
    check_worked(outcome);
    const nlohmann::json object = nlohmann::json::parse(outcome.out);
    const std::vector<double> scores = object["scores"];
    REQUIRE(scores.size() == 10);
    double sum = 0;
    for (const double each : scores) sum += std::exp(each);
    for (const nlohmann::json& each : object["classes"])
        CHECK(each["probability"].get<double>() ==
              doctest::Approx(std::exp(scores[each["label"]]) / sum).epsilon(1e-5));
    CHECK_FALSE(contains(trained.predict({fixture("rgb.jpg"), "--json"}).out, "scores"));
    check_failed(trained.predict({fixture("rgb.jpg"), "--scores"}), 2, "--json");
}

TEST_CASE("predict takes variables alone, such as those of an import, with their recipe") {
    const Trained trained;
    const std::string file = (trained.folder / "variables.safetensors").string(),
                      recipe = (trained.folder / "own.toml").string(), kept = trained.run + "/recipe.toml";
    RawTensors variables = RawTensors::read(checkpoint(trained.run, 3));
    variables.header.erase("__metadata__");
    write_text(file, variables.bytes());
    const auto scores = [&](const Arguments& words) {
        const Outcome outcome =
            run_towers(Arguments{"predict", "--towers", "cpu", "--json", "--scores"} + words);
        check_worked(outcome);
        return nlohmann::json::parse(outcome.out)["scores"].get<std::vector<float>>();
    };
    const std::string picture = fixture("rgb.jpg");
    const std::vector<float> expected = scores({trained.run, picture, "--raw"});
    CHECK(scores({file, picture, "--recipe", kept}) == expected);

    // The logits are scaled as the loss takes them.
    write_text(recipe, read_text(kept) + "\n[[loss]]\nlogits = \"softmax_linear\"\nlogit_scale = 0.5\n");
    std::vector<float> half = scores({file, picture, "--recipe", recipe});
    for (float& each : half) each *= 2;
    CHECK(half == expected);

    // Pictures become images of the size that the metadata say, as those of a checkpoint.
    variables.header["__metadata__"] = {{"image", "[24,24,3]"}, {"classes", R"(["a", "b"])"}};
    write_text(file, variables.bytes());
    CHECK(scores({file, picture, "--recipe", kept}) != expected);
    CHECK(contains(run_towers({"predict", file, picture, "--recipe", kept, "--towers", "cpu"}).out,
                   "class 2 "));

    check_failed(run_towers({"predict", file, picture}), 1,
                 file + ": its metadata names no recipe; it is not a checkpoint of towers. If it has the "
                        "variables of a recipe, give that with --recipe");
    check_failed(run_towers({"predict", file, picture, "--recipe", "mnist-lenet"}), 1, "has no tensor");
    variables.header.erase("conv1/biases");
    write_text(file, variables.bytes());
    check_failed(run_towers({"predict", file, picture, "--recipe", kept}), 1, file);
}

TEST_CASE("pictures come from standard input, as one picture or as a list of paths") {
    const Trained trained;
    const std::string expected = trained.predict({fixture("rgb.jpg")}).out;
    const std::string classes = expected.substr(expected.find(": "));
    const auto check = [](const Outcome& outcome, const std::string& out) {
        check_worked(outcome);
        CHECK(outcome.out == out);
    };
    check(trained.predict_in_shell(fmt::format("cat '{}' |", fixture("rgb.jpg")), "-"),
          "standard input" + classes);
    const std::string list =
        fmt::format("printf '%s\\n' '{}' '{}' |", fixture("rgb.jpg"), fixture("rgb.jpg"));
    check(trained.predict_in_shell(list, "--files-from -"), expected + expected);
    const std::string zeros = fmt::format("printf '%s\\0' '{}' |", fixture("rgb.jpg"));
    check(trained.predict_in_shell(zeros, "--files-from -"), expected);
    const std::string dos = fmt::format("printf '\\357\\273\\277%s\\r\\n%s\\r\\n' '{}' '{}' |",
                                        fixture("rgb.jpg"), fixture("rgb.jpg"));
    check(trained.predict_in_shell(dos, "--files-from -"), expected + expected);
    check_failed(trained.predict_in_shell("printf '\\377\\376a\\0' |", "--files-from -"), 1,
                 "the list of pictures is UTF-16; write it as UTF-8");
    write_text(trained.folder / "list", fixture("rgb.jpg") + "\n");
    check(trained.predict({fixture("rgb.jpg"), "--files-from", (trained.folder / "list").string()}),
          expected + expected);

    check_failed(trained.predict_in_shell(": |", "-"), 1, "standard input is empty");
    check_failed(trained.predict_in_shell(": |", "--files-from -"), 1, "the list names no pictures");
    check_failed(trained.predict_in_shell(": |", "- --files-from -"), 2, "-: standard input can be only one");
    check_failed(trained.predict_in_shell(": |", "- -"), 2, "-: standard input can be only one");
    check_failed(trained.predict({}), 2, "give the pictures: files, folders, - for one");
}

TEST_CASE("an early version's checkpoint takes the classes of its data, or numbers") {
    const Trained trained;
    const std::string named = trained.predict({fixture("rgb.jpg")}).out;
    const fs::path file = checkpoint(trained.run, 3);
    RawTensors early = RawTensors::read(file);
    const nlohmann::ordered_json sound = early.header["__metadata__"];
    CHECK(sound["image"] == "[32,32,3]");
    early.header["__metadata__"].erase("classes");
    early.header["__metadata__"].erase("image");
    write_text(file, early.bytes());
    const Outcome looked_up = trained.predict({fixture("rgb.jpg")});
    check_worked(looked_up);
    CHECK(looked_up.out == named);
    fs::rename(trained.data, trained.folder / "moved");
    const Outcome numbers = trained.predict({fixture("rgb.jpg")});
    CHECK(numbers.code == 0);
    CHECK(lines_of(numbers.err).size() == 1);
    CHECK(contains(numbers.err, file.string() + " is an early version's and does not name its classes"));
    CHECK(contains(numbers.out, ": class "));

    // What is no size or no list of names is refused.
    for (const char* image :
         {"[32,32]", "[0,32,3]", "[65536,65536,3]", "[32,32,2]", "[1e9,1,1]", "32x32", "{}"}) {
        early.header["__metadata__"] = sound;
        early.header["__metadata__"]["image"] = image;
        write_text(file, early.bytes());
        check_failed(trained.predict({fixture("rgb.jpg")}), 1,
                     file.string() + ": 'classes' or 'image' in its metadata is damaged");
    }
    early.header["__metadata__"] = sound;
    early.header["__metadata__"]["classes"] = "[1, 2]";
    write_text(file, early.bytes());
    check_failed(trained.predict({fixture("rgb.jpg")}), 1, "in its metadata is damaged");
}

TEST_SUITE("slow") {
    TEST_CASE("every device predicts alike") {
        const Trained trained;
        const auto expected = rows_of(trained.predict({trained.files + "/test", "--csv"}).out);
        for (const std::string& id : other_devices()) {
            CAPTURE(id);
            const Outcome outcome = run_towers({"predict", trained.run, "--towers", id + ",cpu", "--batch",
                                                "2", trained.files + "/test", "--csv"});
            check_worked(outcome);
            const auto rows = rows_of(outcome.out);
            REQUIRE(rows.size() == expected.size());
            for (std::size_t i = 0; i < rows.size(); ++i) {
                CHECK(rows[i][0] == expected[i][0]);
                CHECK(std::stod(rows[i][2]) == doctest::Approx(std::stod(expected[i][2])).epsilon(1e-3));
            }
        }
    }
}
