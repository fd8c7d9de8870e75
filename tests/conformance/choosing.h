// A device that runs launches as a test chooses.
#pragma once

#include "backends/launch/quads.h"
#include "tests/conformance/conv2d_trials.h"

#include <memory>
#include <set>
#include <string>

namespace towers::test {

/// Of Winograd's convolutions: sums of pixels and of weights, multiplied by up to 1/90 and 21, round before
/// they are multiplied with each other. Measured here: 4e-7 to 4e-6, with F(4x4, 5x5) the most.
constexpr double winograd_tolerance = 8e-6;
constexpr const char* winograd_name = "Winograd";
/// Of float32 operands by fragments, each two bf16 numbers: 16 bits and the sign of what is left, without the
/// product of the two rests. Measured on a card: 4e-6 to 8e-6.
constexpr double two_parts_tolerance = 8e-6;

/// Of sums by matrix units, of operands that they round
constexpr double units_tolerance = 2e-5;

inline bool is_by_fragments(const Candidate& candidate) { return towers::is_by_fragments(candidate.variant); }

inline double tolerance_of(const Candidate& candidate) {
    if (candidate.variant == winograd_name) return winograd_tolerance;
    if (!is_by_fragments(candidate)) return default_tolerance;
    return candidate.config.operands == Precision::fp32 ? two_parts_tolerance : units_tolerance;
}

struct Choosing {
    Choices choices;
    std::unique_ptr<Device> device;
    /// If given: ways of launches that with_each() leaves out, and to which it adds those that it runs.
    std::set<std::string>* tried = nullptr;

    Choosing(const std::string& id, OpenOptions options) {
        options.choices = &choices;
        device = open_device(id, options);
    }
    Choosing(const std::string& id, Sources sources)
        : Choosing(id, [sources] {
              OpenOptions options = open_options();
              options.sources = sources;
              return options;
          }()) {}

    /// Calls run(candidate) with each of the launch's candidates chosen, and shows that it is. `variant`:
    /// only those of this name. Returns how many there are.
    template<class Function>
    unsigned with_each(const Launch& launch, Function run, std::string_view variant = {}) {
        choices.clear();
        unsigned count = 0;
        for (const Candidate& candidate : device->candidates(launch)) {
            if (!variant.empty() && candidate.variant != variant) continue;
            const std::string way = to_string(candidate.variant, candidate.config);
            if (tried != nullptr &&
                !tried->insert(fmt::format("{}: {}, {}", key_of(launch), way, candidate.config.groups.x))
                     .second)
                continue;
            choices = {{key_of(launch), {std::string(candidate.variant), candidate.config}}};
            INFO(way);
            CHECK(variant_of(*device, launch) == candidate.variant);
            run(candidate);
            ++count;
        }
        choices.clear();
        return count;
    }
};

/// How much less exact sums are than their terms: what cancels takes digits away. Ignores what is not finite.
double cancelling(const reference::Values& terms, const reference::Values& sums);

/// All three passes of a convolution with each candidate, or with those of one variant. Returns how many ways
/// there were to compute it.
unsigned check_every_candidate(Choosing& on, const ConvShape& s, bool bias = true,
                               std::string_view variant = {}, const Kernels& kernels = general);

OpenOptions options_in(Precision precision, Sources sources = Sources::best, bool round_operands = false);

/// As what a device's matrix units are tested: a software driver's if it were a card.
inline std::vector<Sources> sources_of_units(const std::string& id) {
    if (device(id).info().kind != DeviceKind::software) return {Sources::best};
    return {Sources::cards, Sources::nvidia_cards};
}

/// Whether a way to compute a product rounds its operands, if only to two parts.
inline bool rounds(const Candidate& way) {
    return way.config.operands != Precision::fp32 || is_by_fragments(way);
}

/// Calls run(device that chooses, precision) for each device and precision in which it has ways that round,
/// also for a CPU that only rounds.
template<class Function>
void with_each_rounding(Function run) {
    const Launch launch = forward_of(general, reference::same_conv(2, 8, 8, 32, 3, 3, 1, 32), true);
    for (const std::string& id : device_ids())
        for (const Precision precision : all_precisions)
            for (const Sources sources : sources_of_units(id))
                for (const bool only_rounds : {false, true}) {
                    if (only_rounds && device(id).info().kind != DeviceKind::cpu) continue;
                    INFO("on ", id, " in ", std::string(name_of(precision)),
                         std::string(only_rounds ? ", only rounded" : ""),
                         std::string(sources == Sources::nvidia_cards ? ", as on NVIDIA's" : ""));
                    Choosing on(id, options_in(precision, sources, only_rounds));
                    if (std::ranges::any_of(on.device->candidates(launch), rounds)) run(on, precision);
                }
}

/// Each device that is not a CPU, opened with the variants for cards
template<class Function>
void on_every_card(Function function) {
    for (const std::string& id : device_ids()) {
        const DeviceKind kind = device(id).info().kind;
        if (kind == DeviceKind::cpu) continue;
        INFO("on ", id);
        Choosing on(id, kind == DeviceKind::software ? Sources::cards : Sources::best);
        function(on);
    }
}

} // namespace towers::test
