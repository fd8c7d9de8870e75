#include "backends/cpu/onednn_conv2d.h"
#include "backends/cpu/processor.h"

// Convolutions and dense layers whose factors are rounded, by oneDNN: on units for bfloat16, or only rounded,
// for a device that shows a precision's effect.

namespace towers {
namespace {

template<auto work, bool units>
Work prepare(CpuContext& context, const Launch& launch, const LaunchConfig& config) {
    return work(context, launch, {config.operands, units});
}

template<class Params>
std::optional<LaunchConfig> rounding_config(const Launch& launch, const DeviceFacts& facts) {
    if (!facts.round_operands || facts.precision == Precision::fp32) return {};
    LaunchConfig config = *onednn_config<Params>(launch, facts);
    config.operands = facts.precision;
    return config;
}

/// Whether the processor multiplies bfloat16 natively, and faster than float32.
struct Units {
    bool has = false;
    uint whole = 0; ///< channels of which a multiple fills its registers
};
Units units() {
    static const Units found = [] {
        const auto isa = unsigned(dnnl::get_effective_cpu_isa());
        const auto has = [isa](dnnl::cpu_isa wanted) { return (isa & unsigned(wanted)) == unsigned(wanted); };
        return Units{has(dnnl::cpu_isa::avx512_core_amx) ||
                         (has(dnnl::cpu_isa::avx512_core_bf16) && this_processor().vendor == "AuthenticAMD"),
                     has(dnnl::cpu_isa::avx512_core_amx) ? 32u : 16u};
    }();
    return found;
}

/// Shapes for which oneDNN's code for bfloat16 is as well tried as that for float32. Left out is what its
/// users report: strides of 3 (github.com/pytorch/pytorch/issues/169688), single channels (163347), and
/// channels that do not fill its registers, with which a NaN passes into other rows
/// (github.com/uxlfoundation/oneDNN/issues/5717). And what the tests found: of kernels larger than the image,
/// version 2.6 leaves gradients of weights unwritten.
bool units_take(const ConvShape& s) {
    const uint whole = units().whole;
    return units().has && s.groups == 1 && s.stride_y <= 2 && s.stride_x <= 2 && s.dilation_y == 1 &&
           s.dilation_x == 1 && s.kernel_height <= s.in_height && s.kernel_width <= s.in_width &&
           s.in_channels % whole == 0 && s.out_channels % whole == 0;
}

/// In multiplications of float32; of a product that rounds so many activations
double cost(const ConvShape& s, double activations) {
    constexpr double of_product = 0.53, of_rounding = 6; // measured on Zen 4
    return of_product * multiplications(s, false) + of_rounding * activations;
}
double inputs(const ConvShape& s) { return double(s.batch) * s.in_height * s.in_width * s.in_channels; }
double outputs(const ConvShape& s) { return double(s.batch) * s.out_height * s.out_width * s.out_channels; }
/// The activations among a pass's factors
double factors(const Conv2dForwardParams& p) { return inputs(p.shape); }
double factors(const Conv2dBackwardDataParams& p) { return outputs(p.shape); }
double factors(const Conv2dBackwardWeightsParams& p) { return inputs(p.shape) + outputs(p.shape); }

template<class Params>
std::vector<LaunchConfig> units_configs(const Launch& launch, const DeviceFacts& facts) {
    const auto p = launch.parameters.as<Params>();
    if (facts.precision != Precision::bf16 || !units_take(p.shape)) return {};
    return {{.operands = Precision::bf16, .cost = cost(p.shape, factors(p))}};
}

/// Where it is the cheapest.
template<class Params>
std::optional<LaunchConfig> units_config(const Launch& launch, const DeviceFacts& facts) {
    const std::vector<LaunchConfig> configs = units_configs<Params>(launch, facts);
    if (configs.empty()) return {};
    DeviceFacts in_float32 = facts;
    in_float32.precision = Precision::fp32;
    in_float32.choices = nullptr;
    const bool cheapest = configs.front().cost < choose(cpu_variants(), launch, in_float32).config.cost;
    return cheapest ? std::optional(configs.front()) : std::nullopt;
}

template<class Params>
constexpr Variant on_units(Kernel kernel) {
    return {kernel, "oneDNN on 16-bit units", units_config<Params>, units_configs<Params>};
}
template<class Params>
constexpr Variant only_rounded(Kernel kernel) {
    return {kernel, "oneDNN after rounding", rounding_config<Params>};
}

} // namespace

std::vector<Precision> native_units() {
    return units().has ? std::vector<Precision>{Precision::bf16} : std::vector<Precision>();
}

std::span<const CpuVariant> rounded_conv2d_overrides() {
    static constexpr CpuVariant overrides[] = {
        {only_rounded<Conv2dForwardParams>(Kernel::conv2d_forward), prepare<towers::conv2d_forward, false>},
        {only_rounded<Conv2dBackwardDataParams>(Kernel::conv2d_backward_data),
         prepare<towers::conv2d_backward_data, false>},
        {only_rounded<Conv2dBackwardWeightsParams>(Kernel::conv2d_backward_weights),
         prepare<towers::conv2d_backward_weights, false>},
        {on_units<Conv2dForwardParams>(Kernel::conv2d_forward), prepare<towers::conv2d_forward, true>},
        {on_units<Conv2dBackwardDataParams>(Kernel::conv2d_backward_data),
         prepare<towers::conv2d_backward_data, true>},
        {on_units<Conv2dBackwardWeightsParams>(Kernel::conv2d_backward_weights),
         prepare<towers::conv2d_backward_weights, true>}};
    return overrides;
}

} // namespace towers
