#include "engine/step/network.h"

#include "engine/data/example.h"
#include "engine/plan/micro_batches.h"
#include "engine/step/fuse.h"
#include "engine/step/images.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace towers {
namespace {

struct Place {
    Arena arena;
    std::size_t offset;
};

/// Where a plan finds its examples and leaves what it makes of them.
struct Places {
    Place examples{Arena::step, step_examples_offset};
    Place losses{Arena::results, slice_alignment};
    Arena gradients = Arena::gradients;
};

/// The heads' losses lie one list behind the other.
std::size_t loss_list_bytes(unsigned examples) { return aligned(examples * sizeof(float)); }

class Builder {
public:
    Builder(const NetworkSpec& spec, bool training, const Places& places = {})
        : spec_(spec), model_(*spec.model), places_(places),
          global_batch_(spec.global_batch != 0 ? spec.global_batch : spec.batch), training_(training),
          outputs_(model_.nodes.size()), learns_(model_.nodes.size()) {
        if (training && spec.batch % model_.group() != 0)
            throw std::logic_error("plan: a share is no whole number of the model's groups");
        examples_ = plan_.tensor("examples", places.examples.arena, places.examples.offset,
                                 {spec.batch, example_words}, ElementType::uint32);
        const BatchTensors batch = plan_images(plan_,
                                               {.pipeline = spec.pipeline,
                                                .stored = spec.stored,
                                                .slots = spec.records,
                                                .image = model_.input,
                                                .batch = spec.batch,
                                                .seed = spec.seed,
                                                .distort = spec.distort},
                                               examples_);
        images_ = batch.images;
        labels_ = batch.labels;
    }

    void forward() {
        const std::vector<Variable> variables = model_.variables();
        for (const Variable& variable : variables)
            if (variable.role == Role::trained) learns_[std::size_t(variable.node)] = true;
        for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
            const Node& node = model_.nodes[i];
            for (const int from : node.inputs)
                if (learns(from)) learns_[i] = true;
            layers_.emplace_back(surroundings_of(node, i));
            outputs_[i] = node.layer->forward(layers_.back());
        }
    }

    /// The heads' losses, one word an example, one list behind the other.
    LossList losses() {
        const std::size_t list = loss_list_bytes(spec_.batch);
        const std::size_t heads = model_.heads.size();
        gradients_.resize(model_.nodes.size());
        for (std::size_t i = 0; i < heads; ++i) {
            const LossHead& head = model_.heads[i];
            const std::string name = i == 0 ? "" : model_.nodes[std::size_t(head.node)].name + ' ';
            const TensorId dlogits = plan_.activation(name + "dlogits", {spec_.batch, model_.classes});
            const TensorId losses = plan_.tensor(name + "losses", places_.losses.arena,
                                                 places_.losses.offset + i * list, {spec_.batch});
            const TensorId correct = plan_.activation(name + "correct", {spec_.batch}, ElementType::uint32);
            plan_.add(name + "loss", kernels::softmax_cross_entropy,
                      {.logits = outputs_[std::size_t(head.node)],
                       .labels = labels_,
                       .dlogits = dlogits,
                       .losses = losses,
                       .correct = correct,
                       .rows = spec_.batch,
                       .classes = model_.classes,
                       .scale = 1.0f / float(global_batch_),
                       .smoothing = head.smoothing,
                       .logit_scale = head.logit_scale,
                       .weight = head.weight,
                       .label_offset = model_.label_offset},
                      spec_.batch);
            gradients_[std::size_t(head.node)].push_back(dlogits);
            if (i == 0) main_ = {losses, correct};
        }
        results_end_ = places_.losses.offset + heads * list;
        if (heads == 1) return {main_.losses, spec_.batch, float(global_batch_)};
        const unsigned words = unsigned(heads * list / sizeof(float)); // gaps stay zero and add nothing
        return {plan_.tensor("all losses", places_.losses.arena, places_.losses.offset, {words}), words,
                float(global_batch_)};
    }

    void backward() {
        for (std::size_t i = model_.nodes.size(); i-- > 0;) {
            if (!learns_[i] || gradients_[i].empty()) continue;
            const Node& node = model_.nodes[i];
            const TensorId dy = sum_of_gradients(i);
            const std::vector<TensorId> dx = node.layer->backward(layers_[i], dy);
            for (std::size_t k = 0; k < node.inputs.size(); ++k)
                if (learns(node.inputs[k])) gradients_[std::size_t(node.inputs[k])].push_back(dx[k]);
        }
    }

    void deliver_losses() {
        const std::size_t words = spec_.batch;
        plan_.copy("losses out", main_.losses,
                   plan_.tensor("staged_losses", Arena::staged_results, 0, {words}));
        plan_.copy("correct out", main_.correct,
                   plan_.tensor("staged_correct", Arena::staged_results, aligned(words * sizeof(float)),
                                {words}, ElementType::uint32));
    }

    Plan& plan() { return plan_; }
    std::size_t results_end() const { return results_end_; }

    Plan finish() {
        if (spec_.fuse) fuse(plan_);
        plan_.place(spec_.largest_allocation);
        return std::move(plan_);
    }

private:
    bool learns(int node) const { return node >= 0 && learns_[std::size_t(node)]; }
    const std::string& name_of(int node) const {
        static const std::string images = "images";
        return node < 0 ? images : model_.nodes[std::size_t(node)].name;
    }
    /// How many layers read a node's output.
    std::size_t readers_of(int node) const {
        std::size_t count = 0;
        for (const Node& each : model_.nodes) count += std::size_t(std::ranges::count(each.inputs, node));
        return count;
    }

    LayerPlan::Surroundings surroundings_of(const Node& node, std::size_t index) {
        LayerPlan::Surroundings around{
            .plan = &plan_,
            .name = node.name,
            .gradients = {},
            .in = model_.input_shapes(node),
            .out = node.output,
            .batch = spec_.batch,
            .global_batch = global_batch_,
            .training = training_,
            .node = unsigned(index),
            .seed = spec_.seed,
            .examples = examples_,
            .from = {},
            .wants = {},
            .variable = [this](const std::string& name, Arena arena) { return variable(name, arena); }};
        for (const int from : node.inputs) {
            around.from.push_back(from < 0 ? images_ : outputs_[std::size_t(from)]);
            around.wants.push_back(learns(from));
            const std::string gradient = "d " + name_of(from);
            around.gradients.push_back(readers_of(from) > 1 ? gradient + " from " + node.name : gradient);
        }
        return around;
    }

    /// The sum of what the readers of a node's output return, in the order in which backward meets them.
    TensorId sum_of_gradients(std::size_t index) {
        const std::vector<TensorId>& parts = gradients_[index];
        if (parts.size() == 1) return parts[0];
        const Node& node = model_.nodes[index];
        const std::size_t count = node.output.elements() * spec_.batch;
        TensorId sum;
        for (std::size_t next = 0; next < parts.size();) {
            AddTensorsParams p{.count = uint(count)};
            std::size_t taken = 0;
            if (sum) p.x[taken++] = sum;
            while (taken < ADD_TENSORS && next < parts.size()) p.x[taken++] = parts[next++];
            const bool last = next == parts.size();
            const std::string part = last ? "" : fmt::format(" up to {}", next);
            sum = plan_.activation("d " + node.name + part, {spec_.batch, node.output.height,
                                                             node.output.width, node.output.channels});
            p.y = sum;
            p.tensors = uint(taken);
            plan_.add(node.name + " gradients' sum" + part, kernels::add_tensors, p, count);
        }
        return sum;
    }

    TensorId variable(const std::string& name, Arena arena) {
        const VariableSlot& slot = spec_.layout->find(name);
        const bool gradient = arena == Arena::gradients;
        return plan_.tensor(gradient ? name + " gradient" : name, gradient ? places_.gradients : arena,
                            slot.range.offset, slot.variable.shape);
    }

    const NetworkSpec& spec_;
    const Model& model_;
    Places places_;
    unsigned global_batch_;
    bool training_;
    Plan plan_;
    TensorId examples_, images_, labels_;
    struct {
        TensorId losses, correct;
    } main_; ///< the first head's
    std::size_t results_end_ = 0;
    std::vector<LayerPlan> layers_;
    std::vector<TensorId> outputs_;
    std::vector<bool> learns_; ///< whether the node or one before it has trained variables
    std::vector<std::vector<TensorId>> gradients_; ///< of each node's output, one from each reader
};

/// Memory for what the tower and the host hand each other beside the plan.
void stage_variables(Plan& plan, const StateLayout& layout) {
    plan.tensor("staged parameters", Arena::staged_parameters, 0, {layout.trained_bytes / sizeof(float)});
    plan.tensor("staged gradients", Arena::staged_gradients, 0, {layout.variable_bytes / sizeof(float)});
}

/// The micro-batches of a share: a pass forward and backward for each size that they have, and what comes
/// between the passes.
class MicroBatches {
public:
    MicroBatches(const NetworkSpec& spec, std::vector<unsigned> sizes)
        : spec_(spec), sizes_(std::move(sizes)), heads_(spec.model->heads.size()) {
        if (spec.model->joining_layer() != nullptr)
            throw std::logic_error("plan: micro-batches of a layer that takes the whole global batch");
        const std::size_t gradients = spec.layout->variable_bytes;
        places_ = {.examples = {Arena::micro_batch, gradients},
                   .losses = {Arena::micro_batch, gradients + aligned(sizes_[0] * sizeof(Example))},
                   .gradients = Arena::micro_batch};
    }

    /// All up to the last pass.
    void plan_passes(TrainingPlan& training) const {
        std::vector<unsigned> planned;
        for (const unsigned size : sizes_)
            if (planned.empty() || planned.back() != size) {
                planned.push_back(size);
                training.micro_plans.push_back(pass(size));
            }
        for (std::size_t i = 0; i < sizes_.size(); ++i) {
            Plan between;
            if (i > 0) collect(between, i - 1);
            receive_examples(between, i);
            between.place(spec_.largest_allocation);
            training.order.push_back(training.micro_plans.size());
            training.micro_plans.push_back(std::move(between));
            training.order.push_back(sizes_[i] == planned[0] ? 0 : 1);
        }
    }

    /// What the last pass has made joins the rest: Arena::gradients then has the sum. Returns all losses.
    LossList collect_last(Plan& plan) const {
        collect(plan, sizes_.size() - 1);
        // Gaps between the heads' lists stay zero and add nothing.
        const unsigned words =
            heads_ == 1 ? spec_.batch : unsigned(heads_ * loss_list_bytes(spec_.batch) / sizeof(float));
        return {plan.tensor("all losses", Arena::results, slice_alignment, {words}), words,
                float(global_batch())};
    }

    std::size_t results_end() const { return slice_alignment + heads_ * loss_list_bytes(spec_.batch); }

private:
    unsigned global_batch() const { return spec_.global_batch != 0 ? spec_.global_batch : spec_.batch; }
    std::size_t first_of(std::size_t index) const {
        return std::accumulate(sizes_.begin(), sizes_.begin() + std::ptrdiff_t(index), std::size_t(0));
    }

    Plan pass(unsigned examples) const {
        NetworkSpec spec = spec_;
        spec.batch = examples;
        spec.global_batch = global_batch();
        Builder builder(spec, true, places_);
        builder.forward();
        builder.losses();
        builder.backward();
        return builder.finish();
    }

    void receive_examples(Plan& plan, std::size_t index) const {
        const TensorShape shape{sizes_[index], example_words};
        const std::size_t offset = step_examples_offset + first_of(index) * sizeof(Example);
        plan.copy("examples in",
                  plan.tensor("share's examples", Arena::step, offset, shape, ElementType::uint32),
                  plan.tensor("examples", places_.examples.arena, places_.examples.offset, shape,
                              ElementType::uint32));
    }

    void collect(Plan& plan, std::size_t index) const {
        const ArenaRange variables = spec_.layout->all_variables();
        const TensorShape floats{variables.bytes / sizeof(float)};
        const TensorId own = plan.tensor("micro-batch's gradients", Arena::micro_batch, 0, floats),
                       sum = plan.tensor("sum of the gradients", Arena::gradients, 0, floats);
        if (index == 0)
            plan.copy("first gradients", own, sum);
        else
            plan.add("further gradients", kernels::accumulate_gradients,
                     {.x = own, .sum = sum, .quads = quads(variables)}, quads(variables));
        for (std::size_t head = 0; head < heads_; ++head) {
            const TensorShape shape{sizes_[index]};
            plan.copy(fmt::format("losses {}", head),
                      plan.tensor("micro-batch's losses", places_.losses.arena,
                                  places_.losses.offset + head * loss_list_bytes(sizes_[index]), shape),
                      plan.tensor("losses", Arena::results,
                                  slice_alignment + head * loss_list_bytes(spec_.batch) +
                                      first_of(index) * sizeof(float),
                                  shape));
        }
    }

    const NetworkSpec& spec_;
    std::vector<unsigned> sizes_; ///< the larger ones first
    std::size_t heads_;
    Places places_;
};

/// None when the share is computed at once.
std::optional<MicroBatches> split(const NetworkSpec& spec) {
    if (spec.most == 0 || spec.most >= spec.batch) return std::nullopt;
    return MicroBatches(spec, micro_batches(spec.batch, spec.model->group(), spec.most));
}

/// Forward and backward, at once or in micro-batches, and what `end` adds behind them.
TrainingPlan
plan_step(const NetworkSpec& spec, std::vector<ArenaRange> buckets,
          const std::function<void(Plan&, const LossList& losses, std::size_t results_end)>& end) {
    TrainingPlan training;
    training.buckets = std::move(buckets);
    if (const std::optional<MicroBatches> micro = split(spec)) {
        micro->plan_passes(training);
        const LossList losses = micro->collect_last(training.plan);
        end(training.plan, losses, micro->results_end());
        training.plan.place(spec.largest_allocation);
    } else {
        Builder builder(spec, true);
        builder.forward();
        const LossList losses = builder.losses();
        builder.backward();
        end(builder.plan(), losses, builder.results_end());
        training.plan = builder.finish();
    }
    training.cuts = cut(training.plan, training.buckets);
    return training;
}

} // namespace

std::size_t TrainingPlan::bytes(Arena arena) const {
    std::size_t most = plan.bytes(arena);
    for (const Plan& each : micro_plans) most = std::max(most, each.bytes(arena));
    return most;
}

TrainingPlan plan_single_step(const NetworkSpec& spec, const UpdateSpec& update) {
    return plan_step(spec, {}, [&](Plan& plan, const LossList& losses, std::size_t results_end) {
        plan_update(plan, update, losses, results_end);
    });
}

TrainingPlan plan_shared_step(const NetworkSpec& spec) {
    return plan_step(spec, make_buckets(*spec.layout, bucket_bytes(*spec.layout)),
                     [&](Plan& plan, const LossList& losses, std::size_t) {
                         plan_results(plan, losses);
                         stage_variables(plan, *spec.layout);
                     });
}

Plan plan_evaluation(const NetworkSpec& spec) {
    Builder builder(spec, false);
    builder.forward();
    builder.losses();
    builder.deliver_losses();
    return builder.finish();
}

} // namespace towers
