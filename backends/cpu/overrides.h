// The variants of a CPU device: kernels of its own, better than the shared source compiled for the host.
#pragma once

#include "backends/cpu/host_memory.h"
#include "backends/launch/variants.h"

#include <dnnl.hpp>
#include <functional>

namespace towers {

/// A launch made ready to run.
using Work = std::function<void()>;

/// The context of overrides: oneDNN's handles, the number of threads for a launch, and scratch memory.
struct CpuContext {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    unsigned threads = 1;
    bool guarded = false; ///< whether memory has guards, for tests
    /// One for all launches, since a device runs one launch at a time; large enough for any of them.
    HostMemory scratch = {};
};

/// A launch's scratch memory: the end of the device's, where its guard is, if any.
class Scratch {
public:
    Scratch(CpuContext& context, std::size_t bytes);
    static Scratch of_floats(CpuContext& context, std::size_t count) {
        return {context, count * sizeof(float)};
    }
    std::byte* bytes() const;
    /// Only while a launch runs: the memory moves if a later launch needs more.
    float* floats() const { return reinterpret_cast<float*>(bytes()); }

private:
    const CpuContext* context_;
    std::size_t bytes_;
};

/// What the device runs a launch with.
struct CpuVariant : Variant {
    /// Makes the launch ready to run. `context` must outlive the work. Throws dnnl::error.
    Work (*prepare)(CpuContext& context, const Launch& launch, const LaunchConfig& config);
};

/// For variants that take every launch.
inline std::optional<LaunchConfig> take_all(const Launch&, const DeviceFacts&) { return LaunchConfig{}; }

/// All variants of a CPU device: the overrides below in this order, then the shared sources that the host's
/// compiler can read.
std::span<const CpuVariant> cpu_variants();

/// Whether conv2d_gemm.cpp takes a convolution that none of its forerunners takes: one of few pixels.
bool few_pixels(const ConvShape& shape);

/// The cost of a convolution's configurations: multiplications as oneDNN's convolutions do them, with or
/// without those of the padding.
double multiplications(const ConvShape& shape, bool without_padding);

/// DeviceInfo's, of this processor.
std::vector<Precision> native_units();

std::span<const CpuVariant> rounded_conv2d_overrides();
std::span<const CpuVariant> winograd_overrides();
std::span<const CpuVariant> implicit_gemm_overrides();
std::span<const CpuVariant> conv2d_gemm_overrides();
std::span<const CpuVariant> conv2d_overrides();
std::span<const CpuVariant> conv2d_weights_overrides();
std::span<const CpuVariant> max_pool_overrides();
std::span<const CpuVariant> lrn_overrides();
std::span<const CpuVariant> layer_norm_overrides();
std::span<const CpuVariant> average_pool_overrides();
std::span<const CpuVariant> channels_overrides();
std::span<const CpuVariant> dropout_overrides();
std::span<const CpuVariant> batch_norm_overrides();
std::span<const CpuVariant> batch_norm_backward_overrides();
std::span<const CpuVariant> reductions_overrides();
std::span<const CpuVariant> host_sources();

} // namespace towers
