// Parity must find whatever a device does wrong, and blame the right kernel.
#include "backends/backend.h"
#include "engine/parity/drift.h"
#include "engine/parity/lockstep.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <functional>
#include <limits>
#include <map>

namespace towers {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// The CPU, with a fault in the launches of one kernel.
class FaultyDevice : public test::ScriptedDevice {
public:
    enum class Fault { none, wrong_element, nothing_done };

    FaultyDevice(Fault fault, Kernel kernel, std::size_t pointer = 0, std::size_t element = 0)
        : ScriptedDevice(open_device("cpu", {}), {.id = "faulty",
                                                  .record =
                                                      [=, this](auto& commands) {
                                                          commands = with_fault(commands, fault, kernel,
                                                                                pointer, element);
                                                      }}),
          bad_(allocate(sizeof(float), Memory::staging)) {
        put(value);
    }

    static constexpr float value = 1e6f;
    void put(float bad) { bad_.host<float>()[0] = bad; } ///< in place of `value`

private:
    std::vector<Command> with_fault(const std::vector<Command>& commands, Fault fault, Kernel kernel,
                                    std::size_t pointer, std::size_t element) const {
        std::vector<Command> changed;
        for (const Command& command : commands) {
            const auto* const launch = std::get_if<Launch>(&command);
            const bool hit = launch != nullptr && launch->kernel == kernel;
            if (!hit || fault != Fault::nothing_done) changed.push_back(command);
            if (!hit || fault != Fault::wrong_element) continue;
            const std::uint64_t place = launch->parameters.pointer(pointer) + element * sizeof(float);
            changed.push_back(Barrier{});
            changed.push_back(Copy{{&bad_, 0, sizeof(float)}, slice_at(place, sizeof(float))});
        }
        return changed;
    }

    Buffer bad_;
};

/// A device that says that it rounds the operands of convolutions' forward products, where an element is
/// wrong.
class RoundingDevice final : public FaultyDevice {
public:
    RoundingDevice(Precision operands, float bad)
        : FaultyDevice(Fault::wrong_element, Kernel::conv2d_forward, 3), operands_(operands) {
        put(bad);
    }

    std::vector<Candidate> candidates(const Launch& launch) const override {
        const bool rounds = launch.kernel == Kernel::conv2d_forward;
        return {{"rounding", {.operands = rounds ? operands_ : Precision::fp32}, true}};
    }

private:
    Precision operands_;
};

/// A network on images whose contrast changes
const char* const contrast = R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [{ name = "fc", kind = "dense", units = 10 }]
[pipeline.train]
contrast = [0.5, 1.5]
[optimizer]
kind = "sgd"
learning_rate = 0.01
[training]
batch = 4
steps = 1
)";

constexpr LockstepOptions lockstep_options{.batch = 6, .seed = 3, .distort = true, .tolerance = 1e-5};

std::vector<TensorComparison> compare_with_cpu(Device& device) {
    return compare_step(test::device("cpu"), device, test::small_recipe(), test::noise(50), lockstep_options)
        .tensors;
}

std::vector<TensorComparison> differing(std::vector<TensorComparison> all) {
    std::erase_if(all, [](const TensorComparison& each) { return each.same; });
    return all;
}

} // namespace

TEST_CASE("the difference of numbers is a relative norm, and a NaN equals only a NaN") {
    const std::vector<float> a{3, 0, 4, nan, infinity};
    CHECK(compare_numbers(a, a).relative_norm == 0);
    const Difference small = compare_numbers(a, std::vector<float>{3, 0.5f, 3.75f, nan, infinity});
    CHECK(small.both_nan == 1);
    CHECK(small.relative_norm == doctest::Approx(std::sqrt(0.25 + 0.0625) / 5));
    CHECK(small.largest == 0.5);
    CHECK(small.worst == 1);
    CHECK(small.unequal == 0);
    const Difference infinite = compare_numbers(a, std::vector<float>{3, 0, 4, 1, -infinity});
    CHECK(infinite.relative_norm == infinity);
    CHECK(infinite.unequal == 2);
    CHECK(infinite.worst == 3);
    CHECK(compare_numbers(std::vector<float>{0, 0}, std::vector<float>{0, 1}).relative_norm == 1);
    CHECK(compare_numbers(std::vector<float>{0, 0}, std::vector<float>{0, -0.0f}).relative_norm == 0);
    CHECK(compare_numbers(std::vector<float>{0, 0}, std::vector<float>{1e-39f, -0x1p-149f}).relative_norm ==
          0);
    CHECK(compare_numbers(std::vector<float>{0, 0}, std::vector<float>{0, 0x1p-126f}).relative_norm == 1);
}

TEST_CASE("fixed-point numbers differ as numbers do, whichever of their words") {
    // 3, 65536 and one unit of 2^-16
    const std::vector<uvec2> a{{3u << 16, 0}, {0, 1}, {1, 0}};
    CHECK(compare_numbers(a, a).relative_norm == 0);
    const std::vector<uvec2> less{{3u << 16, 0}, {0xffffffffu, 0}, {1, 0}}; // 2^-16 less than 65536
    const Difference rounding = compare_numbers(a, less);
    CHECK(rounding.largest == 0x1p-16);
    CHECK(rounding.worst == 1);
    CHECK(rounding.relative_norm < 3e-10);
    CHECK(compare_numbers(a, std::vector<uvec2>{a[0], {0, 2}, a[2]}).relative_norm > 0.4);
}

TEST_CASE("words have no tolerance") {
    const Difference difference =
        compare_words(std::vector<std::uint32_t>{1, 2, 3, 4}, std::vector<std::uint32_t>{1, 2, 5, 4});
    CHECK(difference.unequal == 1);
    CHECK(difference.relative_norm == 0.25);
    CHECK(difference.worst == 2);
}

TEST_CASE("parity knows which tensors of a kernel are words") {
    const auto elements = [](Kernel kernel) {
        const auto found = kernel_info(kernel).elements;
        CHECK(found.size() == kernel_info(kernel).pointers.size());
        return std::vector<ElementType>(found.begin(), found.end());
    };
    constexpr ElementType number = ElementType::float32, word = ElementType::uint32;
    CHECK(elements(Kernel::distort_images) == std::vector{word, word, number, word});
    CHECK(elements(Kernel::grey_sums) == std::vector{word, word, number, ElementType::fixed64});
    CHECK(elements(Kernel::max_pool_forward) == std::vector{number, number, word});
    CHECK(elements(Kernel::check_finite) == std::vector{number, word});
    CHECK(elements(Kernel::weight_decay) == std::vector{number, number, number});
    CHECK(elements(Kernel::add_tensors) == std::vector(ADD_TENSORS + 2, number));
}

TEST_CASE("every tensor of a step agrees on every device") {
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const auto all = compare_with_cpu(test::device(id));
        for (const TensorComparison& each : all) {
            CAPTURE(each.operation);
            CAPTURE(each.tensor);
            CAPTURE(each.difference.relative_norm);
            CHECK(each.same);
            if (id == "cpu") CHECK(each.difference.relative_norm == 0);
        }
        std::map<std::string, int> kernels;
        for (const TensorComparison& each : all) ++kernels[each.kernel];
        CHECK(kernels["conv2d_forward"] == 5);
        CHECK(kernels["lrn_backward"] == 2);
        CHECK(kernels["sgd"] == 1);
        CHECK(kernels["moving_average"] == 1);
    }
}

TEST_CASE("one wrong element is found with its place and values, and only its kernel is blamed") {
    // The third channel of the second pixel of the first image, in dx of both lrn_backward launches
    FaultyDevice device(FaultyDevice::Fault::wrong_element, Kernel::lrn_backward, 4, 8 + 2);
    const auto found = differing(compare_with_cpu(device));
    REQUIRE(found.size() == 2);
    CHECK(found[0].operation == "norm2 backward");
    CHECK(found[0].kernel == "lrn_backward");
    CHECK(found[0].tensor == "d conv2");
    CHECK(found[0].worst_index() == std::vector<std::size_t>{0, 0, 0, 10}); // in 16 channels
    CHECK(found[0].worst_values[0] < 1);
    CHECK(found[0].worst_values[1] == FaultyDevice::value);
    CHECK(found[0].difference.relative_norm > 0.9);
    CHECK(found[1].operation == "norm1 backward");
    CHECK(found[1].tensor == "d pool1");
    CHECK(found[1].worst_index() == std::vector<std::size_t>{0, 0, 1, 2}); // in 8 channels
}

TEST_CASE("a wrong word is found") {
    FaultyDevice device(FaultyDevice::Fault::wrong_element, Kernel::max_pool_forward, 2, 5);
    const auto found = differing(compare_with_cpu(device));
    REQUIRE(found.size() == 2);
    CHECK(found[0].operation == "pool1 forward");
    CHECK(found[0].tensor == "pool1 argmax");
    CHECK(found[0].type == ElementType::uint32);
    CHECK(found[0].difference.unequal == 1);
    CHECK(found[0].difference.worst == 5);
}

TEST_CASE("a wrong or missing sum of greys is found, and labels stay exact beside it") {
    using Fault = FaultyDevice::Fault;
    const Recipe recipe = parse_recipe("contrast", contrast, "contrast.toml");
    const auto differing_from = [&](FaultyDevice& device) {
        return differing(
            compare_step(test::device("cpu"), device, recipe, test::noise(50), lockstep_options).tensors);
    };
    FaultyDevice wrong(Fault::wrong_element, Kernel::grey_sums, 3, 2 * 11); // the low word of sum 11
    auto found = differing_from(wrong);
    REQUIRE(found.size() == 1);
    CHECK(found[0].tensor == "grey sums");
    CHECK(found[0].type == ElementType::fixed64);
    CHECK(found[0].worst_index() == std::vector<std::size_t>{1, 3});
    CHECK(found[0].difference.relative_norm > lockstep_options.tolerance);
    FaultyDevice idle(Fault::nothing_done, Kernel::grey_sums);
    found = differing_from(idle);
    REQUIRE(found.size() == 1);
    CHECK(found[0].difference.relative_norm > 0.9);
    CHECK(found[0].worst_written == std::array{true, false});
    FaultyDevice label(Fault::wrong_element, Kernel::augment_images, 5, 2);
    found = differing_from(label);
    REQUIRE(found.size() == 1);
    CHECK(found[0].tensor == "labels");
}

TEST_CASE("parity finds what a kernel leaves unwritten, although older values are there") {
    FaultyDevice device(FaultyDevice::Fault::nothing_done, Kernel::softmax_cross_entropy);
    const auto found = differing(compare_with_cpu(device));
    REQUIRE(found.size() == 3);
    for (const TensorComparison& each : found) {
        CHECK(each.operation == "loss");
        CHECK(each.difference.unequal == each.difference.elements);
        CHECK(each.worst_written[0]);
        CHECK_FALSE(each.worst_written[1]);
    }
    // Tensors that are updated in place are not cleared; they stay as they were.
    FaultyDevice idle(FaultyDevice::Fault::nothing_done, Kernel::weight_decay);
    CHECK(differing(compare_with_cpu(idle)).size() == 4); // gradient and loss of two layers
}

/// Two convolutions side by side, joined twice.
const char* const joining = R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [
  { name = "a", kind = "conv2d", filters = 4, kernel = 3, stride = 4, input = "images" },
  { name = "b", kind = "conv2d", filters = 3, kernel = 3, stride = 4, input = "images" },
  { name = "join", kind = "concatenate", inputs = ["a", "b", "a"] },
  { name = "again", kind = "concatenate", inputs = ["join", "b"] },
  { name = "fc", kind = "dense", units = 10 },
]
[pipeline]
kind = "tutorial"
[optimizer]
kind = "momentum"
learning_rate = 0.01
[training]
batch = 4
steps = 1
)";

TEST_CASE("what several operations write is compared part by part, and nothing of it is wiped out") {
    const Recipe recipe = parse_recipe("joining", joining, "joining.toml");
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        unsigned parts = 0;
        const StepComparison step =
            compare_step(test::device("cpu"), test::device(id), recipe, test::noise(50), lockstep_options);
        for (const TensorComparison& each : step.tensors) {
            CAPTURE(each.operation);
            CAPTURE(each.tensor);
            CHECK(each.same);
            CHECK(each.difference.both_nan == 0);
            CHECK(each.never_written == 0);
            CHECK_FALSE(each.unexplained());
            if (each.kernel == "copy_channels" && each.operation.find("forward") != std::string::npos)
                ++parts;
        }
        CHECK(parts == 5);
    }
    // A missing part shows once the tensor is complete.
    FaultyDevice device(FaultyDevice::Fault::nothing_done, Kernel::copy_channels);
    const auto found = differing(
        compare_step(test::device("cpu"), device, recipe, test::noise(50), lockstep_options).tensors);
    REQUIRE(found.size() == 10);
    for (const TensorComparison& each : found) CHECK_FALSE(each.worst_written[1]);
}

TEST_CASE("where one device rounds operands, its rounding is the tolerance, and only there") {
    using enum Precision;
    const auto compare = [](Precision a, Precision b, float bad) {
        RoundingDevice one(a, 0.01f), other(b, 0.01f + bad);
        return compare_step(one, other, test::small_recipe(), test::noise(50), lockstep_options);
    };
    const auto forward = [](const StepComparison& step) {
        return *std::ranges::find(step.tensors, "conv1 forward", &TensorComparison::operation);
    };
    // The relative norm of a difference of 1 in one of the activations
    const double unit = forward(compare(fp32, fp32, 1)).difference.relative_norm;
    REQUIRE(unit > 0);
    const auto is_same = [&](Precision a, Precision b, double relative) {
        return forward(compare(a, b, float(relative / unit))).same;
    };
    CHECK(is_same(fp32, fp32, 0.9e-5));
    CHECK_FALSE(is_same(fp32, fp32, 1.1e-5));
    CHECK(is_same(fp32, bf16, 0.0038)); // 2^-8 is 0.0039
    CHECK_FALSE(is_same(fp32, bf16, 0.004));
    CHECK(is_same(bf16, fp32, 0.0038));
    CHECK(is_same(fp16, bf16, 0.0038));
    CHECK(is_same(fp32, tf32, 0.00048)); // 2^-11
    CHECK_FALSE(is_same(fp32, tf32, 0.0005));
    // Both round alike, so their products are equal.
    CHECK_FALSE(is_same(bf16, bf16, 1.1e-5));

    const StepComparison step = compare(fp32, bf16, 0);
    CHECK(forward(step).operands == std::array{fp32, bf16});
    CHECK(step.operands[0] == OperandParts{{fp32, 1}});
    CHECK(step.operands[1].at(bf16) > 0.1);
    for (const TensorComparison& each : step.tensors)
        CHECK(each.tolerance == (each.kernel == "conv2d_forward" ? 1e-5 + rounding_of(bf16) : 1e-5));
}

TEST_CASE("a NaN on both devices needs a cause") {
    using Fault = FaultyDevice::Fault;
    const auto compare_faulty = [](Fault fault, Kernel kernel, std::size_t pointer, float bad) {
        FaultyDevice a(fault, kernel, pointer), b(fault, kernel, pointer);
        for (FaultyDevice* device : {&a, &b}) device->put(bad);
        return compare_step(a, b, test::small_recipe(), test::noise(50), lockstep_options).tensors;
    };
    const auto unexplained = [](std::vector<TensorComparison> all) {
        for (const TensorComparison& each : all) CHECK(each.same);
        std::erase_if(all, [](const TensorComparison& each) { return !each.unexplained(); });
        return all;
    };
    // A NaN from finite numbers has no cause; what follows from it has one
    auto all = compare_faulty(Fault::wrong_element, Kernel::softmax_cross_entropy, 3, nan);
    CHECK(std::ranges::count_if(
              all, [](const TensorComparison& each) { return each.difference.both_nan > 0; }) > 10);
    auto found = unexplained(std::move(all));
    REQUIRE(found.size() == 1);
    CHECK(found[0].operation == "loss");
    CHECK(found[0].tensor == "dlogits");
    CHECK(found[0].difference.both_nan == 1);
    CHECK(found[0].never_written == 0);
    // A NaN from infinite numbers has a cause too.
    all = compare_faulty(Fault::wrong_element, Kernel::softmax_cross_entropy, 3, infinity);
    CHECK(
        std::ranges::any_of(all, [](const TensorComparison& each) { return each.difference.both_nan > 0; }));
    CHECK(unexplained(std::move(all)).empty());
    // What neither device writes
    found = unexplained(compare_faulty(Fault::nothing_done, Kernel::lrn_forward, 0, 0));
    REQUIRE(found.size() >= 4);
    CHECK(found[0].operation == "norm1 forward");
    CHECK(found[0].never_written == found[0].difference.elements);
}

TEST_CASE("two trainings on one device do not drift apart") {
    unsigned observed = 0;
    const Drift drift = measure_drift({"cpu", "cpu"}, test::small_recipe(), test::options_for({}, 6),
                                      test::noise(50), 3, [&](const DriftStep&) { ++observed; });
    CHECK(observed == 3);
    REQUIRE(drift.steps.size() == 3);
    for (const DriftStep& step : drift.steps) {
        CHECK(step.loss[0] == step.loss[1]);
        CHECK(step.relative_loss == 0);
        CHECK(step.relative_parameters == 0);
    }
    CHECK(drift.relative_averages == 0);
    CHECK(drift.diverged == std::array<std::string, 2>{});
}

TEST_CASE("trainings on different devices drift, a little") {
    for (const std::string& id : test::device_ids()) {
        if (id == "cpu") continue;
        CAPTURE(id);
        const Drift drift = measure_drift({"cpu", id}, test::small_recipe(), test::options_for({}, 6),
                                          test::noise(50), 1, [](const DriftStep&) {});
        REQUIRE(drift.steps.size() == 1);
        CHECK(drift.steps[0].relative_parameters > 0);
        CHECK(drift.steps[0].relative_parameters < 1e-4);
        CHECK(drift.relative_averages < 1e-4);
    }
}

TEST_CASE("a drift ends where the training diverges") {
    TrainerOptions options = test::options_for({}, 6);
    options.learning_rate = 1e30;
    const Drift drift = measure_drift({"cpu", "cpu"}, test::small_recipe(), options, test::noise(50), 3,
                                      [](const DriftStep&) {});
    CHECK(drift.steps.size() < 3);
    for (const std::string& message : drift.diverged) CHECK(message.starts_with("Model diverged"));
}

} // namespace towers
