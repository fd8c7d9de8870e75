// What measuring takes for rounding, on the devices that are there.
#include "engine/tuning/measure.h"

#include "backends/variants.h"
#include "tests/support/devices.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

constexpr ConvShape shape{.batch = 2,
                          .in_height = 9,
                          .in_width = 8,
                          .in_channels = 32,
                          .out_height = 9,
                          .out_width = 8,
                          .out_channels = 32,
                          .kernel_height = 5,
                          .kernel_width = 5,
                          .stride_y = 1,
                          .stride_x = 1,
                          .dilation_y = 1,
                          .dilation_x = 1,
                          .pad_top = 2,
                          .pad_left = 2,
                          .groups = 1};

/// The three passes of a convolution
Plan convolutions() {
    Plan plan;
    const TensorId x = plan.activation("x", {2, 9, 8, 32}), w = plan.activation("w", {5, 5, 32, 32}),
                   dy = plan.activation("dy", {2, 9, 8, 32}), b = plan.activation("b", {32}),
                   y = plan.activation("y", {2, 9, 8, 32}), dx = plan.activation("dx", {2, 9, 8, 32}),
                   dw = plan.activation("dw", {5, 5, 32, 32}), db = plan.activation("db", {32});
    plan.add("forward", kernels::conv2d_forward,
             {.x = x, .w = w, .b = b, .y = y, .shape = shape, .relu = 1, .bias = 1, .splits = 1});
    plan.add("data gradient", kernels::conv2d_backward_data,
             {.dy = dy, .w = w, .x = x, .dx = dx, .shape = shape, .relu = 1, .splits = 1});
    plan.add("weights gradient", kernels::conv2d_backward_weights,
             {.x = x, .dy = dy, .dw = dw, .db = db, .shape = shape, .bias = 1, .splits = 1});
    plan.place();
    return plan;
}

} // namespace

TEST_CASE("Winograd's rounding passes for rounding where it is measured") {
    const Plan plan = convolutions();
    for (const std::string& id : test::device_ids()) {
        INFO("on ", id);
        Choices choices;
        OpenOptions options = test::open_options();
        options.choices = &choices;
        const std::unique_ptr<Device> device = open_device(id, options);
        unsigned ways = 0;
        for (const Operation& operation : plan.operations()) {
            const Launch& launch = std::get<Launch>(operation.work);
            for (const Measured& each :
                 measure(*device, choices, {&launch, &plan}, device->candidates(launch))) {
                INFO(operation.name, " by ", to_string(each.candidate.variant, each.candidate.offer));
                CHECK(each.us);
                CHECK(each.right);
                if (each.candidate.variant != winograd_method) continue;
                CHECK(each.error < 2e-5);
                ++ways;
            }
        }
        const bool card = device->info().kind == DeviceKind::discrete_gpu;
        if (card) CHECK(ways == 18);
        if (device->info().kind == DeviceKind::software) CHECK(ways == 0);
    }
}

} // namespace towers
