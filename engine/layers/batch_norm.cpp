// Batch normalization (Ioffe and Szegedy 2015): y = (x - mean) / sqrt(variance + epsilon) * gamma + beta,
// with the statistics of a group of consecutive examples, or of the whole global batch. Evaluation uses
// moving statistics, which follow each step's mean over all groups. So does training if they are frozen.
#include "engine/layers/affine.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

class BatchNorm final : public Layer {
public:
    explicit BatchNorm(Attributes& attributes)
        : epsilon_(float(attributes.number("epsilon", 1e-12, 1, 1e-5))),
          blend_(float(1 - attributes.number("decay", 0, below_one, 0.9))), affine_(attributes),
          sample_variance_(attributes.choice("variance", {"sample", "population"}, "sample") == "sample") {
        const Value* const group = attributes.find("group");
        if (group != nullptr && group->as<std::string>() != nullptr) {
            if (*group->as<std::string>() != "batch")
                attributes.fail("group", fmt::format("is {}; give a number of examples, or \"batch\" for the "
                                                     "whole global batch",
                                                     group->text()));
        } else
            group_ = unsigned(attributes.whole("group", 1, 1 << 20, 32));
    }

    Shape output(std::span<const Shape> in) const override { return in[0]; }
    Computation computation(std::span<const Shape>) const override {
        return computation::BatchNorm{epsilon_, affine_.gamma, affine_.beta, blend_};
    }

    std::vector<Variable> variables(std::span<const Shape> in) const override {
        std::vector<Variable> all = affine_.variables(in[0].channels);
        for (const bool variance : {false, true}) {
            all.push_back(Affine::variable(variance ? "moving_variance" : "moving_mean", in[0].channels,
                                           variance ? 1.0f : 0.0f));
            all.back().role = Role::statistic;
            all.back().blend = blend_;
        }
        return all;
    }

    unsigned group() const override { return group_; }

    TensorId forward(LayerPlan& plan) const override {
        const TensorId y = plan.make_output();
        if (!plan.training || has_frozen_statistics(plan)) {
            plan.keep("mean", plan.variable("moving_mean"));
            plan.keep("m2", plan.variable("moving_variance"));
            normalize(plan, whole(plan), plan.kept("mean"), plan.kept("m2"), y);
            return y;
        }
        const Extent extent = extent_of(plan);
        const auto [mean, m2] =
            across_towers(plan, "moments of all", moments(plan, extent), Merge::moments, extent);
        plan.keep("mean", mean);
        plan.keep("m2", m2);
        normalize(plan, extent, mean, m2, y);
        const float divisor = sample_variance_ ? std::max(extent.count - 1, 1.0f) : extent.count;
        plan.add("statistics", kernels::batch_norm_statistics,
                 {.mean = mean,
                  .m2 = m2,
                  .out_mean = plan.gradient("moving_mean"),
                  .out_variance = plan.gradient("moving_variance"),
                  .groups = extent.groups,
                  .channels = plan.in().channels,
                  .divisor = divisor,
                  .scale = float(extent.rows) / float(double(plan.global_batch) * pixels(plan))});
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        const bool fixed = has_frozen_statistics(plan);
        const Extent extent = fixed ? whole(plan) : extent_of(plan);
        const bool learns = affine_.learns(plan);
        const TensorPair own = learns || !fixed ? sums(plan, extent, dy) : TensorPair{};
        const unsigned channels = plan.in().channels;
        if (learns) affine_.add_gradients(plan, own[0], own[1], extent.groups);
        if (!plan.wants()) return {TensorId()};
        const auto [s1, s2] =
            fixed ? TensorPair{} : across_towers(plan, "sums of all", own, Merge::sum, extent);
        const TensorId dx = plan.make_gradient();
        plan.add("backward", kernels::batch_norm_backward,
                 {.x = plan.input(),
                  .dy = dy,
                  .mean = plan.kept("mean"),
                  .m2 = plan.kept("m2"),
                  .gamma = affine_.gamma_of(plan),
                  .s1 = s1,
                  .s2 = s2,
                  .dx = dx,
                  .groups = extent.groups,
                  .rows = extent.rows,
                  .channels = channels,
                  .count = extent.count,
                  .epsilon = epsilon_,
                  .gamma_used = affine_.gamma ? 1u : 0u,
                  .sums_used = fixed ? 0u : 1u,
                  .relu = 0});
        return {dx};
    }

private:
    /// The tower's input as [groups, rows, channels], and the number of values in each statistic.
    struct Extent {
        unsigned groups, rows;
        float count;
    };

    /// Then training normalizes as evaluation does, with the moving statistics.
    static bool has_frozen_statistics(const LayerPlan& plan) { return !plan.changes("moving_mean"); }

    /// All examples as one group, for statistics that are given.
    static Extent whole(const LayerPlan& plan) { return {1, plan.batch * pixels(plan), 1}; }

    static unsigned pixels(const LayerPlan& plan) { return plan.in().height * plan.in().width; }

    Extent extent_of(const LayerPlan& plan) const {
        const unsigned examples = group_ == 0 ? plan.batch : group_;
        const unsigned rows = examples * pixels(plan);
        const double values = group_ == 0 ? double(plan.global_batch) * pixels(plan) : rows;
        return {plan.batch / examples, rows, float(values)};
    }

    /// Statistics of the whole batch need every tower's part.
    TensorPair across_towers(LayerPlan& plan, const std::string& role, const TensorPair& own, Merge merge,
                             const Extent& extent) const {
        return group_ == 0 ? plan.exchange(role, own, merge, extent.rows) : own;
    }

    void normalize(LayerPlan& plan, const Extent& extent, TensorId mean, TensorId m2, TensorId y) const {
        plan.add("forward", kernels::batch_norm_forward,
                 {.x = plan.input(),
                  .mean = mean,
                  .m2 = m2,
                  .gamma = affine_.gamma_of(plan),
                  .beta = affine_.beta_of(plan),
                  .addend = {},
                  .y = y,
                  .groups = extent.groups,
                  .rows = extent.rows,
                  .channels = plan.in().channels,
                  .count = extent.count,
                  .epsilon = epsilon_,
                  .gamma_used = affine_.gamma ? 1u : 0u,
                  .beta_used = affine_.beta ? 1u : 0u,
                  .addend_used = 0,
                  .relu = 0});
    }

    /// Two tensors [groups, channels].
    static TensorPair make_pair(LayerPlan& plan, const Extent& extent, const std::string& first,
                                const std::string& second) {
        const TensorShape shape{extent.groups, plan.in().channels};
        return {plan.make(first, shape), plan.make(second, shape)};
    }

    static TensorPair moments(LayerPlan& plan, const Extent& extent) {
        const TensorPair pair = make_pair(plan, extent, "mean", "m2");
        plan.add("moments", kernels::batch_norm_moments,
                 {.x = plan.input(),
                  .mean = pair[0],
                  .m2 = pair[1],
                  .groups = extent.groups,
                  .rows = extent.rows,
                  .channels = plan.in().channels,
                  .splits = 1});
        return pair;
    }

    TensorPair sums(LayerPlan& plan, const Extent& extent, TensorId dy) const {
        const TensorPair pair = make_pair(plan, extent, "s1", "s2");
        plan.add("backward sums", kernels::batch_norm_backward_sums,
                 {.x = plan.input(),
                  .dy = dy,
                  .mean = plan.kept("mean"),
                  .m2 = plan.kept("m2"),
                  .s1 = pair[0],
                  .s2 = pair[1],
                  .groups = extent.groups,
                  .rows = extent.rows,
                  .channels = plan.in().channels,
                  .splits = 1,
                  .count = extent.count,
                  .epsilon = epsilon_,
                  .relu = 0});
        return pair;
    }

    float epsilon_, blend_;
    Affine affine_;
    bool sample_variance_;
    unsigned group_ = 0; ///< examples; 0: the whole batch
};

} // namespace

std::unique_ptr<const Layer> make_batch_norm(Attributes& attributes) {
    return std::make_unique<BatchNorm>(attributes);
}

} // namespace towers
