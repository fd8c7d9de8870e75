#include "engine/plan/network.h"

#include "engine/plan/fuse.h"
#include "engine/plan/images.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace towers {
namespace {

class Builder {
public:
    Builder(const NetworkSpec& spec, bool training)
        : spec_(spec), model_(*spec.model),
          global_batch_(spec.global_batch != 0 ? spec.global_batch : spec.batch), training_(training),
          outputs_(model_.nodes.size()), learns_(model_.nodes.size()) {
        if (training && spec.batch % model_.group() != 0)
            throw std::logic_error("plan: a share is no whole number of the model's groups");
        examples_ =
            plan_.tensor("examples", Arena::step, step_examples_offset, {spec.batch, 2}, ElementType::uint32);
        const BatchTensors batch = plan_images(plan_,
                                               {.pipeline = spec.pipeline,
                                                .stored = spec.stored,
                                                .records = spec.records,
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
        const std::size_t list = aligned(spec_.batch * sizeof(float));
        const std::size_t heads = model_.heads.size();
        gradients_.resize(model_.nodes.size());
        for (std::size_t i = 0; i < heads; ++i) {
            const LossHead& head = model_.heads[i];
            const std::string name = i == 0 ? "" : model_.nodes[std::size_t(head.node)].name + ' ';
            const TensorId dlogits = plan_.activation(name + "dlogits", {spec_.batch, model_.classes});
            const TensorId losses =
                plan_.tensor(name + "losses", Arena::results, slice_alignment + i * list, {spec_.batch});
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
        results_end_ = slice_alignment + heads * list;
        if (heads == 1) return {main_.losses, spec_.batch, float(global_batch_)};
        const unsigned words = unsigned(heads * list / sizeof(float)); // gaps stay zero and add nothing
        return {plan_.tensor("all losses", Arena::results, slice_alignment, {words}), words,
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

    /// Memory for what the tower and the host hand each other beside the plan.
    void stage_variables() {
        const StateLayout& layout = *spec_.layout;
        plan_.tensor("staged parameters", Arena::staged_parameters, 0,
                     {layout.trained_bytes / sizeof(float)});
        plan_.tensor("staged gradients", Arena::staged_gradients, 0, {layout.variable_bytes / sizeof(float)});
    }

    Plan& plan() { return plan_; }
    std::size_t results_end() const { return results_end_; }

    Plan finish() {
        if (spec_.fuse) fuse(plan_);
        plan_.place();
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
        return plan_.tensor(arena == Arena::gradients ? name + " gradient" : name, arena, slot.range.offset,
                            slot.variable.shape);
    }

    const NetworkSpec& spec_;
    const Model& model_;
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

} // namespace

TrainingPlan plan_single_step(const NetworkSpec& spec, const UpdateSpec& update) {
    Builder builder(spec, true);
    builder.forward();
    const LossList losses = builder.losses();
    builder.backward();
    plan_update(builder.plan(), update, losses, builder.results_end());
    TrainingPlan training{builder.finish(), {}, {}};
    training.cuts = cut(training.plan, {});
    return training;
}

TrainingPlan plan_shared_step(const NetworkSpec& spec) {
    std::vector<ArenaRange> buckets = make_buckets(*spec.layout, bucket_bytes(*spec.layout));
    Builder builder(spec, true);
    builder.stage_variables();
    builder.forward();
    const LossList losses = builder.losses();
    builder.backward();
    plan_results(builder.plan(), losses);
    TrainingPlan training{builder.finish(), std::move(buckets), {}};
    training.cuts = cut(training.plan, training.buckets);
    return training;
}

Plan plan_evaluation(const NetworkSpec& spec) {
    Builder builder(spec, false);
    builder.forward();
    builder.losses();
    builder.deliver_losses();
    return builder.finish();
}

} // namespace towers
