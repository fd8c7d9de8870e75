#include "backends/vulkan/spirv.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/reference_elementwise.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace towers {
namespace {

using namespace test;
using reference::Activation;
using reference::Values;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Kernels {
    const char* name;
    KernelHandle<ActivationForwardParams> forward;
    KernelHandle<ActivationBackwardParams> backward;
    const Activation& function;
    bool saves_output;
    float slope = 0;
};
const Kernels relu{"relu", kernels::relu_forward, kernels::relu_backward, reference::relu_function, true};
const Kernels relu6{"relu6", kernels::relu6_forward, kernels::relu6_backward, reference::relu6, true};
const Kernels sigmoid{"sigmoid", kernels::sigmoid_forward, kernels::sigmoid_backward, reference::sigmoid,
                      true};
const Kernels silu{"silu", kernels::silu_forward, kernels::silu_backward, reference::silu, false};
const Kernels gelu{"gelu", kernels::gelu_forward, kernels::gelu_backward, reference::gelu, false};
const Kernels gelu_tanh{"gelu_tanh", kernels::gelu_tanh_forward, kernels::gelu_tanh_backward,
                        reference::gelu_tanh, false};
const Kernels leaky_relu{
    "leaky_relu", kernels::leaky_relu_forward, kernels::leaky_relu_backward, reference::leaky_relu,
    false,        reference::leaky_slope};
const Kernels hard_swish{"hard_swish", kernels::hard_swish_forward, kernels::hard_swish_backward,
                         reference::hard_swish, false};
const Kernels softplus{"softplus", kernels::softplus_forward, kernels::softplus_backward, reference::softplus,
                       false};

Values each(double (*function)(double), const std::vector<float>& x) {
    Values y;
    for (const float value : x) y.push_back(function(value));
    return y;
}

std::vector<float> forward(Device& device, const Kernels& k, const std::vector<float>& values) {
    Trial trial(device);
    const auto count = std::uint32_t(values.size());
    const Tensor x = trial.input(values), y = trial.output(count);
    trial.run(launch(k.forward, {x, y, count, k.slope}));
    return trial.floats(y);
}

std::vector<float> backward(Device& device, const Kernels& k, const std::vector<float>& x,
                            const std::vector<float>& gradient) {
    Trial trial(device);
    const auto count = std::uint32_t(x.size());
    const Tensor saved = trial.input(k.saves_output ? narrow(each(k.function.value, x)) : x),
                 dy = trial.input(gradient), dx = trial.output(count);
    trial.run(launch(k.backward, {saved, dy, dx, count, k.slope}));
    return trial.floats(dx);
}

/// With and without vectors of four, in one workgroup and in several
const std::uint32_t counts[] = {1, 13, 128, 4099, 4100};

/// Values between -9 and 9, with zeros of both signs and the kinks of relu6 and hard_swish.
std::vector<float> inputs(std::uint32_t count) {
    std::vector<float> x = random_floats(count, count, -9, 9);
    const float corners[] = {0.0f, 6.0f, -0.0f, 3.0f, -3.0f};
    for (std::size_t i = 0; i < count; i += 5) x[i] = corners[i / 5 % std::size(corners)];
    return x;
}

void check_forward(const Kernels& k) {
    for (const std::uint32_t count : counts) {
        INFO(count, " elements");
        const std::vector<float> x = inputs(count);
        on_every_device(
            [&](Device& device) { check_near("y", forward(device, k, x), each(k.function.value, x)); });
    }
}

void check_backward(const Kernels& k) {
    for (const std::uint32_t count : counts) {
        INFO(count, " elements");
        const std::vector<float> x = inputs(count), dy = random_floats(count, 2);
        Values expected = each(k.function.derivative, x);
        for (std::size_t i = 0; i < count; ++i) expected[i] *= dy[i];
        on_every_device([&](Device& device) { check_near("dx", backward(device, k, x, dy), expected); });
    }
}

} // namespace

KERNEL_TEST(relu_forward, "a unit is off below zero and linear above") { check_forward(relu); }
KERNEL_TEST(relu_backward, "no gradient passes a unit that was off") { check_backward(relu); }
KERNEL_TEST(relu6_forward, "a unit is linear between 0 and 6 only") { check_forward(relu6); }
KERNEL_TEST(relu6_backward, "no gradient passes a unit that was off or at its limit") {
    check_backward(relu6);
}
KERNEL_TEST(sigmoid_forward, "gates open as in other frameworks") { check_forward(sigmoid); }
KERNEL_TEST(sigmoid_backward, "gates learn as in other frameworks") { check_backward(sigmoid); }
KERNEL_TEST(silu_forward, "imported networks with SiLU compute what they were trained for") {
    check_forward(silu);
}
KERNEL_TEST(silu_backward, "SiLU's gradient is right") { check_backward(silu); }
KERNEL_TEST(gelu_forward, "imported networks with GELU compute what they were trained for") {
    check_forward(gelu);
}
KERNEL_TEST(gelu_backward, "networks with GELU follow the gradient of their loss") { check_backward(gelu); }
KERNEL_TEST(gelu_tanh_forward, "networks with GELU's tanh form compute what they were trained for") {
    check_forward(gelu_tanh);
}
KERNEL_TEST(gelu_tanh_backward, "networks with GELU's tanh form follow the gradient of their loss") {
    check_backward(gelu_tanh);
}
KERNEL_TEST(leaky_relu_forward, "a unit keeps a part of what is below zero") { check_forward(leaky_relu); }
KERNEL_TEST(leaky_relu_backward, "a unit below zero learns at its slope") { check_backward(leaky_relu); }
KERNEL_TEST(hard_swish_forward, "a unit opens between -3 and 3") { check_forward(hard_swish); }
KERNEL_TEST(hard_swish_backward, "units with a hard gate follow the gradient of their loss") {
    check_backward(hard_swish);
}
KERNEL_TEST(softplus_forward, "a unit gives positive numbers only, such as a scale") {
    check_forward(softplus);
}
KERNEL_TEST(softplus_backward, "units that are always positive follow the gradient of their loss") {
    check_backward(softplus);
}

TEST_CASE("smooth activations are precise where they are small and correct where they saturate") {
    std::vector<float> x{-3e38f, -1e30f, -1e4f, -100, -88, 88, 100, 1e4f, 1e30f, 3e38f};
    for (int i = -600; i <= 601; ++i) x.push_back(float(i) / 100);
    for (const Kernels* k : {&sigmoid, &silu, &gelu, &gelu_tanh, &hard_swish, &softplus}) {
        INFO(k->name);
        const Values y = each(k->function.value, x), slope = each(k->function.derivative, x);
        on_every_device([&](Device& device) {
            const std::vector<float> measured = forward(device, *k, x);
            const std::vector<float> gradient = backward(device, *k, x, std::vector<float>(x.size(), 1));
            for (std::size_t i = 0; i < x.size(); ++i) {
                INFO("at ", x[i]);
                CHECK(std::abs(measured[i] - y[i]) <= 5e-6 * std::abs(y[i]) + 1e-36);
                CHECK(std::abs(gradient[i] - slope[i]) <= 1e-6);
            }
        });
    }
}

TEST_CASE("hard_swish keeps its digits where its gate begins to open") {
    // There x + 3 is exact. A division rounds by 2.5 units in the last place at most (Vulkan's), the product
    // by half a unit.
    std::vector<float> x;
    for (int i = 1; i < 1024; ++i) x.push_back(-3 + float(i) * float(i) * 0x1p-21f);
    const Values y = each(hard_swish.function.value, x);
    on_every_device([&](Device& device) {
        const std::vector<float> measured = forward(device, hard_swish, x);
        for (std::size_t i = 0; i < x.size(); ++i) {
            INFO("at ", x[i]);
            CHECK(std::abs(measured[i] - y[i]) <= 3.01 * 0x1p-23 * std::abs(y[i]));
        }
    });
}

TEST_CASE("no driver may multiply out or regroup what cancels") {
    // The drivers here do not anyway, so this counts the operations with the word that forbids it.
    const auto not_contracted = [](std::span<const std::uint32_t> code) {
        constexpr std::uint32_t header = 5, op_decorate = 71, no_contraction = 42;
        unsigned count = 0;
        for (std::size_t i = header; i < code.size(); i += code[i] >> 16)
            count += (code[i] & 0xffffu) == op_decorate && code[i + 2] == no_contraction ? 1 : 0;
        return count;
    };
    CHECK(not_contracted(vulkan::spirv_hard_swish_forward) == 2); // (x + 3) / 6
    for (const std::span<const std::uint32_t> code :
         {std::span<const std::uint32_t>(vulkan::spirv_sigmoid_forward),
          {vulkan::spirv_silu_forward},
          {vulkan::spirv_silu_backward},
          {vulkan::spirv_gelu_forward},
          {vulkan::spirv_gelu_backward},
          {vulkan::spirv_gelu_tanh_forward},
          {vulkan::spirv_gelu_tanh_backward},
          {vulkan::spirv_softplus_forward},
          {vulkan::spirv_softplus_backward}})
        CHECK(not_contracted(code) >= 4); // exp's x - n a + n b
}

TEST_CASE("no activation turns a NaN or an infinity into a finite number") {
    std::vector<float> x = random_floats(128, 1);
    x[3] = nan;
    x[126] = -nan;
    x[64] = infinity;
    x[65] = -infinity;
    for (const Kernels* k :
         {&relu, &relu6, &sigmoid, &silu, &gelu, &gelu_tanh, &leaky_relu, &hard_swish, &softplus}) {
        INFO(k->name);
        on_every_device([&](Device& device) {
            const std::vector<float> y = forward(device, *k, x);
            for (std::size_t i = 0; i < x.size(); ++i) {
                INFO("at ", x[i]);
                if (k == &relu && x[i] == -infinity)
                    CHECK(y[i] == 0);
                else if (std::isnan(x[i]))
                    CHECK(std::isnan(y[i]));
                else
                    CHECK(std::isfinite(y[i]) == std::isfinite(x[i]));
            }
            const std::vector<float> ones(16, 1);
            std::vector<float> dy = random_floats(16, 2);
            dy[5] = nan;
            const std::vector<float> dx = backward(device, *k, ones, dy);
            for (std::size_t i = 0; i < dx.size(); ++i) CHECK(std::isnan(dx[i]) == (i == 5));
        });
    }
}

TEST_CASE("the references' derivatives of the activations match their functions") {
    for (const Kernels* k :
         {&relu, &relu6, &sigmoid, &silu, &gelu, &gelu_tanh, &leaky_relu, &hard_swish, &softplus}) {
        INFO(k->name);
        const std::vector<float> x = random_floats(127, 3, -9, 9);
        const auto sum = [&](const Values& v) {
            double total = 0;
            for (const double value : v) total += k->function.value(value);
            return total;
        };
        CHECK(reference::relative_error(each(k->function.derivative, x),
                                        reference::finite_differences(widen(x), sum)) < 1e-7);
    }
}

KERNEL_TEST(add_tensors, "a sum adds all its branches in the same order, except where its mask is zero") {
    for (const std::uint32_t count : counts)
        for (std::uint32_t tensors = 1; tensors <= ADD_TENSORS; ++tensors)
            for (const uint extra : {0u, 1u, 2u}) {
                const bool rectified = extra == 1, masked = extra == 2;
                INFO(count, " elements, ", tensors, " tensors, ReLU: ", rectified, ", masked: ", masked);
                std::vector<std::vector<float>> values;
                for (std::uint32_t tensor = 0; tensor < tensors; ++tensor)
                    values.push_back(random_floats(count, tensor));
                values.back()[count / 2] = nan;
                std::vector<float> expected = values[0]; // in float32: every device rounds a sum alike
                for (std::uint32_t tensor = 1; tensor < tensors; ++tensor)
                    for (std::size_t i = 0; i < count; ++i) expected[i] += values[tensor][i];
                if (rectified) expected = narrow(reference::relu(widen(expected)));
                std::vector<float> mask = inputs(count);
                mask[count / 2] = 1; // lets the NaN through
                if (count > 1) mask[count / 2 - 1] = nan;
                for (std::size_t i = 0; masked && i < count; ++i)
                    if (!(mask[i] > 0)) expected[i] = 0;
                on_every_device([&](Device& device) {
                    Trial trial(device);
                    AddTensorsParams p{}; // the other pointers stay null
                    for (std::uint32_t tensor = 0; tensor < tensors; ++tensor)
                        p.x[tensor] = trial.input(values[tensor]);
                    const Tensor y = trial.output(count);
                    p.y = y;
                    p.tensors = tensors;
                    p.count = count;
                    p.relu = rectified;
                    p.masked = masked;
                    if (masked) p.mask = trial.input(mask);
                    trial.run(launch(kernels::add_tensors, p));
                    check_near("y", trial.floats(y), widen(expected), 0);
                });
            }
}

struct Image {
    std::uint32_t batch, pixels, channels;
    std::uint32_t count() const { return batch * pixels * channels; }
};
const Image images[] = {{1, 1, 1}, {3, 13, 7}, {3, 1, 127}, {2, 127, 64}, {3, 49, 300}, {1, 3136, 13}};

KERNEL_TEST(multiply, "every pixel is scaled by its own factor, or by its image's and channel's") {
    for (const auto& s : images) {
        INFO(s.batch, " x ", s.pixels, " x ", s.channels);
        std::vector<float> values = random_floats(s.count(), 1);
        values.back() = nan;
        const std::vector<float> scales = random_floats(std::size_t(s.batch) * s.channels, 2),
                                 factors = random_floats(s.count(), 3);
        Values product = widen(values);
        for (std::size_t i = 0; i < product.size(); ++i) product[i] *= factors[i];
        const Values scaled =
            reference::multiply_broadcast(s.pixels, s.channels, widen(values), widen(scales));
        on_every_device([&](Device& device) {
            for (const bool broadcast : {false, true}) {
                INFO("broadcast: ", broadcast);
                Trial trial(device);
                const Tensor a = trial.input(values), b = trial.input(broadcast ? scales : factors),
                             y = trial.output(s.count());
                trial.run(launch(kernels::multiply, {a, b, y, s.batch, s.pixels, s.channels, broadcast}));
                check_near("y", trial.floats(y), broadcast ? scaled : product);
            }
        });
    }
}

KERNEL_TEST(multiply_backward_scale, "squeeze and excitation learns from every pixel that it scales") {
    for (const auto& s : images) {
        INFO(s.batch, " x ", s.pixels, " x ", s.channels);
        const std::vector<float> values = random_floats(s.count(), 1);
        std::vector<float> gradient = random_floats(s.count(), 2);
        gradient.back() = nan; // reaches the last channel only
        const Values expected = reference::multiply_broadcast_scale_gradient(s.pixels, s.channels,
                                                                             widen(values), widen(gradient));
        REQUIRE(std::isnan(expected.back()));
        on_every_device([&](Device& device) {
            Trial trial(device);
            const Tensor a = trial.input(values), dy = trial.input(gradient),
                         db = trial.output(std::size_t(s.batch) * s.channels);
            trial.run(launch(kernels::multiply_backward_scale, {a, dy, db, s.batch, s.pixels, s.channels}));
            check_near("db", trial.floats(db), expected);
        });
    }
}

TEST_CASE("the reference gradient of a broadcast factor is the gradient of the product") {
    const Values a = widen(random_floats(2 * 5 * 3, 1)), b = widen(random_floats(2 * 3, 2)),
                 dy = widen(random_floats(a.size(), 3));
    const auto by_b = [&](const Values& v) {
        return reference::dot(reference::multiply_broadcast(5, 3, a, v), dy);
    };
    CHECK(reference::relative_error(reference::multiply_broadcast_scale_gradient(5, 3, a, dy),
                                    reference::finite_differences(b, by_b)) < 1e-8);
}

KERNEL_TEST(copy_channels, "concatenation puts every channel in its place and leaves the others alone") {
    struct Part {
        std::uint32_t pixels, channels, source_stride, source_first, target_stride, target_first;
    };
    for (const Part& s : {Part{1, 1, 1, 0, 1, 0}, Part{13, 3, 3, 0, 10, 7}, Part{13, 7, 10, 3, 7, 0},
                          Part{127, 64, 64, 0, 67, 2}, Part{127, 13, 127, 64, 31, 5},
                          Part{13, 64, 128, 32, 96, 4}, Part{127, 64, 128, 32, 96, 4}}) {
        INFO(s.pixels, " pixels, ", s.channels, " channels, from ", s.source_first, " of ", s.source_stride,
             " to ", s.target_first, " of ", s.target_stride);
        std::vector<float> source = random_floats(std::size_t(s.pixels) * s.source_stride, 1);
        source[s.source_first] = nan;
        const std::vector<float> before = random_floats(std::size_t(s.pixels) * s.target_stride, 2);
        Values expected = widen(before);
        for (std::size_t pixel = 0; pixel < s.pixels; ++pixel)
            for (std::size_t c = 0; c < s.channels; ++c)
                expected[pixel * s.target_stride + s.target_first + c] =
                    source[pixel * s.source_stride + s.source_first + c];
        on_every_device([&](Device& device) {
            Trial trial(device);
            const Tensor x = trial.input(source), y = trial.in_out(before);
            trial.run(launch(kernels::copy_channels, {x, y, s.pixels, s.channels, s.source_stride,
                                                      s.source_first, s.target_stride, s.target_first}));
            check_near("y", trial.floats(y), expected, 0);
        });
    }
}

} // namespace towers
