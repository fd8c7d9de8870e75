#include "backends/vulkan/pipelines.h"

#include "backends/cache.h"
#include "backends/driver_call.h"

#include <fmt/format.h>

namespace towers::vulkan {

std::filesystem::path pipeline_cache_file(const vk::raii::PhysicalDevice& device) {
    const std::filesystem::path folder = cache_folder();
    if (folder.empty()) return {};
    const vk::PhysicalDeviceProperties properties = device.getProperties();
    std::string uuid;
    for (const std::uint8_t byte : properties.pipelineCacheUUID) uuid += fmt::format("{:02x}", byte);
    return folder / fmt::format("pipelines-{:x}-{:x}-{}.bin", properties.vendorID, properties.deviceID, uuid);
}

Pipelines::Pipelines(const vk::raii::PhysicalDevice& physical, const vk::raii::Device& device,
                     std::filesystem::path cache, vk::PipelineCreateFlags flags)
    : device_(device),
      keeps_nan_(
          physical.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceFloatControlsProperties>()
              .get<vk::PhysicalDeviceFloatControlsProperties>()
              .shaderSignedZeroInfNanPreserveFloat32),
      cache_file_(std::move(cache)), flags_(flags) {
    const std::string cached = read_cached(cache_file_).value_or("");
    cached_bytes_ = cached.size();
    // The driver checks the data's header and ignores what another driver wrote.
    const vk::PipelineCacheCreateInfo info{.initialDataSize = cached.size(), .pInitialData = cached.data()};
    {
        const DriverCall call("vkCreatePipelineCache");
        cache_ = vk::raii::PipelineCache(device_, info);
    }
    const vk::PushConstantRange range{
        .stageFlags = vk::ShaderStageFlagBits::eCompute, .offset = 0, .size = ParameterBlock::capacity};
    layout_ = vk::raii::PipelineLayout(
        device_, vk::PipelineLayoutCreateInfo{.pushConstantRangeCount = 1, .pPushConstantRanges = &range});
}

Pipelines::~Pipelines() {
    // If the cache cannot be saved, only the next start is slower.
    try {
        const std::vector<std::uint8_t> data = cache_.getData();
        if (cache_file_.empty() || data.size() == cached_bytes_) return;
        write_cached(cache_file_, {reinterpret_cast<const char*>(data.data()), data.size()});
    } catch (const std::exception&) {
    }
}

vk::Pipeline Pipelines::pipeline(const Dispatch& dispatch) {
    const auto key = std::tuple(dispatch.code.data(), dispatch.constants, dispatch.subgroup_size);
    if (const auto found = pipelines_.find(key); found != pipelines_.end()) return *found->second;
    std::vector<vk::SpecializationMapEntry> entries;
    for (std::uint32_t i = 0; i < dispatch.constants.size(); ++i)
        entries.push_back({.constantID = i, .offset = i * 4, .size = 4});
    const vk::SpecializationInfo constants{.mapEntryCount = std::uint32_t(entries.size()),
                                           .pMapEntries = entries.data(),
                                           .dataSize = dispatch.constants.size() * 4,
                                           .pData = dispatch.constants.data()};
    std::vector<std::uint32_t> code(dispatch.code.begin(), dispatch.code.end());
    if (dispatch.bfloat16) code = as_bfloat16(code);
    if (keeps_nan_) code = keeping_nan(code);
    const vk::raii::ShaderModule module(
        device_, vk::ShaderModuleCreateInfo{.codeSize = code.size() * sizeof(code[0]), .pCode = code.data()});
    // SPIR-V 1.6 lets the driver choose the subgroup size. Lanes divide work by it, so subgroups must be
    // full. Other shaders do not request full subgroups, for which Turnip would double the subgroup size and
    // so halve the products' occupancy.
    const auto full = uses_subgroups(dispatch.code)
                          ? vk::PipelineShaderStageCreateFlagBits::eRequireFullSubgroups
                          : vk::PipelineShaderStageCreateFlags();
    const vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo size{.requiredSubgroupSize =
                                                                         dispatch.subgroup_size};
    const vk::PipelineShaderStageCreateInfo stage{.pNext = dispatch.subgroup_size != 0 ? &size : nullptr,
                                                  .flags = full,
                                                  .stage = vk::ShaderStageFlagBits::eCompute,
                                                  .module = *module,
                                                  .pName = "main",
                                                  .pSpecializationInfo = &constants};
    const DriverCall call("vkCreateComputePipelines");
    vk::raii::Pipeline pipeline(
        device_, cache_, vk::ComputePipelineCreateInfo{.flags = flags_, .stage = stage, .layout = *layout_});
    return *pipelines_.emplace(key, std::move(pipeline)).first->second;
}

} // namespace towers::vulkan
