#include "engine/layers/weighted.h"

#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace towers {
namespace {

constexpr auto normal = Initial::Kind::normal, uniform = Initial::Kind::uniform;
constexpr std::pair<const char*, Start> starts[] = {
    // He et al. 2015; `he_fan_out` as in torchvision's ResNets
    {"he_normal", {normal, [](double in, double) { return std::sqrt(2.0 / in); }}},
    {"he_fan_out", {normal, [](double, double out) { return std::sqrt(2.0 / out); }}},
    // Glorot and Bengio 2010
    {"glorot_uniform", {uniform, [](double in, double out) { return std::sqrt(6.0 / (in + out)); }}},
    // PyTorch's default
    {"uniform_fan_in", {uniform, [](double in, double) { return 1 / std::sqrt(in); }}},
    // As in torchvision's EfficientNets
    {"uniform_fan_out", {uniform, [](double, double out) { return 1 / std::sqrt(out); }}}};

bool is_depthwise(const ConvShape& shape) {
    return shape.groups > 1 && shape.groups == shape.in_channels && shape.groups == shape.out_channels;
}

} // namespace

std::vector<Variable> Weighted::variables(std::vector<std::size_t> shape, std::string axes, double fan_in,
                                          double fan_out) const {
    const Initial initial = stddev
                                ? Initial{.kind = Initial::Kind::truncated_normal, .scale = *stddev}
                                : Initial{.kind = start.kind, .scale = float(start.scale(fan_in, fan_out))};
    const std::size_t outputs = shape.back();
    std::vector<Variable> all{{.name = "weights",
                               .shape = std::move(shape),
                               .initial = initial,
                               .decays = true,
                               .weight_decay = weight_decay,
                               .axes = std::move(axes)}};
    if (bias)
        all.push_back(
            {.name = "biases", .shape = {outputs}, .initial = Initial::constant(*bias), .axes = "out"});
    return all;
}

TensorId Weighted::forward(LayerPlan& plan, const ConvShape& shape) const {
    const TensorId y = plan.make_output();
    plan.add("forward", is_depthwise(shape) ? kernels::depthwise_conv2d_forward : kernels::conv2d_forward,
             {.x = plan.input(),
              .w = plan.variable("weights"),
              .b = bias ? plan.variable("biases") : TensorId(),
              .y = y,
              .shape = shape,
              .relu = 0,
              .bias = bias ? 1u : 0u,
              .splits = 1});
    return y;
}

std::vector<TensorId> Weighted::backward(LayerPlan& plan, const ConvShape& shape, TensorId dy) const {
    const bool depthwise = is_depthwise(shape);
    const bool learns_weights = plan.changes("weights"), learns_biases = bias && plan.changes("biases");
    if (learns_weights || learns_biases) {
        const PlannedTensor& weights = plan.plan->at(plan.variable("weights"));
        plan.add("weights gradient",
                 depthwise ? kernels::depthwise_conv2d_backward_weights : kernels::conv2d_backward_weights,
                 {.x = plan.input(),
                  .dy = dy,
                  // No kernel makes the biases' gradient alone.
                  .dw = learns_weights ? plan.gradient("weights")
                                       : plan.make("unused weights gradient", TensorShape(weights.shape)),
                  .db = learns_biases ? plan.gradient("biases") : TensorId(),
                  .shape = shape,
                  .bias = learns_biases ? 1u : 0u,
                  .splits = 1});
    }
    if (!plan.wants()) return {TensorId()};
    const TensorId dx = plan.make_gradient();
    plan.add("data gradient",
             depthwise ? kernels::depthwise_conv2d_backward_data : kernels::conv2d_backward_data,
             {.dy = dy,
              .w = plan.variable("weights"),
              .x = plan.input(),
              .dx = dx,
              .shape = shape,
              .relu = 0,
              .splits = 1});
    return {dx};
}

Weighted read_weighted(Attributes& attributes) {
    Weighted weighted;
    if (attributes.has("stddev") && attributes.has("init"))
        attributes.fail("stddev", "and 'init' both say how the weights begin; give one of them");
    if (attributes.has("stddev"))
        weighted.stddev = float(attributes.number("stddev", 0, 1e6));
    else
        weighted.start = attributes.choice("init", starts, "he_normal");
    const Value* const bias = attributes.find("bias");
    if (bias != nullptr && bias->as<bool>() != nullptr)
        weighted.bias = *bias->as<bool>() ? std::optional(0.0f) : std::nullopt;
    else if (bias != nullptr && bias->as<std::string>() != nullptr)
        attributes.fail("bias",
                        fmt::format("is {}; give false, or the number that biases begin with", bias->text()));
    else
        weighted.bias = float(attributes.number("bias", -1e6, 1e6, 0));
    if (attributes.has("weight_decay"))
        weighted.weight_decay = float(attributes.number("weight_decay", 0, 1e6));
    return weighted;
}

} // namespace towers
