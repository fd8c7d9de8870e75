#include "backends/vulkan/compiler.h"

#include "backends/vulkan/error.h"
#include "backends/vulkan/instance.h"
#include "backends/vulkan/pipelines.h"

#include <fmt/format.h>
#include <optional>

namespace towers::vulkan {
namespace {

constexpr const char* statistics_extension = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;

double number(const vk::PipelineExecutableStatisticKHR& statistic) {
    switch (statistic.format) {
    case vk::PipelineExecutableStatisticFormatKHR::eBool32:
        return statistic.value.b32;
    case vk::PipelineExecutableStatisticFormatKHR::eInt64:
        return double(statistic.value.i64);
    case vk::PipelineExecutableStatisticFormatKHR::eUint64:
        return double(statistic.value.u64);
    case vk::PipelineExecutableStatisticFormatKHR::eFloat64:
        return statistic.value.f64;
    }
    return 0;
}

} // namespace

struct Compiler::State {
    std::shared_ptr<const Instance> instance = Instance::shared(false);
    DeviceInfo info;
    std::map<std::string, Dispatch> dispatches;
    vk::raii::Device device = nullptr;
    std::optional<Pipelines> pipelines;
    bool tells_statistics = false;

    explicit State(unsigned index) {
        if (index >= instance->devices().size()) throw DeviceError("there is no such Vulkan device");
        const vk::raii::PhysicalDevice& physical = instance->devices()[index];
        const Details details = details_of(*instance, index);
        info = describe(*instance, index, details);
        dispatches = all_hardware_dispatches(facts_of(info, details, {}));
        for (const vk::ExtensionProperties& extension : physical.enumerateDeviceExtensionProperties())
            tells_statistics |= extension.extensionName == std::string_view(statistics_extension);

        const vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics{.pipelineExecutableInfo =
                                                                                       true};
        if (tells_statistics) {
            device = create_device(physical, details.matrices, &statistics, {statistics_extension});
            pipelines.emplace(physical, device, "", vk::PipelineCreateFlagBits::eCaptureStatisticsKHR);
        } else {
            device = create_device(physical, details.matrices);
            pipelines.emplace(physical, device, "");
        }
    }
};

Compiler::Compiler(unsigned device_index) try : state_(std::make_unique<State>(device_index)) {
} catch (const vk::SystemError& error) {
    throw DeviceError(fmt::format("opening the device: {}", message_of(error)));
}
Compiler::~Compiler() = default;

const DeviceInfo& Compiler::device() const { return state_->info; }

std::vector<std::string> Compiler::pipelines() const {
    std::vector<std::string> names;
    for (const auto& [name, dispatch] : state_->dispatches) names.push_back(name);
    return names;
}

std::vector<Executable> Compiler::compile(const std::string& pipeline) try {
    const vk::Pipeline compiled = state_->pipelines->pipeline(state_->dispatches.at(pipeline));
    if (!state_->tells_statistics) return {};
    std::vector<Executable> all;
    for (const auto& each : state_->device.getPipelineExecutablePropertiesKHR({.pipeline = compiled})) {
        Executable executable{each.name.data(), each.subgroupSize, {}};
        const vk::PipelineExecutableInfoKHR info{.pipeline = compiled,
                                                 .executableIndex = std::uint32_t(all.size())};
        for (const auto& statistic : state_->device.getPipelineExecutableStatisticsKHR(info))
            executable.statistics[statistic.name.data()] = number(statistic);
        all.push_back(std::move(executable));
    }
    return all;
} catch (const vk::SystemError& error) {
    throw DeviceError(fmt::format("compiling {}: {}", pipeline, message_of(error)));
}

} // namespace towers::vulkan
