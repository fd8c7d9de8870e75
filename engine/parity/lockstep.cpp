#include "engine/parity/lockstep.h"

#include "engine/recipes/batch_tables.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/replay/side.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace towers {
namespace {

/// The difference, and the values of the element that differs most
template<class T>
void compare_as(const ParitySide& a, const ParitySide& b, const WrittenTensor& written,
                Difference (&difference)(std::span<const T>, std::span<const T>), TensorComparison& found) {
    const std::span<const T> of_a = a.elements<T>(written), of_b = b.elements<T>(written);
    found.difference = difference(of_a, of_b);
    found.worst_values = {value_of(of_a[found.difference.worst]), value_of(of_b[found.difference.worst])};
}

/// What operands that are rounded on one side change in a product beside the other side's.
double rounding_between(const std::array<Precision, 2>& operands) {
    const auto rounding = [](Precision each) { return each == Precision::fp32 ? 0 : rounding_of(each); };
    return operands[0] == operands[1] ? 0 : std::max(rounding(operands[0]), rounding(operands[1]));
}

TensorComparison compare(const ParitySide& a, const ParitySide& b, const WrittenTensor& written,
                         double tolerance) {
    TensorComparison found{};
    if (const auto* const launch = std::get_if<Launch>(&written.operation->work))
        found.operands = {operands_of(a.device(), *launch).type, operands_of(b.device(), *launch).type};
    found.tolerance = tolerance + rounding_between(found.operands);
    found.type = written.planned->type;
    if (found.type == ElementType::float32)
        compare_as<float>(a, b, written, compare_numbers, found);
    else if (found.type == ElementType::fixed64)
        compare_as<uvec2>(a, b, written, compare_numbers, found);
    else
        compare_as<std::uint32_t>(a, b, written, compare_words, found);
    found.same = is_rounded(found.type) ? found.difference.relative_norm <= found.tolerance
                                        : found.difference.unequal == 0;
    found.worst_written = {a.has_written(written, found.difference.worst),
                           b.has_written(written, found.difference.worst)};
    std::size_t neither = 0;
    for (std::size_t i = 0; i < found.difference.elements; ++i)
        if (!a.has_written(written, i) && !b.has_written(written, i)) ++neither;
    if (written.whole)
        found.never_written = neither;
    else if (found.type == ElementType::float32) // another operation will still write there
        found.difference.both_nan -= neither;
    return found;
}

/// Tracks which tensors contain infinities or NaNs.
class Overflows {
public:
    explicit Overflows(const Plan& plan)
        : overlapping_(overlapping_tensors(plan)), overflowed_(overlapping_.size()) {}

    /// Whether the operation reads such a tensor.
    bool reaches(const Operation& operation) const {
        return std::ranges::any_of(Plan::uses(operation), [&](const Plan::Use& use) {
            return use.reads && std::ranges::any_of(overlapping_[use.tensor.index()],
                                                    [&](std::size_t each) { return overflowed_[each]; });
        });
    }

    void look_at(const ParitySide& side, const WrittenTensor& written) {
        if (written.planned->type != ElementType::float32) return;
        const auto numbers = side.elements<float>(written);
        const std::span<const std::uint32_t> words = side.words(written);
        bool found = false;
        for (std::size_t i = 0; i < numbers.size() && !found; ++i)
            found = !std::isfinite(numbers[i]) && (written.whole || words[i] != unwritten);
        overflowed_[written.tensor.index()] = found;
    }

private:
    std::vector<std::vector<std::size_t>> overlapping_;
    std::vector<bool> overflowed_;
};

} // namespace

std::vector<std::size_t> TensorComparison::worst_index() const { return index_in(shape, difference.worst); }

StepComparison compare_step(Device& a, Device& b, const Recipe& recipe, const DataSource& data,
                            const LockstepOptions& options) {
    const StateLayout layout = layout_of(recipe);
    const TableMaker make_tables(recipe, data, options.seed, options.distort);
    const std::uint64_t largest = std::min(a.info().largest_allocation, b.info().largest_allocation);
    const NetworkSpec spec = network_spec(recipe, layout,
                                          {.batch = options.batch,
                                           .stored = data.image_size(),
                                           .slots = data.size(),
                                           .seed = options.seed,
                                           .distort = options.distort,
                                           .scales_loss = options.loss_scale.has_value(),
                                           .largest_allocation = largest});
    UpdateSpec update = update_spec(recipe, layout);
    update.scales_loss = spec.scales_loss;
    const Plan plan = plan_single_step(spec, update).plan;
    const std::vector<std::vector<WrittenTensor>> levels = written_in(plan);
    const std::size_t window = window_bytes(levels);

    const std::vector<float> state = initial_state(layout, options.seed);
    StepNumbers numbers = numbers_of_update(recipe, recipe.optimizer->learning_rate, 1);
    if (options.loss_scale) numbers.loss_scale = *options.loss_scale;
    std::vector<Example> examples(options.batch);
    make_sampler(recipe, data, options.seed, true).fill(0, examples);
    ResidentFeed(data).bring(examples);
    const BatchTables tables = make_tables(0, examples);
    ParitySide side_a(a, plan, data, window), side_b(b, plan, data, window);
    for (ParitySide* side : {&side_a, &side_b})
        side->prepare(state, numbers, Batch::all(0, examples, {}, tables));

    StepComparison all{{}, {operand_parts(a, plan), operand_parts(b, plan)}};
    Overflows overflows(plan);
    for (std::size_t level = 0; level < levels.size(); ++level) {
        for (ParitySide* side : {&side_a, &side_b}) side->start(level, levels[level]);
        for (ParitySide* side : {&side_a, &side_b}) side->finish();
        for (const WrittenTensor& written : levels[level]) {
            TensorComparison found = compare(side_a, side_b, written, options.tolerance);
            found.operation = written.operation->name;
            found.kernel = kernel_name(*written.operation);
            const PlannedTensor& tensor = *written.planned;
            found.tensor = tensor.name;
            found.shape = tensor.shape;
            found.overflowed = overflows.reaches(*written.operation);
            all.tensors.push_back(std::move(found));
        }
        for (const WrittenTensor& written : levels[level]) overflows.look_at(side_a, written);
        side_b.adopt(side_a, levels[level]);
    }
    return all;
}

} // namespace towers
