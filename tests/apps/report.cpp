#include "apps/towers/network_drawing.h"
#include "apps/towers/report_predictions.h"
#include "engine/recipes/recipe.h"
#include "engine/recipes/recipes.h"
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <csignal>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <regex>
#include <set>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// The report inside a page, which must need nothing from elsewhere.
nlohmann::json report_in(const fs::path& file) {
    const std::string page = read_text(file);
    CHECK(page.starts_with("<!DOCTYPE html>"));
    CHECK(page.ends_with("</html>\n"));
    CHECK(contains(page, "default-src 'none'"));
    // The name of SVG's elements is no address to load from.
    const std::string without = std::regex_replace(page, std::regex("http://www\\.w3\\.org/2000/svg"), "");
    CHECK_FALSE(std::regex_search(without, std::regex("https?://|src=|url\\([^#]|@import|<link")));
    const std::string begin = "id=\"report\">";
    const std::size_t from = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::vector<std::string> events_of(const nlohmann::json& run) {
    std::vector<std::string> names;
    for (const nlohmann::json& event : run.at("events")) names.push_back(event.at("event"));
    return names;
}

using Names = std::vector<std::string>;

} // namespace

TEST_CASE("the report of a run has its curves, network, predictions and what happened") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run <b>&";
    train_small(run, {"--batch", "4", "--steps", "4", "--eval-every", "2", "--report"});
    const nlohmann::json written = report_in(run / "report.html").at("runs").at(0);
    CHECK(written.at("predictions").at("step") == 4);

    // Once more, after a resumption
    train_small(run, {"--resume", "--steps", "6"});
    const Outcome outcome = run_towers({"report", run.string(), "--towers", "cpu"});
    check_worked(outcome);
    CHECK(outcome.out == fmt::format("wrote {}\n", (run / "report.html").string()));
    const nlohmann::json report = report_in(run / "report.html");
    CHECK(report.at("schema") == 1);
    const nlohmann::json& json = report.at("runs").at(0);
    CHECK(json.at("name") == "run <b>&");
    CHECK(json.at("curves").at("step") == nlohmann::json{0, 1, 2, 3, 4, 5});
    const auto lines = metrics(run);
    CHECK(json.at("curves").at("loss").at(5) == lines.at(lines.size() - 2).at("loss"));
    CHECK(json.at("tests").size() == 3);
    const nlohmann::json& tested = json.at("tests").at(2).at("metrics");
    CHECK(tested.at("accuracy") == lines.back().at("test_precision"));
    CHECK(tested.at("f1_macro") == lines.back().at("test_f1_macro"));
    CHECK(report.at("metrics").at(0) == nlohmann::json{{"name", "accuracy"}, {"text", "accuracy"}});
    CHECK(json.at("times").size() == 6);
    CHECK(json.at("times").at(5).at("rate").get<double>() > 0);
    CHECK(json.at("times").at(5).at("elapsed").get<double>() >=
          json.at("times").at(3).at("elapsed").get<double>());
    CHECK(events_of(json) == Names{"start", "finished", "resume", "finished"});
    CHECK(json.at("steps") == 6);
    CHECK(json.at("steps_done") == 6);

    // What eval says of the same parameters
    const nlohmann::json& made = json.at("predictions");
    const Outcome eval = run_towers({"eval", "--run", run.string(), "--towers", "cpu", "--confusion", "-"});
    CHECK(contains(eval.err, fmt::format("{} of {} examples", made.at("correct").get<int>(),
                                         made.at("examples").get<int>())));
    CHECK(
        contains(eval.err, fmt::format("macro F1 {:.3f}", made.at("metrics").at("f1_macro").get<double>())));
    double sum = 0, classes = 0; // the mean of the classes' AUC
    for (const nlohmann::json& each : made.at("confusion").at("classes"))
        if (each.contains("auc")) sum += each["auc"].get<double>(), ++classes;
    CHECK(made.at("metrics").at("auc_macro").get<double>() == doctest::Approx(sum / classes));
    std::uint64_t counted = 0;
    for (const nlohmann::json& count : made.at("confusion").at("counts"))
        counted += count.at(2).get<std::uint64_t>();
    CHECK(counted == made.at("examples"));
    CHECK(made.at("samples").size() == std::min<std::size_t>(24, made.at("examples").get<std::size_t>()));
    CHECK(made.at("samples").at(0).at("image").get<std::string>().starts_with(
        "iVBORw0KGgo")); // PNG's signature
    double before = 0;
    for (const nlohmann::json& mistake : made.at("mistakes")) {
        CHECK(mistake.at("label") != mistake.at("predicted"));
        CHECK(mistake.at("probability").get<double>() >= before);
        before = mistake.at("probability").get<double>();
    }
    const nlohmann::json& network = report.at("networks").at(0);
    CHECK(network.at("boxes").at(0).at("shape") == "24 × 24 × 3");
    CHECK(network.at("boxes").back().at("name") == "softmax_linear");
}

TEST_CASE("the report of several runs says what differs, and which diverged or lost a device") {
    const TemporaryFolder folder;
    train_small(folder / "a", {"--batch", "4", "--steps", "2"});
    train_small(folder / "b",
                {"--batch", "4", "--steps", "2", "--seed", "5", "--set", "optimizer.learning_rate=0.01"});
    CHECK(run_towers(Arguments{"train", "--towers", "cpu", "--batch", "2", "--steps", "5", "--lr", "1e30",
                               "--run", (folder / "c").string()} +
                     small_data())
              .code == 1);
    fs::create_directory(folder / "other");
    fs::copy(folder / "a", folder / "other/a", fs::copy_options::recursive);
    check_worked(run_towers({"report", "a", "b", "c", "other/a", "--no-predictions", "--out", "page.html"},
                            {.folder = folder.path()}));
    const nlohmann::json report = report_in(folder / "page.html");
    const nlohmann::json& runs = report.at("runs");
    REQUIRE(runs.size() == 4);
    CHECK(runs.at(0).at("name") == "a");
    CHECK(runs.at(1).at("name") == "b");
    CHECK(runs.at(3).at("name") == "other/a");
    CHECK_FALSE(runs.at(0).contains("predictions"));
    CHECK(events_of(runs.at(2)).back() == "diverged");
    CHECK(runs.at(0).at("network") == runs.at(2).at("network"));
    CHECK(report.at("networks").size() == 1);
    bool found = false;
    for (const nlohmann::json& row : report.at("settings"))
        if (row.at("name") == "seed") {
            found = true;
            CHECK(row.at("values") == nlohmann::json{"1", "5", "1", "1"});
        }
    CHECK(found);
    const nlohmann::json& differences = report.at("recipe_differences");
    REQUIRE(differences.at("all") == 1);
    CHECK(differences.at("rows").at(0).at("name") == "optimizer.learning_rate");
}

TEST_CASE("the report of a run that goes on does not disturb it") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    Program training(towers_command(Arguments{"train", "--towers", "cpu", "--batch", "2", "--steps", "100000",
                                              "--log-every", "1", "--run", run.string()} +
                                    small_data()));
    REQUIRE(training.wait_for_lines("step ", 3));
    check_worked(
        run_towers({"report", run.string(), "--towers", "cpu", "--out", (folder / "page.html").string()}));
    const nlohmann::json json = report_in(folder / "page.html").at("runs").at(0);
    CHECK(json.at("steps_done").get<int>() >= 3);
    CHECK(events_of(json) == Names{"start"});
    CHECK(json.at("predictions").at("step") == 0);
    training.send(SIGINT);
    CHECK(training.end().code == 0);
    check_worked(run_towers({"report", run.string(), "--no-predictions", "--out", "-"}));
    check_worked(run_towers({"report", run.string(), "--no-predictions"}));
    CHECK(events_of(report_in(run / "report.html").at("runs").at(0)) == Names{"start", "stopped"});
}

TEST_CASE("the samples of a report show every class, and as many pictures as there are") {
    using Records = std::vector<std::uint32_t>;
    const auto classes_of = [](const Records& labels, std::size_t count) {
        std::vector<std::uint32_t> classes;
        for (const std::uint32_t record : towers::samples_of(labels, count))
            classes.push_back(labels[record]);
        return classes;
    };
    CHECK(classes_of({}, 24).empty());
    CHECK(classes_of({0, 0, 0, 1, 1, 1}, 0).empty());
    CHECK(classes_of({0, 0, 0, 0, 0, 0, 1, 1, 1}, 5) == Records{0, 1, 0, 1, 0});
    CHECK(towers::samples_of(Records{0, 0, 0, 0, 0, 0, 1, 1, 1}, 4) == Records{0, 6, 3, 7});
    Records many(60, 7); // and one of another class
    many.push_back(3);
    CHECK(classes_of(many, 24).size() == 24);
    CHECK(classes_of(many, 24).front() == 3);
    Records labels;
    for (std::uint32_t i = 0; i < 100; ++i) labels.insert(labels.end(), 2, i);
    const Records some = classes_of(labels, 24);
    CHECK(std::set(some.begin(), some.end()).size() == 24);
    CHECK(some.front() <= 4);
    CHECK(some.back() >= 95);
    CHECK(classes_of(labels, 1000).size() == 200);
}

TEST_CASE("what a report cannot read gets one line") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--batch", "4", "--steps", "2"});
    const auto report = [&](const Arguments& more = {}) {
        return run_towers(Arguments{"report", run.string(), "--towers", "cpu"} + more);
    };
    check_failed(run_towers({"report", (folder / "none").string()}), 1, "there is no run directory");
    check_failed(run_towers({"report", folder.path().string()}), 1, "holds no run: it has no config.toml");
    check_failed(run_towers({"report"}), 2, "give the folders of runs");
    check_failed(report({"--out", (folder / "none/page.html").string()}), 1, "none/page.html");
    check_failed(run_towers({"report", run.string(), "--towers", "cpu:9"}), 2, "cpu:9");

    for (const auto& [name, line] :
         std::vector<std::pair<std::string, std::string>>{{"metrics.jsonl", "{\"step\":7}\n"},
                                                          {"times.jsonl", "{\"event\":[]}\n"},
                                                          {"config.toml", "steps = \"many\"\n"},
                                                          {"recipe.toml", "[network\n"}}) {
        const std::string before = read_text(run / name);
        write_text(run / name, before + line);
        check_failed(report(), 1, name);
        write_text(run / name, before);
    }
    const fs::path latest = checkpoint(run, 2);
    const std::string before = read_text(latest);
    write_text(latest, before.substr(0, before.size() / 2));
    check_failed(report(), 1, latest.filename().string());
    check_failed(report(), 1, "; --no-predictions writes the page without it");
    check_worked(report({"--no-predictions"}));
    write_text(latest, before);

    // Data that has gone leaves out the predictions only.
    write_records(folder / "data", 10);
    train(folder / "gone", {"--data", (folder / "data").string(), "--batch", "4", "--steps", "1"});
    fs::remove_all(folder / "data");
    const Outcome without = run_towers({"report", (folder / "gone").string(), "--towers", "cpu"});
    check_worked(without);
    CHECK(contains(without.out, "no predictions: "));
    CHECK(contains(without.out, "is not there any more"));
    CHECK(contains(report_in(folder / "gone/report.html")
                       .at("runs")
                       .at(0)
                       .at("predictions")
                       .at("absent")
                       .get<std::string>(),
                   "is not there any more"));
}

TEST_CASE("the picture of towers at work shows their tracks, shares and rates") {
    const TemporaryFolder folder;
    const auto path = [&](const char* name) { return (folder / name).string(); };
    train_small(folder / "pair", {"--towers", "cpu,cpu", "--shares", "3:1", "--batch", "4", "--steps", "3",
                                  "--trace", path("trace.json")});
    train_small(folder / "one", {"--batch", "8", "--steps", "3"});
    const Arguments draw{"report", path("pair"), path("one"), "--svg", path("pair.svg")};
    check_worked(run_towers(draw + Arguments{"--trace", path("trace.json")}));
    const std::string svg = read_text(folder / "pair.svg");
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(svg.ends_with("</svg>\n"));
    for (const char* text : {"Steps 1 to 2: ", ">cpu 75 %<", ">cpu 25 %<", ">cpu alone<", ">together<",
                             ">Examples per second<", "prefers-color-scheme: dark"})
        CHECK(contains(svg, text));
    CHECK_FALSE(std::regex_search(svg, std::regex("href|url\\(|nan|inf[^o]")));

    check_failed(run_towers(draw), 2, "--trace");
    check_failed(run_towers({"report", path("pair"), "--trace", path("trace.json")}), 2, "--svg");
    check_failed(run_towers(draw + Arguments{"--trace", path("trace.json"), "--out", "x.html"}), 2, "--out");
    check_failed(run_towers(draw + Arguments{"--trace", path("pair/config.toml")}), 1,
                 "is no trace of a run");
    write_text(folder / "empty.json", "{\"traceEvents\": []}");
    check_failed(run_towers(draw + Arguments{"--trace", path("empty.json")}), 1, "is a trace without steps");
    check_failed(run_towers({"report", path("one"), "--svg", path("x.svg"), "--trace", path("trace.json")}),
                 1, "shows a run of several towers");
}

TEST_CASE("the drawing of every network has each parameter, and no boxes on top of each other") {
    for (const towers::BuiltinRecipe& built_in : towers::builtin_recipes()) {
        const std::string name = built_in.name;
        CAPTURE(name);
        const towers::Recipe recipe = towers::find_recipe(name);
        const towers::NetworkDrawing drawing = towers::draw_network(recipe.model);
        using towers::NetworkBox;
        const double width = towers::NetworkDrawing::box_width, height = towers::NetworkDrawing::box_height;
        for (std::size_t i = 0; i < drawing.boxes.size(); ++i) {
            const NetworkBox& a = drawing.boxes[i];
            CHECK(a.x >= 0);
            CHECK(a.x + width <= drawing.width);
            CHECK(a.y + height <= drawing.height);
            for (std::size_t j = 0; j < i; ++j) {
                const NetworkBox& b = drawing.boxes[j];
                CHECK_FALSE((std::abs(a.x - b.x) < width && std::abs(a.y - b.y) < height));
            }
        }
        std::size_t parameters = 0, all = 0;
        for (const NetworkBox& box : drawing.boxes) {
            unsigned times = 1;
            for (const towers::NetworkRepeat& repeat : drawing.repeats)
                if (box.x >= repeat.x && box.x < repeat.x + repeat.width && box.y >= repeat.y &&
                    box.y < repeat.y + repeat.height)
                    times = repeat.times;
            parameters += times * box.parameters;
        }
        for (const towers::Variable& variable : recipe.model.variables())
            if (variable.role == towers::Role::trained) all += variable.elements();
        CHECK(parameters == all);
    }
}
