// The CUDA runtime's functions, as NVIDIA documents them, on cards that processors emulate. What the
// documentation leaves undefined ends the program; what it refuses is refused.
#include "tests/emulated_cuda/runtime.h"
#include "tests/emulated_cuda/blocks.h"
#include "tests/emulated_cuda/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace emulated;

namespace {

constexpr int version = 13000; // of the runtime
constexpr std::size_t card_memory = std::size_t(2) << 30;

int card_count() { return int(visible_cards().size()); }

} // namespace

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

#define ERRORS(ENTRY)                                                                                        \
    ENTRY(cudaErrorInvalidValue, "invalid argument")                                                         \
    ENTRY(cudaErrorMemoryAllocation, "out of memory")                                                        \
    ENTRY(cudaErrorInvalidConfiguration, "invalid configuration argument")                                   \
    ENTRY(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")       \
    ENTRY(cudaErrorInvalidDeviceFunction, "invalid device function")                                         \
    ENTRY(cudaErrorNoDevice, "no CUDA-capable device is detected")                                           \
    ENTRY(cudaErrorInvalidDevice, "invalid device ordinal")                                                  \
    ENTRY(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered")                                  \
    ENTRY(cudaErrorInvalidResourceHandle, "invalid resource handle")                                         \
    ENTRY(cudaErrorNotReady, "device not ready")                                                             \
    ENTRY(cudaErrorIllegalAddress, "an illegal memory access was encountered")                               \
    ENTRY(cudaErrorLaunchTimeout, "the launch timed out and was terminated")                                 \
    ENTRY(cudaErrorLaunchFailure, "unspecified launch failure")                                              \
    ENTRY(cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver combination")  \
    ENTRY(cudaErrorCompatNotSupportedOnDevice, "forward compatibility was attempted on non supported HW")    \
    ENTRY(cudaErrorUnknown, "unknown error")

const char* cudaGetErrorName(cudaError_t error) {
#define ENTRY(name, text)                                                                                    \
    if (error == name) return #name;
    ERRORS(ENTRY)
#undef ENTRY
    return "cudaSuccess";
}

const char* cudaGetErrorString(cudaError_t error) {
#define ENTRY(name, text)                                                                                    \
    if (error == name) return text;
    ERRORS(ENTRY)
#undef ENTRY
    return "no error";
}

cudaError_t cudaDriverGetVersion(int* number) {
    BEGIN_FOR_NONE;
    *number = has_driver() ? claims().driver : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* number) {
    BEGIN_FOR_NONE;
    *number = version;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
    BEGIN_FOR_NONE;
    NEED(claims().driver >= version, cudaErrorInsufficientDriver);
    NEED(card_count() > 0, cudaErrorNoDevice);
    *count = card_count();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    NEED(device >= 0 && device < card_count(), cudaErrorInvalidDevice);
    BEGIN_FOR(device);
    *properties = {};
    const int card = visible_cards()[std::size_t(device)];
    name_of_card(card).copy(properties->name, sizeof properties->name - 1);
    uuid_of_card(claims().parts ? 0 : card).copy(properties->uuid.bytes, sizeof properties->uuid.bytes);
    properties->totalGlobalMem = card_memory;
    properties->warpSize = 32;
    properties->multiProcessorCount = 3;
    properties->major = claims().major;
    properties->minor = claims().minor;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    NEED(device >= 0 && device < card_count(), cudaErrorInvalidDevice);
    current = device;
    BEGIN;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
    BEGIN;
    *all = card_memory;
    *free = card_memory - used_memory(current);
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
    BEGIN;
    NEED(find_kernel(function) != nullptr, cudaErrorInvalidDeviceFunction);
    *attributes = {};
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
    BEGIN;
    NEED(bytes <= card_memory - used_memory(current), cudaErrorMemoryAllocation);
    const Region* const region = allocate(bytes, Space::device, current);
    NEED(region != nullptr, cudaErrorMemoryAllocation);
    *pointer = reinterpret_cast<void*>(region->address);
    return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
    BEGIN;
    const Region* const region = find_region(reinterpret_cast<std::uint64_t>(pointer));
    NEED(region != nullptr && region->address == reinterpret_cast<std::uint64_t>(pointer),
         cudaErrorInvalidValue);
    wait_for_device(held, region->device);
    release(*region);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
    BEGIN;
    const Region* const region = allocate(bytes, Space::mapped, current);
    NEED(region != nullptr, cudaErrorMemoryAllocation);
    *pointer = region->data;
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** pointer, void* host, unsigned) {
    BEGIN;
    const Region* const region = find_mapped(host);
    NEED(region != nullptr, cudaErrorInvalidValue);
    *pointer = reinterpret_cast<void*>(region->address + (static_cast<std::byte*>(host) - region->data));
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
    BEGIN;
    const Region* const region = find_mapped(pointer);
    NEED(region != nullptr && region->data == pointer, cudaErrorInvalidValue);
    for (int device = 0; device < card_count(); ++device) wait_for_device(held, device);
    release(*region);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    BEGIN;
    *stream = handle_of<cudaStream_t>(make_stream(current));
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    BEGIN;
    auto* const state = state_of<StreamState>(stream);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    wait_for(held, *state);
    handles.erase(state);
    destroy_stream(state);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    BEGIN;
    const auto* const state = state_of<StreamState>(stream);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    wait_for(held, *state);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    BEGIN;
    auto* const state = state_of<StreamState>(stream);
    const auto* const awaited = state_of<EventState>(event);
    NEED(state != nullptr && awaited != nullptr, cudaErrorInvalidResourceHandle);
    if (awaited->last) submit(*state, WaitForEvent{awaited->last});
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
    BEGIN;
    auto* const state = state_of<StreamState>(stream);
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    NEED(is_device_address(address), cudaErrorInvalidValue);
    submit(*state, Fill{address, bytes, value});
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    BEGIN;
    *event = handle_of<cudaEvent_t>(new EventState{.device = current, .flags = flags});
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    BEGIN;
    const auto* const state = state_of<EventState>(event);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    handles.erase(
        state); // its records may still be awaited; its address is not used again, so that misuse shows
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    BEGIN;
    auto* const recorded = state_of<EventState>(event);
    auto* const state = state_of<StreamState>(stream);
    NEED(recorded != nullptr && state != nullptr, cudaErrorInvalidResourceHandle);
    NEED(recorded->device == state->device, cudaErrorInvalidResourceHandle);
    recorded->last = std::make_shared<Record>();
    submit(*state, RecordEvent{recorded->last});
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    BEGIN;
    const auto* const state = state_of<EventState>(event);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    if (const std::shared_ptr<Record> record = state->last) wait_for(held, *record);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    BEGIN;
    const auto* const state = state_of<EventState>(event);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    NEED(!state->last || state->last->done, cudaErrorNotReady);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    BEGIN;
    const auto *const first = state_of<EventState>(start), *const last = state_of<EventState>(end);
    NEED(first != nullptr && last != nullptr && first->device == last->device,
         cudaErrorInvalidResourceHandle);
    NEED(first->last && last->last && ((first->flags | last->flags) & cudaEventDisableTiming) == 0,
         cudaErrorInvalidResourceHandle);
    NEED(first->last->done && last->last->done, cudaErrorNotReady);
    *milliseconds = std::chrono::duration<float, std::milli>(last->last->time - first->last->time).count();
    return cudaSuccess;
}
