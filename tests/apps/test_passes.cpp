// train --eval-every: test passes within a run.
#include "tests/apps/helpers.h"
#include "tests/apps/json_schema.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <regex>
#include <string>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

const Arguments tiny{"--batch", "4", "--log-every", "4", "--save-every", "4"};

std::vector<nlohmann::json> tests_of(const fs::path& run) {
    std::vector<nlohmann::json> tests;
    for (const nlohmann::json& line : metrics(run))
        if (line.contains("test_precision")) tests.push_back(line);
    return tests;
}

/// What the checkpoint keeps of a plateau schedule.
nlohmann::json read_state(const fs::path& run, unsigned step) {
    return nlohmann::json::parse(
        RawTensors::read(checkpoint(run, step)).header["__metadata__"]["plateau"].get<std::string>());
}

} // namespace

TEST_CASE("train --eval-every shows test figures beside the training's, and changes no bit of the run") {
    const TemporaryFolder folder;
    const fs::path with = folder / "with", without = folder / "without";
    const Arguments steps = tiny + Arguments{"--steps", "10"};
    for (const char* towers : {"cpu", "cpu,cpu"}) {
        const Arguments on{"--towers", towers, "--shares", "even"};
        const std::string out = train_small(with, steps + on + Arguments{"--eval-every", "4"});
        train_small(without, steps + on);
        const std::regex line(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: step (\d+), test precision @ 1 = )"
                              R"(\d\.\d{3}, cross entropy \d+\.\d{3} \(train loss \d+\.\d\d\))");
        std::vector<std::string> tested;
        for (const std::string& each : lines_of(out))
            if (std::smatch match; std::regex_match(each, match, line)) tested.push_back(match[1]);
        CHECK(tested == std::vector<std::string>{"4", "8", "10"});
        CHECK(tests_of(with).size() == 3);
        for (const unsigned step : {0, 4, 8, 10}) {
            const bool same = read_text(checkpoint(with, step)) == read_text(checkpoint(without, step));
            CHECK(same);
        }
        // The figures are eval's.
        const Outcome eval = run_towers({"eval", "--towers", "cpu", "--run", with.string()});
        check_worked(eval);
        CHECK(contains(eval.out,
                       fmt::format("{} of {} examples", tests_of(with)[2]["test_correct"].get<unsigned>(),
                                   tests_of(with)[2]["test_examples"].get<unsigned>())));
        fs::remove_all(with);
        fs::remove_all(without);
    }
}

TEST_CASE("test passes over files have the same figures if the images are streamed") {
    const TemporaryFolder folder;
    write_records(folder / "cifar", 7);
    for (const char* towers : {"cpu", "cpu,cpu,cpu"}) {
        const auto metrics_with = [&](const char* feed) {
            const fs::path run = folder / feed;
            check_worked(run_towers({"train", "--data", (folder / "cifar").string(), "--towers", towers,
                                     "--shares", "even", "--batch", "4", "--steps", "4", "--eval-every", "2",
                                     "--feed", feed, "--run", run.string()}));
            CHECK(tests_of(run).size() == 2);
            std::string text = read_text(run / "metrics.jsonl");
            fs::remove_all(run);
            return text;
        };
        CHECK(metrics_with("streamed") == metrics_with("resident"));
    }
}

TEST_CASE("a run that keeps its best parameters and stops early says so, and what it takes to go on") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    // The learning rate is zero, so that no pass after the first is better.
    const std::string out = train_small(run, tiny + Arguments{"--steps", "100", "--lr", "0", "--eval-every",
                                                              "2", "--keep-best", "--stop-early", "2"});
    CHECK(contains(out, "stopped early: 2 test passes without a better accuracy than "));
    CHECK(contains(out, ", that after step 2\ndone: saved " + checkpoint(run, 6).string()));
    const fs::path best = run / "best.safetensors";
    const auto is_best = [&](const Outcome& outcome, const std::string& more) {
        return std::regex_search(outcome.out,
                                 std::regex("\nbest in the test: step 2, accuracy = [01]\\.\\d{3}, kept in " +
                                            best.string() + more + "\nevaluate with: "));
    };
    CHECK(is_best({0, out, ""}, ""));
    const Outcome eval = run_towers({"eval", "--towers", "cpu", "--checkpoint", best.string()});
    check_worked(eval);
    CHECK(contains(eval.out, "step 2, moving averages"));

    const Outcome waiting = run_towers({"eval", "--towers", "cpu", "--run", run.string(), "--interval", "1"});
    check_worked(waiting);
    CHECK(waiting.out.ends_with("the run has stopped early: there will be no newer checkpoint\n"));

    const Arguments again{"train", "--towers", "cpu", "--run", run.string(), "--resume"};
    const std::string config = read_text(run / "config.toml");
    for (const char* line :
         {"eval-every = 2\n", "eval-raw = false\n", "keep-best = true\n", "stop-early = 2\n"})
        CHECK(contains(config, line));
    Outcome outcome = run_towers(again);
    check_worked(outcome);
    CHECK(contains(outcome.out, "nothing to do: 2 test passes without a better accuracy than "));
    CHECK(contains(outcome.out, "; go on with --stop-early 3 or more, or 0\n"));
    outcome = run_towers(again + Arguments{"--stop-early", "3"});
    check_worked(outcome);
    CHECK(contains(outcome.out, "stopped early: 3 test passes"));
    CHECK(tests_of(run).size() == 4);
    outcome = run_towers(again + Arguments{"--stop-early", "0", "--steps", "10"});
    check_worked(outcome);
    CHECK(contains(outcome.out, "done: saved " + checkpoint(run, 10).string()));
    // Another pass had a better accuracy than the parameters that are kept, which --resume-from has removed.
    std::string lines = read_text(run / "metrics.jsonl");
    lines = std::regex_replace(lines, std::regex("(\"step\":4,.*\"test_precision\":)[0-9.]+"), "$010.999");
    write_text(run / "metrics.jsonl", lines);
    CHECK(is_best(run_towers(again + Arguments{"--stop-early", "0"}),
                  " \\(step 4 had 0\\.999, but its parameters are not kept\\)"));
    outcome = run_towers({"eval", "--towers", "cpu", "--run", run.string(), "--interval", "1"});
    check_worked(outcome);
    CHECK(outcome.out.ends_with("the run has taken all its steps, 10: there will be no newer checkpoint\n"));
    // --init takes the best parameters too.
    check_worked(run_towers(Arguments{"train", "--towers", "cpu", "--steps", "1", "--batch", "2", "--init",
                                      best.string(), "--run", (folder / "other").string()} +
                            small_data()));
}

TEST_CASE(
    "--best-by judges test passes by another metric, also after a resumption and under a plateau schedule") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    const Arguments plateau{"--set", "schedule.epochs=",   "--set", "schedule.kind=plateau",
                            "--set", "schedule.patience=0"};
    // No pass after the first is better: the first rate is zero.
    const std::string out =
        train_small(run, tiny + plateau +
                             Arguments{"--steps", "100", "--lr", "0", "--eval-every", "2", "--best-by",
                                       "auc_macro", "--keep-best", "--stop-early", "2"});
    CHECK(contains(out, "stopped early: 2 test passes without a better macro AUC than "));
    CHECK(contains(out, "best in the test: step 2, macro AUC = "));
    CHECK(contains(read_text(run / "config.toml"), "best-by = 'auc_macro'\n"));
    CHECK(tests_of(run).at(2).contains("test_auc_macro"));
    const Outcome again = run_towers({"train", "--towers", "cpu", "--run", run.string(), "--resume"});
    check_worked(again);
    CHECK(contains(again.out, "nothing to do: 2 test passes without a better macro AUC than "));
    CHECK(read_state(run, 6).at("factor").get<double>() == doctest::Approx(0.01));
}

TEST_CASE("a run that cannot judge its test passes says so once, and keeps nothing") {
    const TemporaryFolder folder;
    const fs::path pictures = source_folder() / "tests/fixtures/pictures";
    for (const char* const name : {"train/a", "train/b", "test/a"}) { // no example of b to tell from a
        fs::create_directories(folder / name);
        fs::copy_file(pictures / "rgb.png", folder / name / "rgb.png");
        fs::copy_file(pictures / "grey.jpg", folder / name / "grey.jpg");
    }
    const Arguments train{"train",        "--recipe",  "mnist-lenet", "--set",   "input.classes=2",
                          "--data",       "train",     "--test-data", "test",    "--towers",
                          "cpu",          "--best-by", "auc_macro",   "--batch", "4",
                          "--eval-every", "1"};
    struct Trial {
        Arguments flags;
        std::string why;
    };
    for (const auto& [flags, why] :
         {Trial{{"--steps", "2", "--keep-best"}, ", which these examples' labels leave undefined"},
          Trial{{"--steps", "1", "--eval-raw", "--lr", "1e30", "--set", "schedule.kind=plateau"},
                " because its loss is not finite"}}) {
        const fs::path run = folder / flags[1];
        const Outcome outcome =
            run_towers(train + flags + Arguments{"--run", run.string()}, {.folder = folder.path()});
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK(contains(outcome.out, "step 1, the test pass is not judged: it has no macro AUC" + why + "\n"));
        CHECK(outcome.out.find("is not judged") == outcome.out.rfind("is not judged"));
        CHECK_FALSE(fs::exists(run / "best.safetensors"));
    }
}

TEST_CASE("what needs test passes or test examples says so before the first step") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    const auto fails = [&](const Arguments& flags, const std::string& message) {
        check_failed(run_towers(Arguments{"train", "--towers", "cpu", "--run", run.string()} + flags), 2,
                     message);
    };
    for (const Arguments& flags : {Arguments{"--keep-best"},
                                   {"--stop-early", "3"},
                                   {"--eval-raw"},
                                   {"--eval-auc"},
                                   {"--best-by", "f1_macro"}})
        fails(flags, flags[0] + ": this run makes no test passes; give --eval-every N too");
    fails({"--set", "schedule.epochs=", "--set", "schedule.kind=plateau"},
          "the recipe's schedule 'plateau' waits for test passes, and this "
          "run makes none; give --eval-every N too");
    const Arguments judged{"--eval-every", "5", "--keep-best", "--best-by"};
    fails(judged + Arguments{"f1-macro"},
          "--best-by 'f1-macro': there is no such metric, but 'f1_macro' is one; known are accuracy, ");
    fails({"--eval-every", "5", "--best-by", "f1_macro"},
          "--best-by f1_macro: nothing is judged by it; give --keep-best or --stop-early N too");
    fails(judged + Arguments{"top_5_accuracy", "--set", "input.classes=5"},
          "--best-by top_5_accuracy: the network tells 5 classes apart, so every example is among 5");
    write_records(folder / "data", 2);
    fs::remove(folder / "data/test_batch.bin");
    const Outcome outcome = run_towers({"train", "--towers", "cpu", "--run", run.string(), "--eval-every",
                                        "5", "--data", (folder / "data").string()});
    check_failed(outcome, 1, "--eval-every needs test examples, and --test-data names others");
    CHECK_FALSE(fs::exists(run));
}

TEST_CASE("the live line shows the last test pass, the final one too") {
    const TemporaryFolder folder;
    const Outcome outcome = run_towers(Arguments{"train", "--towers", "cpu", "--steps", "6", "--eval-every",
                                                 "4", "--run", (folder / "run").string()} +
                                           tiny + small_data(),
                                       {.columns = 100});
    check_worked(outcome);
    CAPTURE(outcome.out);
    const std::string last = outcome.out.substr(outcome.out.rfind("\rstep 6/6"));
    CHECK(contains(last,
                   fmt::format("test {:.3f}", tests_of(folder / "run")[1]["test_precision"].get<double>())));
}

TEST_CASE("eval writes all metrics as JSON, whichever devices evaluate") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run", file = folder / "metrics.json";
    train_small(run, {"--steps", "2", "--batch", "2"});
    const Arguments eval{"eval", "--run", run.string(), "--batch", "7"};
    const Outcome outcome = run_towers(eval + Arguments{"--towers", "cpu", "--json", file.string()});
    check_worked(outcome);
    CHECK(outcome.out.ends_with("\nwrote all metrics to " + file.string() + "\n"));
    CHECK(schema_errors("eval.schema.json", file) == "");
    const nlohmann::json json = nlohmann::json::parse(read_text(file));
    CHECK(contains(outcome.out,
                   fmt::format("balanced accuracy {:.3f}, macro F1 {:.3f}, calibration error {:.3f}\n",
                               json["balanced_accuracy"].get<double>(), json["f1_macro"].get<double>(),
                               json["calibration_error"].get<double>())));
    CHECK(json["accuracy"] == json["correct"].get<double>() / json["examples"].get<double>());
    CHECK(json["recall_weighted"].get<double>() == doctest::Approx(json["accuracy"].get<double>()));
    CHECK(json["top_k"]["accuracy"] == json["top_5_accuracy"]);
    CHECK(json["classes"].size() == 10);
    double sum = 0, classes = 0; // the mean of the classes' AUC
    for (const nlohmann::json& each : json["classes"])
        if (!each["auc"].is_null()) sum += each["auc"].get<double>(), ++classes;
    CHECK(json["auc_macro"].get<double>() == doctest::Approx(sum / classes));

    // Several towers, each with batches of its own, and standard output, where it is alone
    const Outcome piped =
        run_towers(eval + Arguments{"--towers", "cpu,cpu,cpu", "--json", "-", "--top", "3"});
    CHECK(piped.code == 0);
    nlohmann::json shared = nlohmann::json::parse(piped.out);
    CHECK(contains(piped.err,
                   fmt::format("precision @ 3 = {:.3f}, ", shared["top_k"]["accuracy"].get<double>())));
    CHECK(shared["top_k"]["k"] == 3);
    shared["top_k"] = json["top_k"];
    CHECK(shared == json);
    const auto fails = [&](const Arguments& flags, const char* message) {
        check_failed(run_towers(eval + Arguments{"--towers", "cpu"} + flags), 2, message);
    };
    fails({"--top", "11"}, "--top 11: the network tells 10 classes apart; give at most so many");
    fails({"--top", "0"}, "--top");
    fails({"--json", "-", "--confusion", "-"}, "--json and --confusion both write to standard output");
}

TEST_CASE("eval shows the classes, and writes which are taken for which") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--steps", "1", "--batch", "2"});
    const fs::path csv = folder / "confusion.csv";
    const Arguments eval{"eval", "--towers", "cpu", "--run", run.string()};
    const Outcome outcome = run_towers(eval + Arguments{"--per-class", "--confusion", csv.string()});
    check_worked(outcome);
    const std::vector<std::string> lines = lines_of(outcome.out);
    REQUIRE(lines.size() == 18);
    CHECK(lines[17] == "wrote which classes are taken for which to " + csv.string());
    CHECK(std::regex_match(lines[2], std::regex(R"(precision @ 5 = [01]\.\d{3}, \d+ of 40 examples)")));
    CHECK(std::regex_match(
        lines[3],
        std::regex(R"(balanced accuracy \d\.\d{3}, macro F1 \d\.\d{3}, calibration error \d\.\d{3})")));
    CHECK(std::regex_match(lines[4],
                           std::regex("class +examples  precision  recall +F1 +AUC  most often taken for")));
    CHECK(lines[5].starts_with("airplane"));
    CHECK(std::regex_match(lines[15], std::regex(R"(macro average +40( +\d\.\d{3}){4})")));
    CHECK(std::regex_match(lines[16], std::regex(R"(weighted average +40( +\d\.\d{3}){4})")));
    const std::vector<std::string> rows = lines_of(read_text(csv));
    REQUIRE(rows.size() == 11);
    CHECK(rows[0].starts_with("class,airplane,automobile,"));
    unsigned sum = 0;
    for (std::size_t i = 1; i < rows.size(); ++i)
        for (const auto& number : nlohmann::json::parse('[' + rows[i].substr(rows[i].find(',') + 1) + ']'))
            sum += number.get<unsigned>();
    CHECK(sum == 40);
    const fs::path png = folder / "confusion.png";
    const Outcome drawn = run_towers(eval + Arguments{"--confusion", png.string()});
    check_worked(drawn);
    CHECK(drawn.out.ends_with("\nwrote which classes are taken for which to " + png.string() + "\n"));
    const std::string picture = read_text(png);
    CHECK(picture.substr(1, 3) == "PNG");
    const unsigned width = unsigned(std::uint8_t(picture[18])) << 8 | std::uint8_t(picture[19]);
    CHECK(width > 510 + 40); // ten cells of 51, and the names beside them
    // On standard output it is alone.
    const Outcome piped = run_towers(eval + Arguments{"--confusion", "-"});
    CHECK(piped.code == 0);
    CHECK(piped.out == read_text(csv));
    CHECK(contains(piped.err, "precision @ 1 = "));
    check_failed(run_towers(eval + Arguments{"--confusion", "c.txt"}), 2, "--confusion c.txt: give a file");
}
