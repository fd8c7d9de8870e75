#include "engine/observers/events.h"

#include "engine/data/planes.h"
#include "engine/inference/preview.h"
#include "engine/recipes/recipe_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <spdlog/spdlog.h>
#include <string>
#include <utility>

namespace towers {
namespace {

constexpr double average_decay = 0.9;                                     // as the tutorials have it
constexpr std::size_t pictures = 3;                                       // of a summary, likewise
const std::string activations = "/activations", gradients = "/gradients"; // ends of histograms' names

Summary summary_of(const TestedStep& pass) {
    Summary summary;
    for (const Metric& metric : all_metrics())
        if (const auto value = pass.value(metric)) summary.add_scalar(metric.tag, *value);
    return summary;
}

} // namespace

Events::Events(Trainer& trainer, const DataSource& data, const RunDirectory& run, std::uint64_t every)
    : trainer_(trainer), data_(data), every_(every), file_(run, trainer.steps_done()),
      sampler_(make_sampler(trainer.recipe(), data, trainer.options().seed, trainer.options().shuffle)),
      total_loss_(average_decay), cross_entropy_(average_decay), decay_(average_decay), used_(trainer.use()),
      seconds_(trainer.seconds()) {
    const std::uint64_t step = trainer.steps_done();
    const TestRecord record = TestRecord::read(run.metrics_path(), step);
    if (const TestedStep* const found = record.find(step)) before_ = *found;
}

bool Events::observe(const Progress& progress) {
    const StepReport& report = progress.report;
    total_loss_.add(report.loss);
    cross_entropy_.add(report.cross_entropy);
    decay_.add(double(report.loss) - double(report.cross_entropy));
    if (!needs_state(report.step + 1)) return false;
    Summary summary;
    add_losses(summary, report);
    summary.add_scalar("learning_rate", report.learning_rate);
    add_rates(summary, report);
    add_histograms(summary, report);
    add_images(summary, report);
    append(report.step, summary);
    return true;
}

bool Events::tested(const TestReport& report) {
    append(report.step, summary_of({report.step, report.metrics}));
    return true;
}

void Events::append(std::uint64_t step, const Summary& summary) {
    if (const auto before = std::exchange(before_, {})) // which the beginning of the file takes back
        file_.add(before->step, summary_of(*before));
    file_.append(step, summary);
}

void Events::add_losses(Summary& summary, const StepReport& report) {
    summary.add_scalar("total_loss (raw)", report.loss);
    summary.add_scalar("total_loss", total_loss_.value());
    summary.add_scalar("cross_entropy (raw)", report.cross_entropy);
    summary.add_scalar("cross_entropy", cross_entropy_.value());
    if (report.tower_losses.size() < 2) return;
    for (std::size_t i = 0; i < report.tower_losses.size(); ++i)
        if (!std::isnan(report.tower_losses[i]))
            summary.add_scalar(fmt::format("tower_{}/total_loss", i), report.tower_losses[i]);
}

/// Of the steps since the last summary.
void Events::add_rates(Summary& summary, const StepReport& report) {
    const std::vector<TowerUse>& use = trainer_.use();
    const double seconds = trainer_.seconds() - std::exchange(seconds_, trainer_.seconds());
    std::uint64_t examples = 0;
    for (std::size_t i = 0; i < use.size(); ++i) {
        const std::uint64_t own = use[i].examples - used_[i].examples;
        const double work = use[i].times.work - used_[i].times.work;
        examples += own;
        const auto add = [&](const char* what, double value) {
            summary.add_scalar(fmt::format("tower_{}/{}", i, what), value);
        };
        add("share", report.shares[i]);
        if (work > 0) add("examples_per_second", double(own) / work);
        if (seconds > 0) add("waiting", std::clamp(1 - work / seconds, 0.0, 1.0));
    }
    used_ = use;
    if (seconds > 0) summary.add_scalar("examples_per_second", double(examples) / seconds);
}

/// Those of the variables also tell the weights' losses.
void Events::add_histograms(Summary& summary, const StepReport& report) {
    std::vector<Histogram> made;
    try {
        made = trainer_.summarize(data_);
    } catch (const TowerFailed& failed) {
        // If it is lost, the next step finds it too, and goes on with the other towers.
        if (!failed.lost && !std::exchange(told_of_memory_, true))
            spdlog::warn("the summaries have no histograms: {}", failed.what());
        return;
    }
    std::map<std::string, double> weight_losses; // by layer
    const bool adds_decay = !trainer_.recipe().optimizer->decouples_decay();
    for (const Histogram& each : made) {
        if (each.name.ends_with(activations))
            summary.add_scalar(each.name.substr(0, each.name.size() - activations.size()) + "/sparsity",
                               each.count > 0 ? double(each.zeros) / double(each.count) : 0);
        if (trainer_.tower_count() > 1 && each.name.ends_with(gradients))
            summary.add_histogram(each, "gradients_on_average/" +
                                            each.name.substr(0, each.name.size() - gradients.size()));
        summary.add_histogram(each, each.name);
        const auto slot = std::ranges::find(trainer_.layout().variables, each.name,
                                            [](const VariableSlot& its) { return its.variable.name; });
        if (slot != trainer_.layout().variables.end() && slot->weight_decay > 0 && adds_decay)
            weight_losses[each.name.substr(0, each.name.rfind('/'))] += slot->weight_decay / 2 * each.squares;
    }
    // The layers' parts of the decay change slowly, so that of its average are those of this step.
    const double decay = double(report.loss) - double(report.cross_entropy);
    const bool known = decay > 0 && !trainer_.options().quirks.last_tower_loss;
    for (const auto& [layer, loss] : weight_losses) {
        summary.add_scalar(layer + "/weight_loss (raw)", loss);
        summary.add_scalar(layer + "/weight_loss", known ? loss * decay_.value() / decay : loss);
    }
}

/// The step's first examples as the network sees them.
void Events::add_images(Summary& summary, const StepReport& report) {
    const Shape& size = trainer_.recipe().model.input;
    std::array<Example, pictures> examples{};
    sampler_.fill(report.examples, examples);
    std::vector<std::uint8_t> pixels(size.elements());
    const PngSize png{size.width, size.height, size.channels};
    for (std::size_t i = 0; i < examples.size(); ++i) {
        const std::vector<std::uint8_t> planes =
            preview(trainer_.recipe(), data_, {examples[i]},
                    {.seed = trainer_.options().seed, .distort = trainer_.options().distort});
        to_pixels(planes, size.channels, pixels);
        summary.add_picture(fmt::format("images/image/{}", i), png, encode_png(png, pixels));
    }
}

} // namespace towers
