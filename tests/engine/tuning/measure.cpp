// What measuring takes for rounding, on the devices that are there, and what it takes for a mistake.
#include "engine/tuning/measure.h"

#include "backends/launch/stages.h"
#include "backends/launch/winograd.h"
#include "backends/wrapped_device.h"
#include "tests/support/devices.h"

#include <algorithm>
#include <doctest/doctest.h>

namespace towers {
namespace {

constexpr unsigned channels = 32;

/// A convolution of 5x5 that keeps the image's size
ConvShape shape_of(unsigned batch, unsigned height, unsigned width) {
    return {.batch = batch,
            .in_height = height,
            .in_width = width,
            .in_channels = channels,
            .out_height = height,
            .out_width = width,
            .out_channels = channels,
            .kernel_height = 5,
            .kernel_width = 5,
            .stride_y = 1,
            .stride_x = 1,
            .dilation_y = 1,
            .dilation_x = 1,
            .pad_top = 2,
            .pad_left = 2,
            .groups = 1};
}

/// The three passes of a convolution
Plan convolutions(const ConvShape& s) {
    Plan plan;
    const auto images = [&](const char* name) {
        return plan.activation(name, {s.batch, s.in_height, s.in_width, channels});
    };
    const TensorId x = images("x"), dy = images("dy"), y = images("y"), dx = images("dx"),
                   w = plan.activation("w", {5, 5, channels, channels}), b = plan.activation("b", {channels}),
                   dw = plan.activation("dw", {5, 5, channels, channels}),
                   db = plan.activation("db", {channels});
    plan.add("forward", kernels::conv2d_forward,
             {.x = x, .w = w, .b = b, .y = y, .shape = s, .relu = 1, .bias = 1, .splits = 1});
    plan.add("data gradient", kernels::conv2d_backward_data,
             {.dy = dy, .w = w, .x = x, .dx = dx, .shape = s, .relu = 1, .splits = 1});
    plan.add("weights gradient", kernels::conv2d_backward_weights,
             {.x = x, .dy = dy, .dw = dw, .db = db, .shape = s, .bias = 1, .splits = 1});
    plan.place();
    return plan;
}

/// Calls visit(way) for each way in which the device runs a launch of the plan, measured.
template<class Visit>
void for_each_way(Device& device, Choices& choices, const Plan& plan, Visit visit) {
    for (const Level& level : plan.levels())
        for (const Operation& operation : level) {
            const Launch& launch = std::get<Launch>(operation.work);
            for (const Measured& way :
                 measure(device, choices, {&launch, &plan}, device.candidates(launch))) {
                INFO(operation.name, " by ", to_string(way.candidate.variant, way.candidate.config),
                     ": error ", way.error.value_or(-1));
                visit(way);
            }
        }
}

constexpr std::string_view wrong_constant = "wrong constant", missing_tile = "missing tile",
                           missing_row = "missing row";

/// A CPU that runs convolutions of one image, of one row of tiles, also by Winograd's method as GPUs do, and
/// so with mistakes in the transform of the images: for one point it is off by a thousandth, it leaves out
/// the last tile, or it takes the last row of pixels for padding.
class Mistaken : public WrappedDevice {
public:
    explicit Mistaken(const Choices& choices) : WrappedDevice(open_device("cpu", {})), choices_(choices) {}

    std::vector<Candidate> candidates(const Launch&) const override {
        std::vector<Candidate> all;
        for (const std::string_view name : {winograd_method, wrong_constant, missing_tile, missing_row})
            all.push_back({name, {}, false});
        all.push_back({shared_source, {}, true});
        return all;
    }

protected:
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override {
        std::vector<Command> changed;
        for (const Command& command : commands) {
            const auto* const launch = std::get_if<Launch>(&command);
            const Chosen* const chosen = launch != nullptr ? find(&choices_, *launch) : nullptr;
            if (chosen == nullptr || chosen->variant == shared_source)
                changed.push_back(command);
            else
                add_stages(changed, *launch, chosen->variant);
        }
        return std::make_unique<WrappedRecording>(record_theirs(changed, scratch));
    }

private:
    void add_stages(std::vector<Command>& commands, const Launch& launch, std::string_view mistake) {
        constexpr DeviceFacts card{.busy_groups = 264, .subgroup_size = 32, .quads = true};
        const LaunchConfig config{.tile = Tile{64, 64, 256}, .winograd_tile = 4};
        const std::uint64_t bytes = winograd_stages(launch, config, card, 0).scratch_bytes;
        memory_.push_back(allocate(bytes, Memory::device));
        for (const Stage& stage : winograd_stages(launch, config, card, memory_.back().address()).stages) {
            for (const StageLaunch& each : stage)
                if (each.launch.kernel == Kernel::winograd_images)
                    add_images(commands, each.launch.parameters.as<WinogradImagesParams>(), mistake);
                else
                    commands.emplace_back(each.launch);
            commands.emplace_back(Barrier{});
        }
    }

    void add_images(std::vector<Command>& commands, WinogradImagesParams p, std::string_view mistake) {
        const unsigned points = p.tiles.points * p.tiles.points, columns = p.tiles.across;
        if (mistake == missing_tile) --p.tiles.across;
        if (mistake == missing_row) --p.tiles.height;
        commands.emplace_back(launch(kernels::winograd_images, p));
        if (mistake != wrong_constant) return;
        memory_.push_back(allocate(points * channels * sizeof(float), Memory::staging));
        const std::span<float> factors = memory_.back().host<float>();
        std::ranges::fill(factors, 1.0f);
        std::ranges::fill(factors.subspan(3 * p.tiles.points * channels, p.tiles.points * channels), 1.001f);
        commands.emplace_back(Barrier{});
        commands.emplace_back(launch(kernels::multiply, {.a = {p.v.at},
                                                         .b = {factors.data()},
                                                         .y = p.v,
                                                         .batch = 1,
                                                         .pixels = columns,
                                                         .channels = points * channels,
                                                         .broadcast = 1}));
    }

    const Choices& choices_;
    std::vector<Buffer> memory_; ///< of the recordings
};

} // namespace

TEST_CASE("Winograd's rounding passes for rounding where it is measured") {
    const Plan plan = convolutions(shape_of(2, 9, 8));
    for (const std::string& id : test::device_ids()) {
        const DeviceKind kind = test::device(id).info().kind;
        if (kind == DeviceKind::software) continue; // has none of them
        INFO("on ", id);
        Choices choices;
        OpenOptions options = test::open_options();
        options.choices = &choices;
        const std::unique_ptr<Device> device = open_device(id, options);
        unsigned ways = 0;
        for_each_way(*device, choices, plan, [&](const Measured& way) {
            CHECK(way.us);
            CHECK(way.is_right());
            if (way.candidate.variant != winograd_method) return;
            CHECK(*way.error < 2e-5);
            ++ways;
        });
        if (kind == DeviceKind::discrete_gpu) CHECK(ways == 18); // 3 passes, 2 tiles x 3
    }
}

TEST_CASE("measuring refuses convolutions by Winograd's method with a small mistake, and only these") {
    const Plan plan = convolutions(shape_of(1, 4, 64));
    Choices choices;
    Mistaken device(choices);
    unsigned refused = 0;
    for_each_way(device, choices, plan, [&](const Measured& way) {
        const bool mistaken =
            way.candidate.variant != winograd_method && way.candidate.variant != shared_source;
        CHECK(way.us);
        CHECK(way.is_right() == !mistaken);
        CHECK(*way.error < (mistaken ? 1 : 2e-5)); // a small mistake
        refused += mistaken;
    });
    CHECK(refused == 9); // 3 passes, 3 mistakes
}

} // namespace towers
