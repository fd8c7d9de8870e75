// The kernels of one device as compute pipelines, built when first needed and cached on disk.
#pragma once

#include "backends/vulkan/headers.h"

#include "backends/vulkan/dispatch.h"

#include <filesystem>
#include <map>
#include <tuple>
#include <vector>

namespace towers::vulkan {

class Pipelines {
public:
    /// `cache`: the file that keeps the driver's compiled code between runs; empty: none.
    Pipelines(const vk::raii::PhysicalDevice& physical, const vk::raii::Device& device,
              std::filesystem::path cache, vk::PipelineCreateFlags flags = {});
    ~Pipelines();

    /// Every kernel takes its parameter block as push constants.
    vk::PipelineLayout layout() const { return *layout_; }

    /// Throws vk::SystemError.
    vk::Pipeline pipeline(const Dispatch& dispatch);

private:
    const vk::raii::Device& device_;
    bool keeps_nan_; ///< whether shaders may request it
    std::filesystem::path cache_file_;
    vk::PipelineCreateFlags flags_;
    std::size_t cached_bytes_ = 0;
    vk::raii::PipelineCache cache_ = nullptr;
    vk::raii::PipelineLayout layout_ = nullptr;
    /// By shader, specialization constants and the subgroup size asked for
    std::map<std::tuple<const std::uint32_t*, std::vector<std::uint32_t>, unsigned>, vk::raii::Pipeline>
        pipelines_;
};

/// Where this device's compiled pipelines are kept: in the user's cache folder, one file per driver version.
std::filesystem::path pipeline_cache_file(const vk::raii::PhysicalDevice& device);

} // namespace towers::vulkan
