#include "engine/step/histograms.h"

#include "engine/data/example.h"
#include "engine/step/builder.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace towers {
namespace {

const std::string counts_of = " counts", partials_of = " partials", staged = "staged ";

void add_histogram(HistogramPlan& to, const std::string& name, TensorId x) {
    Plan& plan = to.plan;
    const unsigned count = plan.elements(x);
    const TensorShape words{HISTOGRAM_WORDS}, parts{REDUCTION_CHUNKS(QUADS_OF(count)), 4};
    const TensorId counts = plan.reserve(name + counts_of, Arena::results, words, ElementType::uint32);
    const TensorId partials = plan.reserve(name + partials_of, Arena::results, parts);
    plan.add(name, kernels::histogram, {.x = x, .counts = counts, .partials = partials, .count = count});
    plan.copy(name + counts_of, counts,
              plan.reserve(staged + name + counts_of, Arena::staged_results, words, ElementType::uint32));
    plan.copy(name + partials_of, partials,
              plan.reserve(staged + name + partials_of, Arena::staged_results, parts));
    to.names.push_back(name);
}

/// Whether a node is the `activation` of another one.
bool is_activation_of(const Node& node, const Node& before) {
    return node.name == before.name + '/' + node.kind;
}

/// The layers whose outputs are shown: the name of each, or "".
std::vector<std::string> shown_layers(const Model& model) {
    std::vector<bool> learns(model.nodes.size());
    for (const Variable& variable : model.variables())
        if (variable.role == Role::trained) learns[std::size_t(variable.node)] = true;
    std::vector<std::string> names(model.nodes.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        const Node& node = model.nodes[i];
        if (!learns[i] && family_of(node.kind) != LayerFamily::activation) continue;
        std::vector<const Node*> readers;
        for (const Node& each : model.nodes)
            if (std::ranges::count(each.inputs, int(i)) > 0) readers.push_back(&each);
        const auto hides = [&](const Node* reader) {
            return is_activation_of(*reader, node) || family_of(reader->kind) == LayerFamily::normalization;
        };
        if (!readers.empty() && std::ranges::all_of(readers, hides)) continue;
        names[i] = node.name;
        if (const int from = node.inputs[0];
            from >= 0 && is_activation_of(node, model.nodes[std::size_t(from)]))
            names[i] = model.nodes[std::size_t(from)].name;
    }
    return names;
}

} // namespace

double bin_limit(std::size_t bin) {
    const auto limit = [](std::size_t place) {
        return double(std::bit_cast<float>(HISTOGRAM_LOW + (std::uint32_t(place) << HISTOGRAM_SHIFT)));
    };
    if (bin + 1 == HISTOGRAM_BINS) return std::numeric_limits<double>::max();
    return bin >= HISTOGRAM_SIDE ? limit(bin - HISTOGRAM_SIDE) : -limit(HISTOGRAM_SIDE - 1 - bin);
}

HistogramPlan plan_state_histograms(const StateLayout& layout) {
    HistogramPlan planned;
    for (const VariableSlot& slot : layout.variables) {
        const std::string& name = slot.variable.name;
        const auto add = [&](const std::string& tag, Arena arena) {
            add_histogram(
                planned, tag,
                planned.plan.tensor(tag + " values", arena, slot.range.offset, {slot.variable.elements()}));
        };
        add(name, Arena::state);
        if (slot.variable.learns()) add(name + "/gradients", Arena::gradients);
    }
    planned.plan.place();
    return planned;
}

HistogramPlan plan_activation_histograms(const NetworkSpec& spec) {
    HistogramPlan planned;
    Plan& plan = planned.plan;
    Builder network(plan, spec, false);
    const TensorId examples = plan.tensor("examples", Arena::step, step_examples_offset,
                                          {spec.batch, example_words}, ElementType::uint32);
    network.outputs(plan_batch(plan, spec, examples).images, examples);
    const std::vector<std::string> names = shown_layers(*spec.model);
    for (std::size_t i = 0; i < names.size(); ++i)
        if (!names[i].empty()) add_histogram(planned, names[i] + "/activations", network.output(i));
    finish(plan, spec);
    return planned;
}

StagedHistogram find_histogram(const Plan& plan, const std::string& name) {
    return {plan.find(staged + name + counts_of), plan.find(staged + name + partials_of)};
}

Histogram to_histogram(const std::string& name, std::span<const std::uint32_t> counts,
                       std::span<const float> partials) {
    Histogram made{.name = name, .zeros = counts[HISTOGRAM_ZEROS]};
    made.bins.assign(counts.begin(), counts.begin() + HISTOGRAM_BINS);
    made.bins[HISTOGRAM_SIDE] += made.zeros;
    made.count = std::accumulate(made.bins.begin(), made.bins.end(), std::uint64_t(0));
    if (made.count == 0) return made;
    made.least = std::numeric_limits<double>::infinity();
    made.largest = -made.least;
    for (std::size_t i = 0; i < partials.size(); i += 4) {
        made.least = std::min(made.least, double(partials[i]));
        made.largest = std::max(made.largest, double(partials[i + 1]));
        made.sum += double(partials[i + 2]);
        made.squares += double(partials[i + 3]);
    }
    return made;
}

} // namespace towers
