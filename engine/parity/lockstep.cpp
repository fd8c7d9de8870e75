#include "engine/parity/lockstep.h"

#include "engine/data/sampler.h"
#include "engine/replay/side.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace towers {
namespace {

TensorComparison compare(const ParitySide& a, const ParitySide& b, const WrittenTensor& written,
                         double tolerance) {
    TensorComparison found{};
    found.type = written.planned->type;
    const bool floating = is_floating(written.planned->type);
    found.difference = floating ? compare_numbers(a.numbers(written), b.numbers(written))
                                : compare_words(a.words(written), b.words(written));
    found.same = floating ? found.difference.relative_norm <= tolerance : found.difference.unequal == 0;
    const std::array<const ParitySide*, 2> sides{&a, &b};
    for (const std::size_t side : {0, 1}) {
        const std::uint32_t worst = sides[side]->words(written)[found.difference.worst];
        found.worst_values[side] = floating ? double(std::bit_cast<float>(worst)) : double(worst);
        found.worst_written[side] = worst != unwritten;
    }
    std::size_t neither = 0;
    for (std::size_t i = 0; i < found.difference.elements; ++i)
        if (a.words(written)[i] == unwritten && b.words(written)[i] == unwritten) ++neither;
    if (written.whole)
        found.never_written = neither;
    else if (floating) // another operation will still write there
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
        if (!is_floating(written.planned->type)) return;
        const std::span<const float> numbers = side.numbers(written);
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

std::vector<TensorComparison> compare_step(Device& a, Device& b, const Recipe& recipe, const DataSource& data,
                                           const LockstepOptions& options) {
    const StateLayout layout = layout_of(recipe);
    ResidentFeed feed(data);
    const std::uint64_t largest = std::min(a.info().largest_allocation, b.info().largest_allocation);
    const NetworkSpec spec = network_spec(recipe, layout,
                                          {.batch = options.batch,
                                           .stored = data.image_size(),
                                           .slots = feed.slots(),
                                           .seed = options.seed,
                                           .distort = options.distort,
                                           .largest_allocation = largest});
    const Plan plan = plan_single_step(spec, update_spec(recipe, layout)).plan;
    const std::vector<std::vector<WrittenTensor>> levels = written_in(plan);
    const std::size_t window = window_bytes(levels);

    const std::vector<float> state = initial_state(layout, options.seed);
    const StepNumbers numbers = numbers_of_update(recipe, recipe.optimizer->learning_rate, 1);
    std::vector<Example> examples(options.batch);
    Sampler(std::uint32_t(data.size()), options.seed, true).fill(0, examples);
    feed.bring(examples);
    ParitySide side_a(a, plan, feed, window), side_b(b, plan, feed, window);
    for (ParitySide* side : {&side_a, &side_b}) side->prepare(state, numbers, examples);

    std::vector<TensorComparison> all;
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
            all.push_back(std::move(found));
        }
        for (const WrittenTensor& written : levels[level]) overflows.look_at(side_a, written);
        side_b.adopt(side_a, levels[level]);
    }
    return all;
}

} // namespace towers
