#include "engine/step/builder.h"

#include "engine/step/fuse.h"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace towers {
namespace {

unsigned global_batch_of(const NetworkSpec& spec) {
    return spec.global_batch != 0 ? spec.global_batch : spec.batch;
}

/// The number of layers that read a node's output, or the images.
std::ptrdiff_t readers_of(const Model& model, int node) {
    std::ptrdiff_t count = 0;
    for (const Node& each : model.nodes) count += std::ranges::count(each.inputs, node);
    return count;
}

} // namespace

Builder::Builder(Plan& plan, const NetworkSpec& spec, bool training, Arena gradients)
    : plan_(plan), spec_(spec), model_(*spec.model), training_(training), gradient_arena_(gradients),
      outputs_(model_.nodes.size()), learns_(model_.nodes.size()), gradients_(model_.nodes.size()) {
    if (training && spec.batch % model_.group() != 0)
        throw std::logic_error("plan: a share is no whole number of the model's groups");
    for (const Variable& variable : model_.variables())
        if (variable.learns()) learns_[std::size_t(variable.node)] = true;
    for (std::size_t i = 0; i < model_.nodes.size(); ++i)
        for (const int from : model_.nodes[i].inputs)
            if (learns(from)) learns_[i] = true;
}

std::vector<TensorId> Builder::outputs(TensorId images, TensorId examples) {
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
        layers_.push_back(layer_plan(i, images, examples));
        outputs_[i] = model_.nodes[i].layer->forward(layers_.back());
    }
    std::vector<TensorId> logits;
    for (const LossHead& head : model_.heads) logits.push_back(outputs_[std::size_t(head.node)]);
    return logits;
}

HeadLosses Builder::losses(std::span<const TensorId> logits, TensorId labels, TensorId targets, Arena arena) {
    HeadLosses made;
    std::size_t class_weights = step_inputs(spec_).class_weights;
    for (std::size_t i = 0; i < model_.heads.size(); ++i) {
        const LossHead& head = model_.heads[i];
        const std::string name = i == 0 ? "" : model_.nodes[std::size_t(head.node)].name + ' ';
        made.dlogits.push_back(plan_.activation(name + "dlogits", {spec_.batch, model_.classes}));
        made.losses.push_back(plan_.reserve(name + "losses", arena, {spec_.batch}));
        TensorId weights = logits[i]; // not read, but addresses that are not mapped might be touched
        if (head.is_weighted()) {
            weights = plan_.tensor(name + "class weights", Arena::step, class_weights, {model_.classes});
            class_weights += class_stride(model_.classes) * sizeof(float);
        }
        if (targets) {
            plan_.add(name + "loss",
                      head.kind == LossKind::softmax ? kernels::soft_cross_entropy
                                                     : kernels::sigmoid_cross_entropy,
                      {.logits = logits[i],
                       .targets = targets,
                       .class_weights = weights,
                       .dlogits = made.dlogits[i],
                       .losses = made.losses[i],
                       .rows = spec_.batch,
                       .classes = model_.classes,
                       .stride = uint(class_stride(model_.classes)),
                       .scale = 1.0f / float(global_batch_of(spec_)),
                       .smoothing = head.smoothing,
                       .logit_scale = head.logit_scale,
                       .weight = head.weight,
                       .weighted = head.is_weighted() ? 1u : 0u});
            continue;
        }
        const TensorId correct = plan_.activation(name + "correct", {spec_.batch}, ElementType::uint32);
        plan_.add(name + "loss", kernels::softmax_cross_entropy,
                  {.logits = logits[i],
                   .labels = labels,
                   .class_weights = weights,
                   .dlogits = made.dlogits[i],
                   .losses = made.losses[i],
                   .correct = correct,
                   .rows = spec_.batch,
                   .classes = model_.classes,
                   .scale = 1.0f / float(global_batch_of(spec_)),
                   .smoothing = head.smoothing,
                   .logit_scale = head.logit_scale,
                   .weight = head.weight,
                   .label_offset = model_.label_offset,
                   .weighted = head.is_weighted() ? 1u : 0u});
    }
    return made;
}

void Builder::backward(std::span<const TensorId> dlogits) {
    for (std::size_t i = 0; i < dlogits.size(); ++i)
        gradients_[std::size_t(model_.heads[i].node)].push_back(spec_.scales_loss ? scaled(dlogits[i])
                                                                                  : dlogits[i]);
    for (std::size_t i = model_.nodes.size(); i-- > 0;) {
        if (!learns_[i] || gradients_[i].empty()) continue;
        const Node& node = model_.nodes[i];
        const TensorId dy = sum_of_gradients(i);
        const std::vector<TensorId> dx = node.layer->backward(layers_[i], dy);
        for (std::size_t k = 0; k < node.inputs.size(); ++k)
            if (learns(node.inputs[k])) gradients_[std::size_t(node.inputs[k])].push_back(dx[k]);
    }
}

LayerPlan Builder::layer_plan(std::size_t index, TensorId images, TensorId examples) {
    const Node& node = model_.nodes[index];
    LayerPlan layer{
        .plan = &plan_,
        .name = node.name,
        .gradients = {},
        .shapes = model_.input_shapes(node),
        .out = node.output,
        .batch = spec_.batch,
        .global_batch = global_batch_of(spec_),
        .training = training_,
        .node = unsigned(index),
        .seed = spec_.seed,
        .examples = examples,
        .from = {},
        .wanted = {},
        .slice_of = [this](const std::string& name, Arena arena) { return variable(name, arena); },
        .frozen = &model_.frozen};
    for (const int from : node.inputs) {
        layer.from.push_back(from < 0 ? images : outputs_[std::size_t(from)]);
        layer.wanted.push_back(learns(from));
        const std::string gradient = "d " + (from < 0 ? "images" : model_.nodes[std::size_t(from)].name);
        layer.gradients.push_back(readers_of(model_, from) > 1 ? gradient + " from " + node.name : gradient);
    }
    return layer;
}

/// Multiplies by the step's loss scale.
TensorId Builder::scaled(TensorId dlogits) {
    const PlannedTensor own = plan_.at(dlogits); // a copy: the list of tensors grows
    const TensorId product = plan_.activation("scaled " + own.name, own.shape);
    plan_.add(own.name + " scale", kernels::multiply,
              {.a = dlogits,
               .b = plan_.tensor("loss scale", Arena::step, STEP_LOSS_SCALE * sizeof(float), {1}),
               .y = product,
               .batch = 1,
               .pixels = plan_.elements(dlogits),
               .channels = 1,
               .broadcast = 1});
    return product;
}

/// Adds up the gradients from the readers of a node's output, in the order in which backward meets them.
TensorId Builder::sum_of_gradients(std::size_t index) {
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
        sum = plan_.activation("d " + node.name + part,
                               {spec_.batch, node.output.height, node.output.width, node.output.channels});
        p.y = sum;
        p.tensors = uint(taken);
        plan_.add(node.name + " gradients' sum" + part, kernels::add_tensors, p);
    }
    return sum;
}

TensorId Builder::variable(const std::string& name, Arena arena) {
    const VariableSlot& slot = spec_.layout->find(name);
    const bool gradient = arena == Arena::gradients;
    return plan_.tensor(gradient ? name + " gradient" : name, gradient ? gradient_arena_ : arena,
                        slot.range.offset, slot.variable.shape);
}

bool takes_targets(const NetworkSpec& spec) { return takes_targets(*spec.model, spec.mixes); }

StepInputs step_inputs(const NetworkSpec& spec) {
    return {spec.share != 0 ? spec.share : spec.batch, spec.mixes,
            takes_targets(spec) ? class_stride(spec.model->classes) : 0};
}

std::vector<TensorId> plan_pass(Plan& plan, const NetworkSpec& spec, const StepTensors& inputs,
                                Arena gradients, Arena losses) {
    Builder network(plan, spec, true, gradients);
    const BatchTensors batch = plan_batch(plan, spec, inputs.examples, inputs.mixes);
    const HeadLosses made =
        network.losses(network.outputs(batch.images, inputs.examples), batch.labels, inputs.targets, losses);
    network.backward(made.dlogits);
    return made.losses;
}

LossList loss_list(Plan& plan, const NetworkSpec& spec, std::span<const TensorId> losses) {
    return {plan.joined("all losses", losses), float(global_batch_of(spec))};
}

void finish(Plan& plan, const NetworkSpec& spec) {
    if (spec.fuse) fuse(plan);
    plan.place(spec.largest_allocation);
}

} // namespace towers
