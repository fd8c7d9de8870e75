#include "engine/observers/events.h"

#include "engine/recipes/recipe_plan.h"
#include "engine/train/loop.h"
#include "tests/support/devices.h"
#include "tests/support/events.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <span>

namespace towers {
namespace {

const Dataset& data() {
    static const Dataset noise = test::noise(50);
    return noise;
}

LoopOptions loop_of(std::uint64_t steps) {
    return {.steps = steps,
            .save_every = 4,
            .keep = 0,
            .log_every = 1,
            .origin = {"cifar10-tutorial", 3, 50, 0, "", test::small_recipe().checksum},
            .global_batch = 4,
            .tests = {.every = 4}};
}

/// Remembers each step's report.
struct Reports final : Observer {
    std::string place() const override { return "nowhere"; }
    bool observe(const Progress& progress) override {
        steps.push_back(progress.report);
        return false;
    }
    bool tested(const TestReport& report) override {
        tests.push_back(report);
        return false;
    }
    void warn(const std::string& line) override { warnings.push_back(line); }

    std::vector<StepReport> steps;
    std::vector<TestReport> tests;
    std::vector<std::string> warnings;
};

/// Trains in the folder, on from its latest checkpoint if it has one, or from `from`. Returns the state.
std::vector<float> run_in(const std::filesystem::path& folder, std::uint64_t steps, std::uint64_t every,
                          Reports& reports, const std::vector<std::string>& towers = {"cpu"},
                          std::optional<std::uint64_t> from = {}) {
    const LoopOptions loop = loop_of(steps);
    const bool resumes = std::filesystem::exists(folder);
    const Dataset tests = test::noise(24);
    Trainer trainer(test::small_recipe(), test::options_for(towers, 4), data(), test::borrowed(tests));
    RunDirectory run(folder, resumes ? Existing::resume : Existing::refuse);
    if (resumes) {
        resume(trainer, test::small_recipe(), find_checkpoint(folder, from), loop.origin);
        rewind(run, trainer);
    } else {
        save_checkpoint(trainer, run, loop);
    }
    std::optional<Events> events;
    if (every > 0) events.emplace(trainer, data(), run, every);
    std::vector<Observer*> observers{&reports};
    if (events) observers.push_back(&*events);
    train(trainer, run, loop, false, observers);
    return trainer.save().state;
}

/// The steps of the events that have a tag.
std::vector<std::int64_t> steps_with(const std::vector<test::ReadEvent>& events, const std::string& tag) {
    std::vector<std::int64_t> steps;
    for (const test::ReadEvent& event : events)
        if (event.scalars.contains(tag)) steps.push_back(event.step);
    return steps;
}

} // namespace

TEST_CASE("events tell TensorBoard of losses, rates, images and test passes") {
    const test::TemporaryFolder folder;
    Reports reports;
    run_in(folder / "run", 7, 3, reports);
    const auto files = test::event_files(folder / "run");
    REQUIRE(files.size() == 1);
    const auto events = test::read_events(files[0]);
    REQUIRE(events.size() == 7); // version, begin, steps 0, 3, 6, test passes after 4 and 7
    CHECK(events[0].file_version == "brain.Event:2");
    CHECK(events[1].session_status == 1);
    CHECK(events[1].step == 0);
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    for (const test::ReadEvent& event : events) CHECK(std::abs(event.wall_time - now.count()) < 600);
    CHECK(steps_with(events, "total_loss") == std::vector<std::int64_t>{0, 3, 6});
    CHECK(steps_with(events, "Precision @ 1") == std::vector<std::int64_t>{4, 7});

    double sum = 0, weight = 0;
    for (std::size_t step = 0; step < 4; ++step) {
        sum = 0.9 * sum + 0.1 * reports.steps[step].loss;
        weight = 0.9 * weight + 0.1;
    }
    const test::ReadEvent& third = events[3];
    CHECK(third.step == 3);
    CHECK(third.scalars.at("total_loss (raw)") == reports.steps[3].loss);
    CHECK(third.scalars.at("total_loss") == doctest::Approx(sum / weight));
    CHECK(third.scalars.at("cross_entropy (raw)") == reports.steps[3].cross_entropy);
    CHECK(events[2].scalars.at("cross_entropy") == doctest::Approx(reports.steps[0].cross_entropy));
    CHECK(third.scalars.at("learning_rate") == doctest::Approx(reports.steps[3].learning_rate));
    CHECK(third.scalars.at("examples_per_second") > 0);
    CHECK(third.scalars.at("tower_0/share") == 4);
    CHECK(third.scalars.at("tower_0/examples_per_second") > 0);
    CHECK(third.scalars.at("tower_0/waiting") >= 0);
    CHECK(third.scalars.at("tower_0/waiting") <= 1);
    CHECK(events[4].scalars.at("Precision @ 1") == doctest::Approx(reports.tests[0].evaluation.accuracy()));
    CHECK(events[4].scalars.contains("Precision @ 5"));
    CHECK(events[4].scalars.contains("test/cross_entropy"));

    REQUIRE(third.pictures.size() == 3);
    for (int i = 0; i < 3; ++i) {
        const test::ReadPicture& picture = third.pictures.at(fmt::format("images/image/{}", i));
        CHECK(picture.width == 24);
        CHECK(picture.height == 24);
        CHECK(picture.channels == 3);
        CHECK(picture.png.substr(1, 3) == "PNG");
        CHECK(picture.png != events[2].pictures.at(fmt::format("images/image/{}", i)).png);
    }
}

TEST_CASE("events change no bit of a run, and tell of each tower's part") {
    const test::TemporaryFolder folder;
    for (const std::vector<std::string>& towers : {std::vector<std::string>{"cpu"}, {"cpu", "cpu"}}) {
        const std::string name = fmt::format("{} towers", towers.size());
        Reports with, without;
        CHECK(run_in(folder / (name + " with"), 5, 1, with, towers) ==
              run_in(folder / (name + " without"), 5, 0, without, towers));
        CHECK(test::event_files(folder / (name + " without")).empty());
    }
    const auto events = test::read_events(test::event_files(folder / "2 towers with").at(0));
    const auto& scalars = events.at(3).scalars;
    CHECK(scalars.at("tower_0/share") + scalars.at("tower_1/share") == 4);
    for (const char* tag : {"tower_0/total_loss", "tower_1/total_loss", "tower_1/examples_per_second"})
        CHECK(scalars.at(tag) > 0);
}

namespace {

/// Checks a histogram against the values that it is of, each of which stands in one bucket.
void check_histogram(const test::ReadHistogram& made, std::span<const float> values) {
    double sum = 0, squares = 0;
    for (const float x : values) {
        sum += double(x);
        squares += double(x) * double(x);
    }
    CHECK(made.count == double(values.size()));
    CHECK(made.least == double(*std::ranges::min_element(values)));
    CHECK(made.largest == double(*std::ranges::max_element(values)));
    CHECK(made.sum == doctest::Approx(sum).epsilon(1e-4).scale(std::sqrt(squares)));
    CHECK(made.squares == doctest::Approx(squares).epsilon(1e-5));
    REQUIRE(made.limits.size() == made.counts.size());
    CHECK(std::ranges::is_sorted(made.limits));
    std::vector<double> counts(made.counts.size());
    for (const float x : values) // a limit belongs to the bucket above it if positive, else to the one below
        ++counts[std::size_t((x < 0 ? std::ranges::lower_bound(made.limits, double(x))
                                    : std::ranges::upper_bound(made.limits, double(x))) -
                             made.limits.begin())];
    CHECK(counts == made.counts);
}

/// The scores that the network gives the first examples of data(), by an evaluation of its own.
std::vector<float> scores(const Recipe& recipe, std::span<const float> variables, unsigned examples) {
    const StateLayout layout = layout_of(recipe);
    const Model model = recipe.model.for_evaluation();
    NetworkSpec spec = test::spec_of(recipe, layout, examples, data().size());
    spec.model = &model;
    spec.distort = false;
    const Plan plan = plan_evaluation(spec);
    Session session(test::device("cpu"));
    session.hold(plan.bytes());
    session.load(data());
    session.upload(Arena::state, variables.first(layout.variable_bytes / sizeof(float)));
    std::vector<Example> batch;
    for (std::uint32_t i = 0; i < examples; ++i) batch.push_back({.record = i});
    ResidentFeed(data()).bring(batch);
    session.write(batch);
    session.run(session.record(plan));
    const auto logits = session.host<float>(plan.find("staged_logits"));
    return {logits.begin(), logits.end()};
}

} // namespace

TEST_CASE("events have histograms of variables, gradients and activations, made on the devices") {
    const test::TemporaryFolder folder;
    const Recipe recipe = test::small_recipe();
    for (const std::vector<std::string>& towers : {std::vector<std::string>{"cpu"}, {"cpu", "cpu"}}) {
        INFO(towers.size(), " towers");
        TrainerOptions options = test::options_for(towers, 4);
        options.distort = options.shuffle = false;
        Trainer trainer(recipe, options, data());
        const RunDirectory run(folder / fmt::format("{}", towers.size()), Existing::refuse);
        Events events(trainer, data(), run, 1);
        const StepReport report = trainer.step();
        const std::vector<float> state = trainer.save().state, gradients = trainer.gradients();
        CHECK(events.observe({.report = report}));
        CHECK(trainer.save().state == state);
        const test::ReadEvent event = test::read_events(test::event_files(run.path()).at(0)).at(2);

        const bool several = towers.size() > 1;
        double decay = 0, tagged = 0;
        for (const VariableSlot& slot : trainer.layout().variables) {
            const std::string& name = slot.variable.name;
            INFO(name);
            const auto of = [&](const std::vector<float>& all) {
                return std::span(all).subspan(slot.range.offset / sizeof(float), slot.variable.elements());
            };
            check_histogram(event.histograms.at(name), of(state));
            check_histogram(event.histograms.at(name + "/gradients"), of(gradients));
            CHECK(event.histograms.contains("gradients_on_average/" + name) == several);
            if (slot.weight_decay == 0) continue;
            const std::string layer = name.substr(0, name.find('/'));
            double squares = 0;
            for (const float x : of(state)) squares += double(x) * double(x);
            CHECK(event.scalars.at(layer + "/weight_loss (raw)") ==
                  doctest::Approx(slot.weight_decay / 2 * squares));
            decay += slot.weight_decay / 2 * squares;
            tagged += event.scalars.at(layer + "/weight_loss");
        }
        CHECK(decay > 0);
        CHECK(tagged == doctest::Approx(decay)); // the average of one step

        const unsigned examples = several ? 2 : 4;
        for (const char* layer : {"conv1", "conv2", "local3", "local4"}) {
            const test::ReadHistogram& histogram = event.histograms.at(std::string(layer) + "/activations");
            CHECK(histogram.least >= 0); // after its ReLU
            CHECK(histogram.largest > 0);
            const auto zeros = std::ranges::upper_bound(histogram.limits, 0.0) - histogram.limits.begin();
            CHECK(double(event.scalars.at(std::string(layer) + "/sparsity")) ==
                  doctest::Approx(histogram.counts.at(std::size_t(zeros)) / histogram.count));
        }
        CHECK(event.scalars.at("conv1/sparsity") > 0);
        CHECK(event.scalars.at("conv1/sparsity") < 1);
        CHECK(event.histograms.at("conv1/activations").count == examples * 24 * 24 * 8);
        CHECK_FALSE(event.histograms.contains("pool1/activations"));
        check_histogram(event.histograms.at("softmax_linear/activations"), scores(recipe, state, examples));
        CHECK(event.scalars.at("softmax_linear/sparsity") == 0);
    }
}

TEST_CASE("events of several towers have histograms of statistics too") {
    const test::TemporaryFolder folder;
    const Recipe recipe = test::smooth_recipe("2");
    Trainer trainer(recipe, test::options_for({"cpu", "cpu"}, 4), data());
    const RunDirectory run(folder / "run", Existing::refuse);
    Events events(trainer, data(), run, 1);
    const StepReport report = trainer.step();
    const std::vector<float> state = trainer.save().state;
    CHECK(events.observe({.report = report}));
    CHECK(trainer.save().state == state);
    const test::ReadEvent event = test::read_events(test::event_files(run.path()).at(0)).at(2);
    std::size_t statistics = 0;
    for (const VariableSlot& slot : trainer.layout().variables) {
        const std::string& name = slot.variable.name;
        INFO(name);
        const auto values =
            std::span(state).subspan(slot.range.offset / sizeof(float), slot.variable.elements());
        check_histogram(event.histograms.at(name), values);
        const bool trained = slot.variable.role == Role::trained;
        CHECK(event.histograms.contains(name + "/gradients") == trained);
        statistics += trained ? 0 : 1;
    }
    CHECK(statistics == 2);
    trainer.step();
}

TEST_CASE("a resumed run writes a file of its own that takes back later steps of earlier ones") {
    const test::TemporaryFolder folder;
    Reports reports;
    run_in(folder / "run", 8, 1, reports);
    run_in(folder / "run", 10, 1, reports, {"cpu"}, 4);
    const auto files = test::event_files(folder / "run");
    REQUIRE(files.size() == 2);
    const auto events = test::read_events(files[1]);
    CHECK(events[1].session_status == 1);
    CHECK(events[1].step == 4);
    CHECK(steps_with(events, "total_loss") == std::vector<std::int64_t>{4, 5, 6, 7, 8, 9});
    // The pass after step 4 is the first start's, and a viewer drops it there.
    CHECK(steps_with(events, "Precision @ 1") == std::vector<std::int64_t>{4, 8, 10});
    const auto before = test::read_events(files[0]);
    for (const char* const tag : {"Precision @ 1", "Precision @ 5", "test/cross_entropy"}) {
        CAPTURE(tag);
        REQUIRE(steps_with(before, tag).front() == 4);
        for (const test::ReadEvent& event : before)
            if (event.step == 4 && event.scalars.contains(tag))
                CHECK(event.scalars.at(tag) == doctest::Approx(events[2].scalars.at(tag)));
    }
}

TEST_CASE("a start's events come after those of earlier ones, also if the clock was set back") {
    const test::TemporaryFolder folder;
    const RunDirectory run(folder / "run", Existing::refuse);
    const std::string tomorrow = fmt::format("events.out.tfevents.{}.towers", std::time(nullptr) + 86400);
    test::write_text(run.path() / tomorrow, "");
    CHECK(run.make_events_file().filename().string() > tomorrow);
}

TEST_CASE("events that find no room are written when there is some") {
    const test::TemporaryFolder folder;
    const RunDirectory run(folder / "run", Existing::refuse);
    EventFile file(run, 0);
    Summary summary;
    summary.add_scalar("value", 1);
    {
        const test::FullDisk disk(0);
        CHECK(test::input_error([&] { file.append(0, summary); }).find("File too large") !=
              std::string::npos);
    }
    file.append(1, summary);
    file.sync();
    const auto events = test::read_events(test::event_files(folder / "run").at(0));
    CHECK(steps_with(events, "value") == std::vector<std::int64_t>{0, 1});
    CHECK(events.at(0).file_version == "brain.Event:2");

    std::filesystem::rename(folder / "run", folder / "elsewhere");
    EventFile lost(run, 2);
    CHECK(test::input_error([&] { lost.append(2, summary); }).find("cannot write") != std::string::npos);
    std::filesystem::rename(folder / "elsewhere", folder / "run");
    lost.sync();
    CHECK(steps_with(test::read_events(test::event_files(folder / "run").at(1)), "value") ==
          std::vector<std::int64_t>{2});
}

} // namespace towers
