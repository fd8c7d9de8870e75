#include "engine/plan/update.h"

#include <algorithm>

namespace towers {
namespace {

class UpdateBuilder {
public:
    UpdateBuilder(Plan& plan, const UpdateSpec& spec, std::size_t results_end)
        : plan_(plan), spec_(spec), layout_(*spec.layout), decays_begin_(aligned(results_end)),
          gradients_(slice("gradients", Arena::gradients, layout_.trained())),
          parameters_(slice("parameters", Arena::state, layout_.trained())),
          step_(plan.tensor("step", Arena::step, 0, {STEP_FLOATS})),
          results_(plan.tensor("results", Arena::results, 0, {RESULT_FLOATS})) {}

    void decay() {
        if (spec_.optimizer->decouples_decay()) return;
        for (const VariableSlot& slot : layout_.variables) {
            if (slot.weight_decay == 0) continue;
            const unsigned count = quads(aligned_up(slot.range.bytes));
            const unsigned chunks = REDUCTION_CHUNKS(count);
            // Gaps between the lists stay zero and add nothing.
            const TensorId partials = plan_.tensor(slot.variable.name + " decay", Arena::results,
                                                   decays_begin_ + decay_bytes_, {chunks});
            decay_bytes_ += aligned(chunks * sizeof(float));
            plan_.add(slot.variable.name + " decay", kernels::weight_decay,
                      {.w = variable(slot, Arena::state),
                       .dw = variable(slot, Arena::gradients),
                       .partials = partials,
                       .decay = slot.weight_decay,
                       .quads = count},
                      chunks);
        }
    }

    void results(const LossList& losses) {
        const TensorId values = slice("gradients and statistics", Arena::gradients, layout_.all_variables());
        const unsigned chunks = REDUCTION_CHUNKS(quads(layout_.all_variables()));
        const TensorId nonfinite = plan_.activation("nonfinite", {chunks}, ElementType::uint32);
        plan_.add("finite check", kernels::count_nonfinite,
                  {.x = values, .counts = nonfinite, .quads = quads(layout_.all_variables())}, chunks);
        const unsigned decays = unsigned(decay_bytes_ / sizeof(float));
        plan_.add("results", kernels::step_results,
                  {.losses = losses.words,
                   .decays = decays == 0 ? TensorId()
                                         : plan_.tensor("decays", Arena::results, decays_begin_, {decays}),
                   .nonfinite = nonfinite,
                   .results = results_,
                   .loss_count = losses.count,
                   .decay_count = decays,
                   .nonfinite_count = chunks,
                   .examples = losses.divisor},
                  1);
    }

    void clip(float most) {
        const unsigned count = quads(layout_.trained());
        const unsigned chunks = REDUCTION_CHUNKS(count);
        const TensorId squares = plan_.activation("squares", {chunks});
        plan_.add("squares of the gradients", kernels::sum_squares,
                  {.x = gradients_, .partials = squares, .quads = count}, chunks);
        const TensorId norm = plan_.activation("norm", {1});
        plan_.add("norm of the gradients", kernels::gradient_norm,
                  {.squares = squares, .norm = norm, .count = chunks}, 1);
        plan_.add("clip", kernels::clip_gradients,
                  {.gradients = gradients_, .norm = norm, .most = most, .quads = count}, count);
    }

    void optimize() {
        UpdateTensors tensors{.gradients = gradients_,
                              .parameters = parameters_,
                              .state = {},
                              .step = step_,
                              .results = results_,
                              .quads = quads(layout_.trained()),
                              .decays = {}};
        for (const StateSection& section : layout_.sections)
            if (section.role == Role::optimizer)
                tensors.state.push_back(slice(section.suffix.substr(1), Arena::state, section.range));
        if (spec_.optimizer->decouples_decay())
            for (const VariableSlot& slot : layout_.variables)
                if (slot.weight_decay != 0)
                    tensors.decays.push_back({variable(slot, Arena::state), slot.variable.name,
                                              slot.weight_decay, quads(aligned_up(slot.range.bytes))});
        spec_.optimizer->update(plan_, tensors);
    }

    /// Each run of statistics that follow their values equally fast
    void follow_statistics() {
        const auto& all = layout_.variables;
        for (std::size_t i = 0; i < all.size();) {
            std::size_t end = i + 1;
            if (all[i].variable.role == Role::statistic) {
                while (end < all.size() && all[end].variable.blend == all[i].variable.blend) ++end;
                const ArenaRange& last = all[end - 1].range;
                const ArenaRange run{all[i].range.offset,
                                     last.offset + aligned(last.bytes) - all[i].range.offset};
                average(all[i].variable.name + " and on, averages",
                        slice("statistics", Arena::gradients, run),
                        slice("moving statistics", Arena::state, run), run, all[i].variable.blend);
            }
            i = end;
        }
    }

    void average_variables() {
        if (const StateSection* averages = layout_.averages())
            average("averages", slice("variables", Arena::state, layout_.all_variables()),
                    slice("averages", Arena::state, averages->range), averages->range, -1);
    }

    void report() {
        plan_.copy("results out", results_,
                   plan_.tensor("staged_results", Arena::staged_results, 0, {RESULT_FLOATS}));
    }

private:
    static constexpr std::size_t aligned_up(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

    TensorId slice(const std::string& name, Arena arena, const ArenaRange& range) {
        return plan_.tensor(name, arena, range.offset, {range.bytes / sizeof(float)});
    }
    TensorId variable(const VariableSlot& slot, Arena arena) {
        return plan_.tensor(slot.variable.name + (arena == Arena::gradients ? " gradient" : ""), arena,
                            slot.range.offset, slot.variable.shape);
    }
    void average(const std::string& name, TensorId values, TensorId averages, const ArenaRange& range,
                 float blend) {
        plan_.add(name, kernels::moving_average,
                  {.values = values,
                   .averages = averages,
                   .step = step_,
                   .results = results_,
                   .quads = quads(range),
                   .blend = blend},
                  quads(range));
    }

    Plan& plan_;
    const UpdateSpec& spec_;
    const StateLayout& layout_;
    std::size_t decays_begin_, decay_bytes_ = 0;
    TensorId gradients_, parameters_, step_, results_;
};

} // namespace

void plan_update(Plan& plan, const UpdateSpec& spec, const LossList& losses, std::size_t results_end) {
    UpdateBuilder builder(plan, spec, results_end);
    builder.decay();
    // Before the check: a norm that is not finite makes all gradients so.
    if (spec.optimizer->clip_norm) builder.clip(*spec.optimizer->clip_norm);
    builder.results(losses);
    if (spec.average_first) builder.average_variables();
    builder.optimize();
    builder.follow_statistics();
    if (!spec.average_first) builder.average_variables();
    builder.report();
}

void plan_results(Plan& plan, const LossList& losses) {
    const TensorId results = plan.tensor("results", Arena::results, 0, {RESULT_FLOATS});
    plan.add("results", kernels::step_results,
             {.losses = losses.words,
              .decays = {},
              .nonfinite = {},
              .results = results,
              .loss_count = losses.count,
              .decay_count = 0,
              .nonfinite_count = 0,
              .examples = losses.divisor},
             1);
    plan.copy("results out", results,
              plan.tensor("staged_results", Arena::staged_results, 0, {RESULT_FLOATS}));
}

} // namespace towers
