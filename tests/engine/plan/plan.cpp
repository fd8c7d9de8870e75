#include "backends/upload.h"
#include "engine/execution/session.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/replay/side.h"
#include "engine/step/network.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

namespace towers {
namespace {

std::vector<std::size_t> used_tensors(const Operation& operation) {
    std::vector<std::size_t> used;
    for (const Plan::Use& use : Plan::uses(operation)) used.push_back(use.tensor.index());
    return used;
}

bool reads_parameters(const Plan& plan, std::size_t level, const ArenaRange& bucket) {
    for (const Operation& operation : plan.levels()[level])
        for (const Plan::Use& use : Plan::uses(operation)) {
            const PlannedTensor& tensor = plan.tensors()[use.tensor.index()];
            if (use.reads && tensor.arena == Arena::state && tensor.offset < bucket.offset + bucket.bytes &&
                bucket.offset < tensor.offset + tensor.bytes)
                return true;
        }
    return false;
}

/// The level before which the part that completes the bucket ends.
std::size_t end_of(std::size_t bucket, std::span<const Cut> cuts) {
    return std::ranges::upper_bound(cuts, bucket, {}, &Cut::buckets)->level;
}

} // namespace

TEST_CASE("variables lie in the arena in the order in which backward finishes them, aligned and apart") {
    const StateLayout layout = layout_of(find_recipe("cifar10-tutorial"));
    std::size_t end = 0, elements = 0;
    for (const VariableSlot& slot : layout.variables) {
        CHECK(slot.range.offset % slice_alignment == 0);
        CHECK(slot.range.offset >= end);
        end = slot.range.offset + slot.range.bytes;
        elements += slot.variable.elements();
    }
    CHECK(elements == 1068298); // the tutorial's
    CHECK(layout.variables.front().variable.name == "softmax_linear/weights");
    CHECK(layout.variables.back().variable.name == "conv1/biases");
}

TEST_CASE("buckets cover the gradients without a gap, and only a large one is cut within a layer") {
    const StateLayout layout = layout_of(find_recipe("cifar10-tutorial"));
    constexpr std::size_t mib = std::size_t(1) << 20;
    for (const BucketBytes& bytes : {BucketBytes{256, 1024 * mib}, {256, mib}, {mib, 2 * mib}, {mib, mib}}) {
        std::size_t end = 0;
        for (const ArenaRange& bucket : make_buckets(layout, bytes)) {
            CHECK(bucket.offset == end);
            CHECK(bucket.offset % slice_alignment == 0);
            CHECK(bucket.bytes <= bytes.most);
            end += bucket.bytes;
        }
        CHECK(end == layout.variable_bytes);
    }
    CHECK(make_buckets(layout, {256, 1024 * mib}).size() == 5); // layers
    CHECK(make_buckets(layout, {mib, 1024 * mib}).size() == 2);
    CHECK(make_buckets(layout, {mib, 2 * mib}).size() == 3);
}

TEST_CASE("a plan reserves slices apart, joins them with their gaps, and finds those of another plan") {
    Plan plan;
    const TensorId first = plan.reserve("first", Arena::results, {3});
    const TensorId second = plan.reserve("second", Arena::results, {100});
    CHECK(plan.at(first).offset == 0);
    CHECK(plan.at(second).offset == slice_alignment);
    CHECK(plan.bytes(Arena::results) == 3 * slice_alignment);
    const std::vector<TensorId> lists{first, second};
    CHECK(plan.elements(plan.joined("both", lists)) == slice_alignment / sizeof(float) + 100);
    CHECK(plan.joined("one", std::span(lists).first(1)) == first);
    CHECK_FALSE(plan.joined("none", {}));
    CHECK(plan.at(plan.part("some", second, 10, 20)).offset == slice_alignment + 10 * sizeof(float));
    CHECK(plan.bytes(Arena::results) == 3 * slice_alignment); // nothing new was reserved
    Plan other;
    CHECK(other.at(other.shared(plan, second)).offset == slice_alignment);
    CHECK(other.bytes(Arena::results) == 3 * slice_alignment);
}

TEST_CASE("blocks cover a state without a gap, and each is of variables that are updated alike") {
    for (const char* name : {"cifar10-tutorial", "cifar10-resnet20"}) {
        CAPTURE(name);
        const StateLayout layout = layout_of(find_recipe(name));
        for (const std::size_t most : {std::size_t(256), std::size_t(32) << 10, std::size_t(1) << 30}) {
            std::size_t end = 0;
            for (const ArenaRange& block : make_blocks(layout, layout.all_variables(), most)) {
                CHECK(block.offset == end);
                CHECK(block.bytes <= most);
                const StateLayout own = layout_of_block(layout, block);
                REQUIRE(own.variables.size() == 1);
                REQUIRE(own.sections.size() == layout.sections.size());
                for (const VariableSlot& slot : layout.variables)
                    if (slot.range.offset < block.offset + block.bytes &&
                        block.offset < slot.range.offset + slot.range.bytes)
                        CHECK(are_updated_alike(slot, own.variables[0]));
                end += block.bytes;
            }
            CHECK(end == layout.variable_bytes);
        }
    }
}

namespace {

struct Life {
    std::size_t first = SIZE_MAX, last = 0;
};

/// The bytes of all activations; checks that no two overlap while both are alive.
std::size_t check_places(const Plan& plan) {
    std::vector<Life> lives(plan.tensors().size());
    for (std::size_t level = 0; level < plan.levels().size(); ++level)
        for (const Operation& operation : plan.levels()[level])
            for (const std::size_t tensor : used_tensors(operation)) {
                lives[tensor].first = std::min(lives[tensor].first, level);
                lives[tensor].last = level;
            }
    std::size_t sum = 0;
    for (std::size_t a = 0; a < lives.size(); ++a) {
        const PlannedTensor& one = plan.tensors()[a];
        if (!is_of_activations(one.arena)) continue;
        sum += one.bytes;
        CHECK(one.offset + one.bytes <= plan.bytes(one.arena));
        for (std::size_t b = 0; b < a; ++b) {
            const PlannedTensor& other = plan.tensors()[b];
            if (other.arena != one.arena) continue;
            const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
            const bool overlap =
                one.offset < other.offset + other.bytes && other.offset < one.offset + one.bytes;
            CHECK_FALSE((together && overlap));
        }
    }
    return sum;
}

/// The bytes of each arena of activations, up to the last used one.
std::vector<std::size_t> activation_bytes(const Plan& plan) {
    std::vector<std::size_t> bytes;
    for (std::size_t i = 0; i < arena_count; ++i)
        if (is_of_activations(Arena(i)) && plan.bytes(Arena(i)) > 0) bytes.push_back(plan.bytes(Arena(i)));
    return bytes;
}

} // namespace

TEST_CASE("tensors alive at the same time never share memory; other tensors do") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    const StateLayout layout = layout_of(recipe);
    const Plan plan =
        plan_single_step(test::spec_of(recipe, layout, 16, 100), test::update_of(recipe, layout)).plan;
    const std::size_t sum = check_places(plan);
    CHECK(plan.bytes(Arena::activations) < sum * 3 / 4);
    CHECK(activation_bytes(plan).size() == 1);
}

TEST_CASE("activations take several allocations, of the same total size, if a device limits allocations") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    const StateLayout layout = layout_of(recipe);
    NetworkSpec spec = test::spec_of(recipe, layout, 16, 100);
    const auto plan_for = [&](std::uint64_t largest) {
        spec.largest_allocation = largest;
        return plan_single_step(spec, test::update_of(recipe, layout)).plan;
    };
    const Plan whole = plan_for(UINT64_MAX);
    std::size_t largest = 0; // tensor
    for (const PlannedTensor& tensor : whole.tensors())
        if (is_of_activations(tensor.arena)) largest = std::max(largest, tensor.bytes);
    for (const std::size_t most : {whole.bytes(Arena::activations) * 2 / 3, aligned(largest)}) {
        CAPTURE(most);
        const Plan plan = plan_for(most);
        check_places(plan);
        const std::vector<std::size_t> pieces = activation_bytes(plan);
        CHECK(pieces.size() > 1);
        CHECK(*std::ranges::max_element(pieces) <= most);
        CHECK(std::reduce(pieces.begin(), pieces.end()) < whole.bytes(Arena::activations) * 5 / 4);
    }
    // Tensors in the same place at other times do not overlap for parity.
    const Plan plan = plan_for(aligned(largest));
    const std::vector<std::vector<std::size_t>> overlapping = overlapping_tensors(plan);
    for (std::size_t i = 0; i < overlapping.size(); ++i)
        if (is_of_activations(plan.tensors()[i].arena)) CHECK(overlapping[i] == std::vector{i});
    // A tensor that is too large gets its own arena, which the device will refuse.
    const std::vector<std::size_t> pieces = activation_bytes(plan_for(largest / 2));
    CHECK(*std::ranges::max_element(pieces) == aligned(largest));
}

TEST_CASE("every operation of a plan has its own name") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec = test::spec_of(recipe, layout, 16, 100);
    for (const Plan& plan : {plan_single_step(spec, test::update_of(recipe, layout)).plan,
                             plan_shared_step(spec).plan, plan_evaluation(spec)}) {
        std::set<std::string> names;
        std::size_t operations = 0;
        for (const Level& level : plan.levels())
            for (const Operation& operation : level) {
                CHECK_FALSE(operation.name.empty());
                names.insert(operation.name);
                ++operations;
            }
        CHECK(names.size() == operations);
        CHECK(names.contains("conv2 forward"));
    }
}

TEST_CASE("a kernel that is given a tensor of another element type is found when the plan is made") {
    Plan plan;
    const TensorId words = plan.activation("words", {16}, ElementType::uint32);
    const TensorId sums = plan.activation("sums", {16});
    plan.add("relu", kernels::relu_forward, {.x = words, .y = sums, .count = 16});
    CHECK_THROWS_AS(plan.place(), std::logic_error);
}

TEST_CASE("an evaluation takes less memory than a training step") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec = test::spec_of(recipe, layout, 16, 100);
    CHECK(plan_evaluation(spec).bytes(Arena::activations) * 3 / 2 <
          plan_single_step(spec, test::update_of(recipe, layout)).plan.bytes(Arena::activations));
}

TEST_CASE("a shared step needs its parameters, and completes its gradients, layer by layer") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    const StateLayout layout = layout_of(recipe);
    const TrainingPlan training = plan_shared_step(test::spec_of(recipe, layout, 16, 100));
    const std::size_t buckets = training.buckets.size();
    REQUIRE(buckets > 4); // softmax and local4; parts of local3; conv2; conv1
    CHECK(std::ranges::is_sorted(training.cuts, std::less_equal<>(), &Cut::level));
    CHECK(std::ranges::is_sorted(training.cuts, {}, &Cut::buckets));
    CHECK(training.cuts.back().level == training.plan.levels().size());
    CHECK(training.cuts.back().buckets == training.buckets.size());
    std::vector<std::size_t> needed, completed;
    for (const Cut& cut : training.cuts) {
        needed.insert(needed.end(), cut.needs.begin(), cut.needs.end());
        completed.resize(cut.buckets, cut.level);
    }
    CHECK(needed[0] == buckets - 1); // conv1
    CHECK(needed[1] == buckets - 2);
    CHECK(completed[buckets - 3] + 2 < completed[buckets - 2]); // local3's long before conv2's
    std::ranges::sort(needed);
    REQUIRE(needed.size() == buckets);
    for (std::size_t i = 0; i < buckets; ++i) CHECK(needed[i] == i);
    CHECK(training.cuts.front().needs == std::vector<std::size_t>{}); // the images
}

TEST_CASE("after the part that completes a bucket, a shared step reads none of its parameters") {
    for (const char* name : {"cifar10-tutorial", "cifar10-resnet20"}) {
        CAPTURE(name);
        const Recipe recipe = find_recipe(name);
        const StateLayout layout = layout_of(recipe);
        const TrainingPlan training =
            plan_shared_step(test::spec_of(recipe, layout, recipe.model.group(), 100));
        for (std::size_t bucket = 0; bucket < training.buckets.size(); ++bucket) {
            std::vector<std::size_t> readers;
            for (std::size_t level = 0; level < training.plan.levels().size(); ++level)
                if (reads_parameters(training.plan, level, training.buckets[bucket]))
                    readers.push_back(level);
            REQUIRE_FALSE(readers.empty());
            CHECK(readers.back() < end_of(bucket, training.cuts));
        }
    }
}

TEST_CASE("a bucket whose parameters are read after its last gradient is complete only after that read") {
    Plan plan;
    const TensorId parameters = plan.tensor("parameters", Arena::state, 0, {64}),
                   gradient = plan.tensor("gradient", Arena::gradients, 0, {64}),
                   later = plan.activation("later", {64});
    plan.copy("first reader", parameters, gradient);
    plan.add("last reader", kernels::add_tensors,
             {.x = {parameters, gradient}, .y = later, .tensors = 2, .count = 64});
    plan.place();
    REQUIRE(plan.levels().size() == 2);
    const std::vector<ArenaRange> buckets{{0, 256}};
    CHECK(end_of(0, cut(plan, buckets)) == 2);
}

TEST_CASE("between two barriers the order is free: any order gives the same bits") {
    const Recipe recipe = test::small_recipe();
    const StateLayout layout = layout_of(recipe);
    const Dataset data = test::noise(20);
    const std::vector<float> state = initial_state(layout, 5);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Device& device = test::device(id);
        const TrainingPlan training =
            plan_single_step(test::spec_of(recipe, layout, 7, data.size()), test::update_of(recipe, layout));
        const Plan& plan = training.plan;
        Session session(device);
        session.hold(plan.bytes());
        session.load(data);
        const std::vector<Command> commands = session.bind(plan);
        session.write(StepNumbers{.learning_rate = 0.1f});
        std::vector<Example> examples;
        for (std::uint32_t i = 0; i < 7; ++i) examples.push_back({.record = i});
        ResidentFeed(data).bring(examples);
        session.write(examples);

        std::mt19937 words(11);
        std::set<std::vector<float>> outcomes;
        for (int round = 0; round < 4; ++round) {
            std::vector<Command> shuffled = commands;
            for (auto begin = shuffled.begin(); round > 0 && begin != shuffled.end();) {
                const auto end = std::find_if(begin, shuffled.end(), [](const Command& command) {
                    return std::holds_alternative<Barrier>(command);
                });
                std::shuffle(begin, end, words);
                begin = end == shuffled.end() ? end : end + 1;
            }
            session.upload(Arena::state, state);
            device.run(shuffled);
            std::vector<float> after(state.size());
            session.download(Arena::state, after);
            CHECK(after != state);
            outcomes.insert(after);
        }
        CHECK(outcomes.size() == 1);
    }
}

} // namespace towers
