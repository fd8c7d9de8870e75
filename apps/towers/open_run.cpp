#include "apps/towers/open_run.h"

#include "apps/towers/hint.h"
#include "apps/towers/progress.h"
#include "backends/error.h"
#include "engine/execution/operands.h"
#include "engine/files/text.h"
#include "engine/model/freeze.h"
#include "engine/plural.h"
#include "engine/tuning/tuning.h"

#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>

namespace towers {
namespace {

/// Throws if some output was lost. `end`: text that the user would otherwise not see.
void complain_of_output(const std::string& end) {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    throw InputError(fmt::format("cannot write to standard output; the output is incomplete; {}", end));
}

/// The command that evaluates the run: what --keep-best has kept, if there is something.
std::string way_to_evaluate(const OpenRun& run) {
    const bool has_best = run.loop.tests.keep_best && run.directory.best();
    const std::filesystem::path of = has_best ? run.directory.best_path() : run.directory.path();
    const std::string eval = hint({"eval", path_argument(of.string())});
    return run.has_tests
               ? "evaluate with: " + eval
               : fmt::format("there are no sound test examples; evaluate on others with: {} --data PATH",
                             eval);
}

/// The parameters that --keep-best keeps, with their step; "" if there are none.
std::string what_is_best(const OpenRun& run) {
    const auto kept = run.loop.tests.keep_best ? run.directory.best() : std::nullopt;
    if (!kept) return "";
    const TestRecord record = TestRecord::read(run.directory.metrics_path(), run.trainer.steps_done());
    const Metric& by = find_metric(kept->by, run.directory.best_path().string());
    const TestedStep* const best = record.best(by);
    const bool is_lost = best != nullptr && by.is_better(*best->value(by), kept->value);
    return fmt::format("best in the test: step {}, {} = {:.3f}, kept in {}{}\n", kept->step, by.text,
                       kept->value, run.directory.best_path().string(),
                       is_lost ? fmt::format(" (step {} had {:.3f}, but its parameters are not kept)",
                                             best->step, *best->value(by))
                               : "");
}

} // namespace

void compare_classes(const Recipe& recipe, const DataInfo& data, const std::string& source, bool resumes) {
    const unsigned classes = recipe.model.classes - recipe.model.label_offset;
    const std::size_t wanted = data.classes.size() + recipe.model.label_offset;
    if (data.classes.size() < classes)
        fmt::print("{} tells {} classes apart, and {} has {}{}\n", recipe.name, classes, as_printable(source),
                   data.classes.size(),
                   resumes ? "" : fmt::format("; --set input.classes={} leaves out the others", wanted));
}

void print_new_layers(const Beginning& beginning) {
    for (const NewLayer& layer : beginning.new_layers)
        fmt::print("layer '{}' begins anew, because {} is of another number of classes: {}\n", layer.name,
                   beginning.path.string(), fmt::join(layer.shapes, "; "));
}

void print_frozen(const Model& model) {
    const Frozen frozen = count_frozen(model);
    if (frozen.variables > 0)
        fmt::print("{} of {} variables are frozen, with {} of {} parameters\n", frozen.variables,
                   frozen.of_variables, frozen.parameters, frozen.of_parameters);
}

std::string operands_of(const Trainer& trainer, std::size_t tower) {
    const Precision allowed = trainer.options().open.precision;
    const std::shared_ptr<Tuning>& tuning = trainer.options().tuning;
    // Only choices make anything else of float32: nothing needs to be planned again.
    if (allowed == Precision::fp32 && (tuning == nullptr || !tuning->has_choices())) return {};
    const Tower* const its = trainer.own_tower(tower);
    // An idle one has no plan; it may have failed while it was tuned.
    if (its == nullptr || its->share() == 0) return {};
    const std::string text = describe(operand_parts(its->session().device(), its->plan()), allowed);
    return text.empty() ? text : "; " + text;
}

void print_towers(const Trainer& trainer) {
    const std::vector<unsigned> examples = trainer.shares();
    for (std::size_t i = 0; i < examples.size(); ++i) {
        const TowerFacts tower = trainer.facts(i);
        const std::string pieces = to_string(tower.at_once);
        fmt::print("tower_{}: {} ({}{}{}), {} a step{}{}{}\n", i, tower.name, tower.info.name,
                   tower.host.empty() ? "" : " on ", tower.host, count_of(examples[i], "example"),
                   pieces.empty() ? "" : " in ", pieces, operands_of(trainer, i));
    }
}

std::string why_early(const TestRecord& record, const Metric& by) {
    const std::uint64_t passes = record.since_best(by);
    const TestedStep& best = *record.best(by);
    return fmt::format("{} test {} without a better {} than {:.3f}, that after step {}", passes,
                       passes == 1 ? "pass" : "passes", by.text, *best.value(by), best.step);
}

void report_end(const OpenRun& run, const std::string& saved, Ending ending) {
    const std::string then =
        ending == Ending::stopped
            ? "resume with: " +
                  hint({"train", "--run", path_argument(run.directory.path().string()), "--resume"})
            : way_to_evaluate(run);
    try_to([&] { fmt::print("{}\n{}{}\n", saved, what_is_best(run), then); });
    complain_of_output(fmt::format("{}; {}", saved, then));
}

bool is_done(const OpenRun& run) {
    if (!run.past) return false;
    const std::uint64_t steps = run.trainer.steps_done();
    const TestRecord record = TestRecord::read(run.directory.metrics_path(), steps);
    const bool tested = !run.loop.tests.are_due(steps, run.loop.steps) || record.find(steps) != nullptr;
    if (steps >= run.loop.steps && tested)
        fmt::print("nothing to do: {} steps are asked for, and {} has {}; ask for more with --steps\n",
                   run.loop.steps, run.past->checkpoint.path.string(), steps);
    else if (run.loop.tests.are_enough(record))
        fmt::print("nothing to do: {}; go on with --stop-early {} or more, or 0\n",
                   why_early(record, *run.loop.tests.best_by),
                   record.since_best(*run.loop.tests.best_by) + 1);
    else
        return false;
    fmt::print("{}{}\n", what_is_best(run), way_to_evaluate(run));
    return true;
}

} // namespace towers
