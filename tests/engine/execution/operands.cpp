// Users are told which part of a step's multiplications runs in which precision.
#include "engine/execution/operands.h"

#include "backends/launch/quads.h"
#include "backends/wrapped_device.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>
#include <functional>
#include <string_view>
#include <utility>

namespace towers {
namespace {

using Round = std::function<Precision(const Launch&)>;

/// A processor that has two ways to run a launch, and says that the one that it uses rounds operands so.
class RoundingDevice final : public WrappedDevice {
public:
    explicit RoundingDevice(Round round, std::string_view way = "its own")
        : WrappedDevice(open_device("cpu", test::open_options())), round_(std::move(round)), way_(way) {}

    std::vector<Candidate> candidates(const Launch& launch) const override {
        return {{"other", {.operands = Precision::fp16}, false}, {way_, {.operands = round_(launch)}, true}};
    }

private:
    Round round_;
    std::string_view way_;
};

/// The tutorial's step with `batch` examples, at most `most` at once.
TrainingPlan tutorial_step(unsigned batch, unsigned most = 0) {
    static const Recipe recipe = find_recipe("cifar10-tutorial");
    static const StateLayout layout = layout_of(recipe);
    NetworkSpec spec = test::spec_of(recipe, layout, batch, 10);
    spec.most = most;
    return plan_single_step(spec, test::update_of(recipe, layout));
}

bool is_forward(const Launch& launch) { return launch.kernel == Kernel::conv2d_forward; }

} // namespace

TEST_CASE("the parts of multiplications by operands are those counted by hand, also of micro-batches") {
    // As in plan/work.cpp: conv1, conv2 and the dense layers forward; backward takes twice that, except that
    // the images need no gradient.
    const double conv1 = 576 * 75 * 64, conv2 = 144 * 1600 * 64, dense = 2304 * 384 + 384 * 192 + 192 * 10;
    const double forward = conv1 + conv2 + dense, all = 3 * forward - conv1;
    const RoundingDevice device(
        [](const Launch& launch) { return is_forward(launch) ? Precision::bf16 : Precision::fp32; });
    for (const unsigned most : {0u, 3u}) { // 8 examples are then 3, 3 and 2
        CAPTURE(most);
        const TrainingPlan training = tutorial_step(8, most);
        CHECK(training.micro_plans.empty() == (most == 0));
        const OperandParts parts = operand_parts(device, training);
        REQUIRE(parts.size() == 2);
        CHECK(parts.at(Precision::bf16) == doctest::Approx(forward / all));
        CHECK(parts.at(Precision::fp32) == doctest::Approx(1 - forward / all));
    }
    CHECK(operand_parts(device, tutorial_step(2).plan).at(Precision::bf16) == doctest::Approx(forward / all));
    CHECK(operand_parts(device, Plan()).empty());
}

TEST_CASE("operands are those of the way that the device uses, and float32 if it does not tell") {
    const Plan plan = tutorial_step(2).plan;
    const RoundingDevice rounding([](const Launch&) { return Precision::tf32; });
    CHECK(operand_parts(rounding, plan) == OperandParts{{Precision::tf32, 1}});
    CHECK(operand_parts(*open_device("cpu", test::open_options()), plan) ==
          OperandParts{{Precision::fp32, 1}});
}

TEST_CASE("float32 by fragments is of two parts, other operands are rounded to their type") {
    const Plan plan = tutorial_step(2).plan;
    for (const std::string_view way : {fragments_source, padded_fragments, window_rows_by_fragments}) {
        const RoundingDevice parts([](const Launch&) { return Precision::fp32; }, way);
        CHECK(operand_parts(parts, plan) == OperandParts{{Operands::of_two_parts(), 1}});
        const RoundingDevice rounding([](const Launch&) { return Precision::bf16; }, way);
        CHECK(operand_parts(rounding, plan) == OperandParts{{Precision::bf16, 1}});
    }
    for (const Precision each : all_precisions) CHECK(operands_named(name_of(each)) == each);
    CHECK(operands_named("fp32 as two bf16 parts") == Operands::of_two_parts());
}

TEST_CASE("a device that may round says what part of the multiplications it rounds, and in fp32 nothing") {
    using enum Precision;
    CHECK(describe({}, bf16) == "");
    CHECK(describe({{fp32, 1}}, fp32) == "");
    CHECK(describe({{fp32, 1}}, bf16) == "all multiplications in fp32");
    CHECK(describe({{bf16, 1}}, bf16) == "all multiplications in bf16");
    CHECK(describe({{fp32, 0.188}, {bf16, 0.812}}, bf16) == "81.2 % of the multiplications in bf16");
    CHECK(describe({{fp32, 0.1}, {tf32, 0.3}, {bf16, 0.6}}, bf16) ==
          "30.0 % of the multiplications in tf32, 60.0 % in bf16");
    // Neither all nor nothing
    CHECK(describe({{fp32, 1e-6}, {bf16, 1 - 1e-6}}, bf16) == "99.9 % of the multiplications in bf16");
    CHECK(describe({{fp32, 1 - 1e-6}, {fp16, 1e-6}}, fp16) == "0.1 % of the multiplications in fp16");
    const Operands two_parts = Operands::of_two_parts();
    CHECK(describe({{two_parts, 1}}, fp32) == "all multiplications in fp32 as two bf16 parts");
    CHECK(describe({{fp32, 0.4}, {two_parts, 0.6}}, fp32) ==
          "60.0 % of the multiplications in fp32 as two bf16 parts");
    // Under fp32 a device may still use other units.
    CHECK(describe({{fp32, 0.5}, {bf16, 0.5}}, fp32) == "50.0 % of the multiplications in bf16");
}

} // namespace towers
