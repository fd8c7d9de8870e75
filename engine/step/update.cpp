#include "engine/step/update.h"

#include <optional>

namespace towers {
namespace {

/// Adds up the results of a step; each list may be missing. Returns RESULT_FLOATS floats.
TensorId add_up(Plan& plan, const LossList& losses, TensorId decays) {
    const TensorId results = plan.reserve("results", Arena::results, {RESULT_FLOATS});
    plan.add("results", kernels::step_results,
             {.losses = losses.words,
              .decays = decays,
              .step = plan.tensor("numbers", Arena::step, 0, {STEP_FLOATS}),
              .results = results,
              .loss_count = plan.elements(losses.words),
              .decay_count = plan.elements(decays),
              .examples = losses.divisor});
    return results;
}

void report(Plan& plan, TensorId results) {
    plan.copy("results out", results, plan.reserve("staged_results", Arena::staged_results, {RESULT_FLOATS}));
}

class UpdateBuilder {
public:
    UpdateBuilder(Plan& plan, const UpdateSpec& spec)
        : plan_(plan), spec_(spec), layout_(*spec.layout),
          gradients_(slice("gradients", Arena::gradients, layout_.trained())),
          parameters_(slice("parameters", Arena::state, layout_.trained())),
          step_(plan.tensor("step", Arena::step, 0, {STEP_FLOATS})) {}

    void build(const LossList& losses) {
        const bool trains = layout_.trained_bytes > 0;
        if (spec_.scales_loss && trains) unscale();
        decay();
        // Comes before the check, since a norm that is not finite makes all gradients not finite.
        if (spec_.optimizer->clip_norm && trains) clip(*spec_.optimizer->clip_norm);
        add_results(losses);
        if (spec_.average_first) average_variables();
        if (trains) optimize();
        follow_statistics();
        if (!spec_.average_first) average_variables();
        report(plan_, results_);
    }

private:
    void unscale() {
        plan_.add("unscale", kernels::unscale_gradients,
                  {.gradients = gradients_, .step = step_, .quads = quads(layout_.trained())});
    }

    void decay() {
        if (spec_.optimizer->decouples_decay()) return;
        for (const Run& run : decaying_runs()) {
            const unsigned chunks = REDUCTION_CHUNKS(quads(run.range));
            decays_.push_back(plan_.reserve(run.name + " decay", Arena::results, {chunks}));
            plan_.add(run.name + " decay", kernels::weight_decay,
                      {.w = slice(run.name, Arena::state, run.range),
                       .dw = slice(run.name + " gradient", Arena::gradients, run.range),
                       .partials = decays_.back(),
                       .decay = run.value,
                       .quads = quads(run.range)});
        }
    }

    /// The losses come first: they are there long before the last gradient, for which the update waits.
    void add_results(const LossList& losses) {
        results_ = add_up(plan_, losses, plan_.joined("decays", decays_));
        static_assert(RESULT_NONFINITE == 0); // a kernel's tensor begins at a multiple of 16 bytes
        plan_.add("finite check", kernels::check_finite,
                  {.x = slice("gradients and statistics", Arena::gradients, layout_.updated()),
                   .nonfinite = plan_.tensor("nonfinite", Arena::results, plan_.at(results_).offset, {1},
                                             ElementType::uint32),
                   .quads = quads(layout_.updated())});
    }

    void clip(float most) {
        const unsigned count = quads(layout_.trained());
        const unsigned chunks = REDUCTION_CHUNKS(count);
        const TensorId squares = plan_.activation("squares", {chunks});
        plan_.add("squares of the gradients", kernels::sum_squares,
                  {.x = gradients_, .partials = squares, .quads = count});
        const TensorId norm = plan_.activation("norm", {1});
        plan_.add("norm of the gradients", kernels::gradient_norm,
                  {.squares = squares, .norm = norm, .count = chunks});
        plan_.add("clip", kernels::clip_gradients,
                  {.gradients = gradients_, .norm = norm, .most = most, .quads = count});
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
            for (const Run& run : decaying_runs())
                tensors.decays.push_back(
                    {slice(run.name, Arena::state, run.range), run.name, run.value, quads(run.range)});
        spec_.optimizer->update(plan_, tensors);
    }

    void follow_statistics() {
        const auto blend = [](const VariableSlot& slot) -> std::optional<float> {
            if (slot.variable.role != Role::statistic || slot.variable.frozen) return std::nullopt;
            return slot.variable.blend;
        };
        for (const Run& run : runs(blend))
            average(run.name + ", averages", slice("statistics", Arena::gradients, run.range),
                    slice("moving statistics", Arena::state, run.range), run.range, run.value);
    }

    void average_variables() {
        if (const StateSection* averages = layout_.averages())
            average("averages", slice("variables", Arena::state, layout_.updated()),
                    slice("averages", Arena::state, {averages->range.offset, layout_.updated_bytes}),
                    layout_.updated(), -1);
    }

    /// A run of adjacent variables with an equal value, so that one launch serves them all.
    struct Run {
        std::string name; ///< `conv1/weights`, or `conv1/weights and on`
        ArenaRange range; ///< to the end of the last one, in whole vec4s
        float value;
    };

    /// `value`: of a slot; none if the slot belongs to no run
    template<class Value>
    std::vector<Run> runs(Value value) const {
        std::vector<Run> all;
        const auto& slots = layout_.variables;
        for (std::size_t i = 0; i < slots.size();) {
            const std::optional<float> common = value(slots[i]);
            std::size_t end = i + 1;
            while (common && end < slots.size() && value(slots[end]) == common) ++end;
            const std::size_t begin = slots[i].range.offset;
            const std::size_t bytes = slots[end - 1].range.offset + slots[end - 1].range.bytes - begin;
            if (common)
                all.push_back({slots[i].variable.name + (end - i > 1 ? " and on" : ""),
                               {begin, ceil_div(bytes, 16) * 16},
                               *common});
            i = end;
        }
        return all;
    }

    std::vector<Run> decaying_runs() const {
        return runs([](const VariableSlot& slot) {
            return slot.weight_decay != 0 ? std::optional(slot.weight_decay) : std::nullopt;
        });
    }

    TensorId slice(const std::string& name, Arena arena, const ArenaRange& range) {
        return plan_.tensor(name, arena, range.offset, {range.bytes / sizeof(float)});
    }
    void average(const std::string& name, TensorId values, TensorId averages, const ArenaRange& range,
                 float blend) {
        plan_.add(name, kernels::moving_average,
                  {.values = values,
                   .averages = averages,
                   .step = step_,
                   .results = results_,
                   .quads = quads(range),
                   .blend = blend});
    }

    Plan& plan_;
    const UpdateSpec& spec_;
    const StateLayout& layout_;
    TensorId gradients_, parameters_, step_, results_;
    std::vector<TensorId> decays_; ///< by run: what weight decay adds to the loss
};

} // namespace

void plan_update(Plan& plan, const UpdateSpec& spec, const LossList& losses) {
    if (spec.layout->frozen().bytes > 0) // the arena holds what no operation of the update reads, too
        plan.tensor("state", Arena::state, 0, {spec.layout->bytes / sizeof(float)});
    UpdateBuilder(plan, spec).build(losses);
}

void plan_results(Plan& plan, const LossList& losses) { report(plan, add_up(plan, losses, {})); }

} // namespace towers
