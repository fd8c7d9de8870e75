#include "engine/tuning/launch_bench.h"

#include "backends/arithmetic.h"
#include "backends/upload.h"
#include "engine/clock.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

namespace towers {
namespace {

/// The same again after so many, which fit no image or tile: a large tensor is filled as fast as it is
/// copied.
constexpr std::size_t period = 1'000'003;

std::vector<float> random_floats(std::size_t count, bool positive) {
    std::vector<float> values(count);
    std::uint32_t state = 1;
    for (float& value : std::span(values).first(std::min(count, period))) {
        state = state * 1664525 + 1013904223;
        value = float(state >> 8) * 0x1p-23f - 1;
        if (positive) value = std::abs(value) + 0.25f;
    }
    for (std::size_t i = period; i < count; i += period)
        std::copy_n(values.begin(), std::min(period, count - i), values.begin() + std::ptrdiff_t(i));
    return values;
}

/// What results hold before: an element that only one candidate writes is far off.
constexpr float unwritten = 12345.5f;

} // namespace

bool is_measurable(const PlannedLaunch& planned) {
    const KernelInfo& kernel = kernel_info(planned.launch->kernel);
    for (std::size_t i = 0; i < kernel.pointers.size(); ++i) {
        if (kernel.elements[i] != ElementType::float32 || kernel.pointers[i] == Access::read_write)
            return false;
        for (std::size_t j = 0; j < i; ++j)
            if (kernel.pointers[i] != kernel.pointers[j] && planned.launch->parameters.pointer(i) != 0 &&
                planned.launch->parameters.pointer(i) == planned.launch->parameters.pointer(j))
                return false; // in place
    }
    return true;
}

LaunchBench::LaunchBench(Device& device, const PlannedLaunch& planned)
    : device_(device), launch_(*planned.launch) {
    const KernelInfo& kernel = kernel_info(launch_.kernel);
    std::map<std::uint64_t, std::size_t> offsets[2]; // by tensor, of inputs and of outputs
    std::size_t bytes[2]{};
    const auto is_output = [&](std::size_t i) { return kernel.pointers[i] == Access::write; };
    const auto for_each_tensor = [&](const auto& visit) {
        for (std::size_t i = 0; i < kernel.pointers.size(); ++i)
            if (const TensorId id = TensorId::of(planned.launch->parameters.pointer(i)))
                visit(i, planned.launch->parameters.pointer(i), planned.plan->at(id).bytes);
    };
    for_each_tensor([&](std::size_t i, std::uint64_t tensor, std::size_t size) {
        if (offsets[is_output(i)].try_emplace(tensor, bytes[is_output(i)]).second)
            bytes[is_output(i)] += aligned(size);
    });
    for (const bool output : {false, true})
        buffers_[output] = device.allocate(std::max(bytes[output], aligned(1)), Memory::device);
    for_each_tensor([&](std::size_t i, std::uint64_t tensor, std::size_t) {
        launch_.parameters.set_pointer(i,
                                       buffers_[is_output(i)].address() + offsets[is_output(i)].at(tensor));
    });
}

void LaunchBench::fill_inputs(bool positive) {
    const std::vector<float> values = random_floats(floats_of(false), positive);
    upload(device_, buffers_[false], std::as_bytes(std::span(values)));
}

Recording LaunchBench::record(unsigned launches) const {
    std::vector<Command> commands{Timestamp{}};
    for (unsigned i = 0; i < launches; ++i) {
        commands.emplace_back(launch_);
        commands.emplace_back(Timestamp{});
    }
    return device_.record(commands);
}

std::vector<double> LaunchBench::run(const Recording& recording, unsigned launches) const {
    const Clock::time_point begin = Clock::now();
    device_.wait(device_.submit(recording));
    const double seconds = seconds_since(begin);
    const std::vector<double> moments = device_.timestamps(recording);
    std::vector<double> us;
    for (std::size_t i = 1; i < moments.size(); ++i) us.push_back((moments[i] - moments[i - 1]) * 1e6);
    if (us.empty()) us.push_back(seconds * 1e6 / launches);
    return us;
}

std::vector<float> LaunchBench::results(const Recording& recording, unsigned launches, double& us) {
    std::vector<float> values(floats_of(true), unwritten);
    upload(device_, buffers_[true], std::as_bytes(std::span(values)));
    us = run(recording, launches).front();
    download(device_, buffers_[true], std::as_writable_bytes(std::span(values)));
    return values;
}

bool all_finite(std::span<const float> values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

double error_of(std::span<const float> measured, std::span<const float> expected) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (measured[i] == unwritten && expected[i] == unwritten) continue;
        const double d = double(measured[i]) - expected[i];
        difference += d * d;
        norm += double(expected[i]) * expected[i];
    }
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    return difference == 0 ? 0 : std::sqrt(difference / norm);
}

} // namespace towers
