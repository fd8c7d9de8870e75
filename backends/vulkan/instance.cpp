#include "backends/vulkan/instance.h"

#include "backends/driver_call.h"
#include "backends/vulkan/error.h"
#include "backends/vulkan/memory_types.h"
#include "backends/vulkan/requirements.h"
#include "backends/vulkan/vulkan_backend.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <optional>
#include <spdlog/spdlog.h>
#include <thread>

namespace towers {

namespace {
std::atomic<unsigned> messages = 0;
} // namespace

unsigned vulkan_validation_messages() { return messages; }

namespace vulkan {
namespace {

constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";

/// `told`: the loader's own words in parentheses, or nothing.
Absent no_device(const std::string& told = "") {
    return Absent(fmt::format("no Vulkan driver found a device{}; install one (a GPU's own, or "
                              "mesa-vulkan-drivers for Mesa's)",
                              told));
}

/// The loader's error where there is none, but maybe a driver's own
Absent no_device(const vk::SystemError& error) { return no_device(fmt::format(" ({})", message_of(error))); }

/// Vulkan-Hpp gives the callback C's types before version 1.4 and its own since.
template<class Severity, class Types, class Data>
VKAPI_ATTR VkBool32 VKAPI_CALL report(Severity, Types, const Data* data, void*) {
    ++messages;
    spdlog::error("Vulkan validation: {}", data->pMessage);
    return VK_FALSE;
}

Abilities abilities_of(const vk::raii::PhysicalDevice& device) {
    Abilities abilities;
    const vk::PhysicalDeviceProperties basic = device.getProperties();
    abilities.version = basic.apiVersion;
    if (abilities.version < VK_API_VERSION_1_3) return abilities; // the queries below need 1.3
    const auto families = device.getQueueFamilyProperties();
    abilities.compute_queue = std::any_of(families.begin(), families.end(), computes);
    const auto features = device.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan12Features,
                                              vk::PhysicalDeviceVulkan13Features>();
    const auto& features12 = features.get<vk::PhysicalDeviceVulkan12Features>();
    const auto& features13 = features.get<vk::PhysicalDeviceVulkan13Features>();
    abilities.buffer_device_address = features12.bufferDeviceAddress;
    abilities.timeline_semaphore = features12.timelineSemaphore;
    abilities.full_subgroups = features13.computeFullSubgroups;
    abilities.synchronization2 = features13.synchronization2;
    abilities.maintenance4 = features13.maintenance4;
    abilities.subgroup_basic = has_subgroups(device, vk::SubgroupFeatureFlagBits::eBasic);
    abilities.subgroup_arithmetic = has_subgroups(device, vk::SubgroupFeatureFlagBits::eArithmetic);
    abilities.workgroup_invocations = basic.limits.maxComputeWorkGroupInvocations;
    abilities.workgroup_width = basic.limits.maxComputeWorkGroupSize[0];
    abilities.shared_memory = basic.limits.maxComputeSharedMemorySize;
    abilities.push_constants = basic.limits.maxPushConstantsSize;
    return abilities;
}

DeviceKind kind_of(const vk::PhysicalDeviceProperties& properties) {
    switch (properties.deviceType) {
    case vk::PhysicalDeviceType::eIntegratedGpu:
        return DeviceKind::integrated_gpu;
    case vk::PhysicalDeviceType::eDiscreteGpu:
        return DeviceKind::discrete_gpu;
    case vk::PhysicalDeviceType::eVirtualGpu:
        return DeviceKind::virtual_gpu;
    case vk::PhysicalDeviceType::eCpu:
        return DeviceKind::software;
    default: // a layer over something unknown
        return DeviceKind::virtual_gpu;
    }
}

std::string vendor_name(std::uint32_t id) {
    switch (id) { // PCI-SIG's and Khronos's numbers
    case 0x1002:
        return "AMD";
    case 0x10DE:
        return std::string(nvidia);
    case 0x8086:
        return "Intel";
    case 0x13B5:
        return "ARM";
    case 0x5143:
        return "Qualcomm";
    case 0x106B:
        return "Apple";
    case 0x1AE0:
        return "Google";
    case VK_VENDOR_ID_MESA:
        return "Mesa";
    default:
        return fmt::format("vendor {:#06x}", id);
    }
}

bool controls_subgroup_size(const vk::raii::PhysicalDevice& device) {
    return device.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan13Features>()
        .get<vk::PhysicalDeviceVulkan13Features>()
        .subgroupSizeControl;
}

std::vector<vk::raii::PhysicalDevice> enumerate(const vk::raii::Instance& instance) {
    try {
        const DriverCall call("vkEnumeratePhysicalDevices");
        return instance.enumeratePhysicalDevices();
    } catch (const vk::InitializationFailedError& error) {
        throw no_device(error);
    }
}

} // namespace

Instance::Instance(bool validate) try {
    if (context_.enumerateInstanceVersion() < VK_API_VERSION_1_3)
        throw Absent("the Vulkan loader is older than 1.3; install libvulkan1 1.3 or newer");

    std::vector<const char*> layers, extensions;
    if (validate) {
        const auto available = context_.enumerateInstanceLayerProperties();
        if (std::none_of(available.begin(), available.end(), [](const auto& layer) {
                return layer.layerName == std::string_view(validation_layer);
            }))
            throw Absent("the Khronos validation layer is not installed; install vulkan-validationlayers");
        layers.push_back(validation_layer);
        extensions = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    }
    const vk::ApplicationInfo application{.pApplicationName = "towers", .apiVersion = VK_API_VERSION_1_3};
    const auto synchronization = vk::ValidationFeatureEnableEXT::eSynchronizationValidation;
    const vk::ValidationFeaturesEXT features{.enabledValidationFeatureCount = 1,
                                             .pEnabledValidationFeatures = &synchronization};
    std::optional<DriverCall> call(std::in_place, "vkCreateInstance");
    instance_ = vk::raii::Instance(
        context_, vk::InstanceCreateInfo{.pNext = validate ? &features : nullptr,
                                         .pApplicationInfo = &application,
                                         .enabledLayerCount = std::uint32_t(layers.size()),
                                         .ppEnabledLayerNames = layers.data(),
                                         .enabledExtensionCount = std::uint32_t(extensions.size()),
                                         .ppEnabledExtensionNames = extensions.data()});
    call.reset();
    if (validate)
        messenger_ = vk::raii::DebugUtilsMessengerEXT(
            instance_, vk::DebugUtilsMessengerCreateInfoEXT{
                           .messageSeverity = vk::DebugUtilsMessageSeverityFlagBitsEXT::eError |
                                              vk::DebugUtilsMessageSeverityFlagBitsEXT::eWarning,
                           .messageType = vk::DebugUtilsMessageTypeFlagBitsEXT::eValidation |
                                          vk::DebugUtilsMessageTypeFlagBitsEXT::ePerformance,
                           .pfnUserCallback = report});
    for (vk::raii::PhysicalDevice& device : enumerate(instance_))
        if (std::string lacks = missing(abilities_of(device)); lacks.empty())
            devices_.push_back(std::move(device));
        else
            left_out_.push_back({device.getProperties().deviceName.data(), std::move(lacks)});
    if (devices_.empty() && left_out_.empty()) throw no_device();
} catch (const vk::IncompatibleDriverError& error) {
    throw no_device(error);
} catch (const vk::SystemError& error) {
    throw DriverFailure(message_of(error));
} catch (const std::runtime_error& error) {
    if (dynamic_cast<const Absent*>(&error) != nullptr) throw;
    throw Absent("the Vulkan loader (libvulkan.so.1) is not installed");
}

const Drivers& Instance::drivers() {
    static const Drivers drivers = leave_out_failing_drivers([] {
        try { // everything that list() asks of the drivers
            const Instance instance(false);
            for (unsigned i = 0; i < instance.devices().size(); ++i)
                describe(instance, i, details_of(instance, i));
            return true;
        } catch (const DriverFailure&) {
            throw;
        } catch (const Absent&) {
            return false;
        }
    });
    return drivers;
}

std::shared_ptr<const Instance> Instance::shared(bool validate) {
    if (!drivers().failure.empty()) throw Absent(drivers().failure);
    static std::mutex mutex;
    static std::weak_ptr<const Instance> last[2];
    const std::lock_guard lock(mutex);
    std::shared_ptr<const Instance> instance = last[validate].lock();
    if (!instance) {
        instance = std::make_shared<Instance>(validate);
        last[validate] = instance;
    }
    return instance;
}

bool computes(const vk::QueueFamilyProperties& family) {
    return bool(family.queueFlags & vk::QueueFlagBits::eCompute);
}

std::uint32_t compute_family(const vk::raii::PhysicalDevice& device) {
    const auto families = device.getQueueFamilyProperties();
    return std::uint32_t(std::find_if(families.begin(), families.end(), computes) - families.begin());
}

std::array<QueuePlace, queue_count> queue_places(const vk::raii::PhysicalDevice& device) {
    using Flag = vk::QueueFlagBits;
    const auto families = device.getQueueFamilyProperties();
    const std::uint32_t compute = compute_family(device);
    const auto find = [&](vk::QueueFlags wanted, vk::QueueFlags others) {
        return std::find_if(families.begin(), families.end(), [&](const auto& family) {
            return &family != &families[compute] && (family.queueFlags & wanted) == wanted &&
                   !(family.queueFlags & ~(wanted | others));
        });
    };
    const vk::QueueFlags harmless = Flag::eSparseBinding | Flag::eProtected;
    auto copying = find(Flag::eTransfer, harmless);
    if (copying == families.end()) copying = find(Flag::eCompute, harmless | Flag::eTransfer);
    const bool beside = copying == families.end(); // copies share the kernels' family
    const auto copies = beside ? compute : std::uint32_t(copying - families.begin());
    const auto place = [&](std::uint32_t index) {
        return QueuePlace{copies, std::min(index, families[copies].queueCount - 1)};
    };
    return {QueuePlace{compute, 0}, place(beside ? 1 : 0), place(beside ? 2 : 1)};
}

vk::raii::Device create_device(const vk::raii::PhysicalDevice& device, const Matrices& matrices,
                               const void* next, std::vector<const char*> extensions) {
    const MatrixFeatures units(matrices, next);
    extensions.insert(extensions.end(), units.extensions().begin(), units.extensions().end());
    const bool uses_units = !units.extensions().empty();
    const std::array<float, queue_count> priorities{1.0f, 1.0f, 1.0f};
    std::map<std::uint32_t, std::uint32_t> counts; // by family
    for (const QueuePlace& place : queue_places(device))
        counts[place.family] = std::max(counts[place.family], place.index + 1);
    std::vector<vk::DeviceQueueCreateInfo> queues;
    for (const auto& [family, count] : counts)
        queues.push_back(
            {.queueFamilyIndex = family, .queueCount = count, .pQueuePriorities = priorities.data()});
    vk::PhysicalDeviceVulkan13Features features13{.pNext = const_cast<void*>(units.chain()),
                                                  .subgroupSizeControl = controls_subgroup_size(device),
                                                  .computeFullSubgroups = true,
                                                  .synchronization2 = true,
                                                  .maintenance4 = true};
    // requirements.h does not check hostQueryReset: every device of Vulkan 1.2 has it.
    const vk::PhysicalDeviceVulkan12Features features12{
        .pNext = &features13,
        .shaderFloat16 = uses_units && has_operands(matrices, Precision::fp16),
        .hostQueryReset = true,
        .timelineSemaphore = true,
        .bufferDeviceAddress = true,
        .vulkanMemoryModel = uses_units};
    const DriverCall call("vkCreateDevice");
    return {device, vk::DeviceCreateInfo{.pNext = &features12,
                                         .queueCreateInfoCount = std::uint32_t(queues.size()),
                                         .pQueueCreateInfos = queues.data(),
                                         .enabledExtensionCount = std::uint32_t(extensions.size()),
                                         .ppEnabledExtensionNames = extensions.data()}};
}

bool has_subgroups(const vk::raii::PhysicalDevice& device, vk::SubgroupFeatureFlags operations) {
    const auto subgroups =
        device.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceSubgroupProperties>()
            .get<vk::PhysicalDeviceSubgroupProperties>();
    return (subgroups.supportedStages & vk::ShaderStageFlagBits::eCompute) &&
           (subgroups.supportedOperations & operations) == operations;
}

Details details_of(const Instance& instance, unsigned index) {
    const vk::raii::PhysicalDevice& device = instance.devices()[index];
    const auto chain =
        device.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceSubgroupProperties,
                              vk::PhysicalDeviceSubgroupSizeControlProperties,
                              vk::PhysicalDeviceShaderIntegerDotProductProperties>();
    const auto& sizes = chain.get<vk::PhysicalDeviceSubgroupSizeControlProperties>();
    return {.shuffles = has_subgroups(device, vk::SubgroupFeatureFlagBits::eShuffle),
            .shared_memory =
                chain.get<vk::PhysicalDeviceProperties2>().properties.limits.maxComputeSharedMemorySize,
            .subgroups = {.usual = chain.get<vk::PhysicalDeviceSubgroupProperties>().subgroupSize,
                          .least = sizes.minSubgroupSize,
                          .most = sizes.maxSubgroupSize,
                          .on_request = controls_subgroup_size(device) && (sizes.requiredSubgroupSizeStages &
                                                                           vk::ShaderStageFlagBits::eCompute),
                          .most_subgroups = sizes.maxComputeWorkgroupSubgroups,
                          .mixed_dot_products =
                              bool(chain.get<vk::PhysicalDeviceShaderIntegerDotProductProperties>()
                                       .integerDotProduct4x8BitPackedMixedSignednessAccelerated)},
            .matrices = matrices_of(instance.handle(), device)};
}

namespace {

/// Which only the vendors' extensions tell; 0: none does.
unsigned multiprocessors_of(const vk::raii::PhysicalDevice& device) {
    const std::vector<vk::ExtensionProperties> extensions = device.enumerateDeviceExtensionProperties();
    const auto properties = [&]<class Properties>(const char* extension) -> std::optional<Properties> {
        const bool there = std::ranges::any_of(extensions, [&](const vk::ExtensionProperties& each) {
            return std::string_view(each.extensionName.data()) == extension;
        });
        if (!there) return {};
        return device.getProperties2<vk::PhysicalDeviceProperties2, Properties>().template get<Properties>();
    };
    if (const auto nv = properties.operator()<vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV>(
            VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        return nv->shaderSMCount;
    if (const auto amd = properties.operator()<vk::PhysicalDeviceShaderCoreProperties2AMD>(
            VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME))
        return amd->activeComputeUnitCount;
    if (const auto arm = properties.operator()<vk::PhysicalDeviceShaderCoreBuiltinsPropertiesARM>(
            VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME))
        return arm->shaderCoreCount;
    return 0;
}

} // namespace

DeviceInfo describe(const Instance& instance, unsigned index, const Details& details) {
    const vk::raii::PhysicalDevice& device = instance.devices()[index];
    const auto chain =
        device.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceIDProperties,
                              vk::PhysicalDeviceDriverProperties, vk::PhysicalDeviceSubgroupProperties,
                              vk::PhysicalDeviceMaintenance3Properties,
                              vk::PhysicalDeviceMaintenance4Properties>();
    const vk::PhysicalDeviceProperties& properties = chain.get<vk::PhysicalDeviceProperties2>().properties;
    const auto& driver = chain.get<vk::PhysicalDeviceDriverProperties>();
    DeviceInfo info;
    info.id = fmt::format("vulkan:{}", index);
    info.name = properties.deviceName.data();
    info.vendor = vendor_name(properties.vendorID);
    const std::string_view release = driver.driverInfo.data(); // SwiftShader gives none
    info.driver = fmt::format("{}{}{}", driver.driverName.data(), release.empty() ? "" : " ", release);
    const auto& uuid = chain.get<vk::PhysicalDeviceIDProperties>().deviceUUID;
    std::copy(uuid.begin(), uuid.end(), info.uuid.begin());
    info.kind = kind_of(properties);
    const vk::PhysicalDeviceMemoryProperties memory = device.getMemoryProperties();
    info.memory = memory.memoryHeaps[memory.memoryTypes[choose_memory_types(memory).device].heapIndex].size;
    info.largest_allocation =
        std::min(chain.get<vk::PhysicalDeviceMaintenance3Properties>().maxMemoryAllocationSize,
                 chain.get<vk::PhysicalDeviceMaintenance4Properties>().maxBufferSize);
    const auto places = queue_places(device);
    info.queues = 0;
    for (auto place = places.begin(); place != places.end(); ++place)
        info.queues += std::find(places.begin(), place, *place) == place;
    info.subgroup_size = chain.get<vk::PhysicalDeviceSubgroupProperties>().subgroupSize;
    info.compute_units =
        info.kind == DeviceKind::software ? std::thread::hardware_concurrency() : multiprocessors_of(device);
    if (info.kind == DeviceKind::software) return info; // whose matrices are loops
    const std::vector<Precision> units = units_of(details);
    if (has_fragment_sources) info.units = units;
    info.unused_units = !has_fragment_sources && !units.empty();
    return info;
}

} // namespace vulkan
} // namespace towers
