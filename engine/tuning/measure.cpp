#include "engine/tuning/measure.h"

#include "backends/arithmetic.h"
#include "backends/upload.h"
#include "engine/clock.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

namespace towers {
namespace {

/// Float32 sums of 10^5 products, by whatever method, stay far below it; a wrong element in a thousand is far
/// above.
constexpr double largest_error = 1e-4;
/// What is so much slower than the fastest is not measured further, if it takes long: a short time may be
/// that of a pause.
constexpr double hopeless = 2, long_us = 20e3;
constexpr unsigned rounds = 5;
/// Of one round
constexpr double least_seconds = 2e-3;
constexpr unsigned most_launches = 16;

std::vector<float> random_floats(std::size_t count, bool positive) {
    std::vector<float> values(count);
    std::uint32_t state = 1;
    for (float& value : values) {
        state = state * 1664525 + 1013904223;
        value = float(state >> 8) * 0x1p-23f - 1;
        if (positive) value = std::abs(value) + 0.25f;
    }
    return values;
}

bool all_finite(std::span<const float> values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// What results hold before: an element that only one candidate writes is far off.
constexpr float unwritten = 12345.5f;

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

/// A launch with tensors of its own.
class Bench {
public:
    Bench(Device& device, const PlannedLaunch& planned) : device_(device), launch_(*planned.launch) {
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
            launch_.parameters.set_pointer(i, buffers_[is_output(i)].address() +
                                                  offsets[is_output(i)].at(tensor));
        });
    }

    void fill_inputs(bool positive) { write(false, random_floats(floats_of(false), positive)); }

    /// A recording of the launch as the device runs it now, so many times.
    Recording record(unsigned launches) const {
        std::vector<Command> commands{Timestamp{}};
        for (unsigned i = 0; i < launches; ++i) {
            commands.emplace_back(launch_);
            commands.emplace_back(Timestamp{});
        }
        return device_.record(commands);
    }

    /// The microseconds of each launch; on the host's clock, their mean.
    std::vector<double> run(const Recording& recording, unsigned launches) const {
        const Clock::time_point begin = Clock::now();
        device_.wait(device_.submit(recording));
        const double seconds = seconds_since(begin);
        const std::vector<double> moments = device_.timestamps(recording);
        std::vector<double> us;
        for (std::size_t i = 1; i < moments.size(); ++i) us.push_back((moments[i] - moments[i - 1]) * 1e6);
        if (us.empty()) us.push_back(seconds * 1e6 / launches);
        return us;
    }

    /// The launch's results. `us`: how long it took.
    std::vector<float> results(const Recording& recording, double& us) {
        write(true, std::vector<float>(floats_of(true), unwritten));
        us = run(recording, 1).front();
        std::vector<float> values(floats_of(true));
        download(device_, buffers_[true], std::as_writable_bytes(std::span(values)));
        return values;
    }

private:
    std::size_t floats_of(bool output) const { return buffers_[output].bytes() / sizeof(float); }
    void write(bool output, const std::vector<float>& values) {
        upload(device_, buffers_[output], std::as_bytes(std::span(values)));
    }

    Device& device_;
    Launch launch_;
    Buffer buffers_[2]; ///< inputs, outputs
};

double median(std::vector<double> values) {
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

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

std::vector<Measured> measure(Device& device, Choices& choices, const PlannedLaunch& planned,
                              std::span<const Candidate> candidates) {
    Bench bench(device, planned);
    const std::string key = key_of(*planned.launch);
    const auto before = choices.find(key) != choices.end() ? std::optional(choices[key]) : std::nullopt;
    const auto record_as = [&](const Candidate& candidate, unsigned launches) {
        choices[key] = {std::string(candidate.variant), candidate.config};
        const auto put_back = [&] {
            if (before)
                choices[key] = *before;
            else
                choices.erase(key);
        };
        try {
            Recording recording = bench.record(launches);
            put_back();
            return recording;
        } catch (...) {
            put_back();
            throw;
        }
    };

    std::vector<Measured> all(candidates.size());
    std::vector<Recording> recordings(candidates.size());
    const auto record = [&](std::size_t i, unsigned launches) {
        recordings[i].reset(); // and its scratch memory
        try {
            recordings[i] = record_as(candidates[i], launches);
        } catch (const OutOfMemory&) {
            if (i + 1 == all.size()) throw; // the others may need scratch memory that is not there
        } catch (const DeviceError&) {      // such as a pipeline that the driver cannot compile
        }
    };
    for (std::size_t i = all.size(); i-- > 0;) { // the plainest first
        all[i].candidate = candidates[i];
        record(i, 1);
    }
    if (!recordings.back()) return all;
    bench.fill_inputs(false);
    double first = 0;
    std::vector<float> expected = bench.results(recordings.back(), first);
    if (!all_finite(expected)) { // it may take roots or logarithms
        bench.fill_inputs(true);
        expected = bench.results(recordings.back(), first);
    }
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!recordings[i]) continue;
        all[i].error = error_of(bench.results(recordings[i], first), expected);
        all[i].right = all[i].error <= largest_error;
        all[i].us = first;
        if (first > long_us && first > hopeless * least) continue;
        bench.run(recordings[i], 1); // a device may measure or compile in a recording's first submissions
        all[i].us = bench.run(recordings[i], 1).front();
        if (all[i].right) least = std::min(least, *all[i].us);
    }
    const auto launches =
        unsigned(std::clamp(least_seconds * 1e6 / std::max(least, 1.0), 1.0, double(most_launches)));
    std::vector<std::vector<double>> us(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!all[i].right || (*all[i].us > long_us && *all[i].us > hopeless * least)) {
            recordings[i].reset();
        } else if (launches > 1) {
            record(i, launches);
            if (!recordings[i]) all[i].us.reset();
        }
    }
    for (unsigned round = 0; round < rounds + 2; ++round) // the first two warm up
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (!recordings[i]) continue;
            const std::vector<double> measured = bench.run(recordings[i], launches);
            if (round >= 2) us[i].insert(us[i].end(), measured.begin(), measured.end());
        }
    for (std::size_t i = 0; i < all.size(); ++i)
        if (!us[i].empty()) all[i].us = median(us[i]);
    return all;
}

} // namespace towers
