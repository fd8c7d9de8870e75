#include "backends/cuda/cuda_backend.h"

#include "backends/block_pool.h"
#include "backends/cuda/architectures.h"
#include "backends/cuda/functions.h"
#include "backends/cuda/graph.h"
#include "backends/driver_call.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <fstream>
#include <map>

namespace towers {
namespace cuda {
namespace {

// The oldest architecture that cmake/Cuda.cmake builds for
constexpr int least_major = 7, least_minor = 5;

// The runtime returns the time between events as a float, which is exact to less than a microsecond only for
// short times.
constexpr double most_seconds_from_origin = 4;

// Waiting threads sleep, to leave the processors to CPU towers and the averaging.
constexpr unsigned wait_event = cudaEventDisableTiming | cudaEventBlockingSync;

void* allocate_on_device(std::size_t bytes) {
    void* pointer = nullptr;
    const DriverCall call("cudaMalloc");
    check(cudaMalloc(&pointer, bytes));
    return pointer;
}

void* allocate_on_host(std::size_t bytes) {
    void* pointer = nullptr;
    const DriverCall call("cudaHostAlloc");
    check(cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    return pointer;
}

/// Both cudaFree() and cudaFreeHost() wait for all that runs on the card.
struct CudaAllocation : Allocation {
    BlockPool& pool;
    void* const block;
    CudaAllocation(BlockPool& from, std::size_t size) : pool(from), block(from.take(size)) { bytes = size; }
    CudaAllocation(const CudaAllocation&) = delete;
    CudaAllocation& operator=(const CudaAllocation&) = delete;
    ~CudaAllocation() override { pool.give_back(block, bytes); }
};

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::array<std::uint8_t, 16> uuid_of(const cudaDeviceProp& properties) {
    std::array<std::uint8_t, 16> uuid;
    std::memcpy(uuid.data(), properties.uuid.bytes, uuid.size());
    return uuid;
}

/// What mma.sync multiplies on a card of this compute capability, as the sources by fragments were compiled
std::vector<Precision> units_of(int major, int minor) {
    const int architecture = architecture_for(TOWERS_CUDA_ARCHITECTURES, major, minor);
    if (architecture < 80) return {Precision::fp16};
    return {Precision::tf32, Precision::bf16, Precision::fp16};
}

DeviceInfo describe(const cudaDeviceProp& properties, unsigned index) {
    DeviceInfo info;
    info.id = fmt::format("cuda:{}", index);
    info.name = properties.name;
    info.vendor = nvidia;
    int supported = 0;
    check(cudaDriverGetVersion(&supported));
    std::string release; // of the kernel module, if the system tells it
    std::ifstream("/sys/module/nvidia/version") >> release;
    info.driver =
        fmt::format("NVIDIA {}{}CUDA {}, compute capability {}.{}", release, release.empty() ? "" : ", ",
                    version(supported), properties.major, properties.minor);
    info.uuid = uuid_of(properties);
    info.kind = properties.integrated != 0 ? DeviceKind::integrated_gpu : DeviceKind::discrete_gpu;
    info.memory = properties.totalGlobalMem;
    info.subgroup_size = unsigned(properties.warpSize);
    info.queues = queue_count; // a stream each
    info.compute_units = unsigned(properties.multiProcessorCount);
    info.units = units_of(properties.major, properties.minor);
    return info;
}

struct Found {
    int ordinal; ///< as the runtime counts
    cudaDeviceProp properties;
};

struct Search {
    std::vector<Found> devices; ///< that can run the kernels, in the runtime's order
    std::string absence = {};   ///< why there are none
    std::vector<Backend::LeftOut> left_out = {};
};

Search find_devices() {
    int driver = 0, runtime = 0, count = 0;
    {
        const DriverCall call("cudaDriverGetVersion"); // which loads the driver
        check(cudaDriverGetVersion(&driver));
        check(cudaRuntimeGetVersion(&runtime));
    }
    if (driver == 0) {
        return {{}, "no NVIDIA driver is installed (libcuda.so.1)"};
    }
    const DriverCall call("cudaGetDeviceCount");
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver) {
        cudaGetLastError();
        return {
            {},
            fmt::format("the NVIDIA driver is for CUDA {0}, this program needs {1}; update the driver, or "
                        "build with the CUDA Toolkit {0}",
                        version(driver), version(runtime))};
    }
    if (error == cudaErrorNoDevice) {
        cudaGetLastError();
        return {{}, "the NVIDIA driver shows no GPU; if there is one, check CUDA_VISIBLE_DEVICES"};
    }
    check(error);
    Search search;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        Found found{ordinal, {}};
        check(cudaGetDeviceProperties(&found.properties, ordinal));
        const int major = found.properties.major, minor = found.properties.minor;
        const auto leave_out = [&](const std::string& reason) {
            search.left_out.push_back(
                {found.properties.name,
                 fmt::format("its compute capability is {}.{}, {}", major, minor, reason),
                 uuid_of(found.properties)});
        };
        if (std::pair(major, minor) < std::pair(least_major, least_minor))
            leave_out(fmt::format("but {}.{} is needed", least_major, least_minor));
        else if (!cuda::runs_on(TOWERS_CUDA_ARCHITECTURES, major, minor))
            leave_out("and this program was built for " TOWERS_CUDA_ARCHITECTURES
                      "; build it with TOWERS_CUDA=ON, for all cards");
        else
            search.devices.push_back(found);
    }
    if (search.devices.empty()) search.absence = "no GPU has what the kernels need";
    return search;
}

DeviceFacts facts_of(const DeviceInfo& info, const OpenOptions& options) {
    Fragments fragments;
    if (options.sources != Sources::shared)
        for (const Precision each : info.units) fragments.operands |= units_for(each);
    // Two workgroups for each multiprocessor: one hides the other's waits.
    return {.busy_groups = 2 * info.compute_units,
            .subgroup_size = info.subgroup_size,
            .exact_products = options.exact_products,
            .precision = options.precision,
            .quads = options.sources != Sources::shared,
            .fragments = fragments,
            .shared_memory = 48 << 10, // of every card, without asking for more
            .limits = options.limits,
            .choices = options.choices};
}

class CudaDevice final : public Device {
public:
    CudaDevice(int ordinal, DeviceInfo info, const OpenOptions& options)
        : ordinal_(ordinal), info_(std::move(info)), facts_(facts_of(info_, options)) {
        guard("opening the device", [&] {
            for (Lane& lane : lanes_) {
                cudaStream_t stream = nullptr;
                check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
                lane.stream.reset(stream);
            }
            move_origin();
            // A program built for other architectures fails here and not in the first step.
            cudaFuncAttributes attributes;
            check(cudaFuncGetAttributes(&attributes,
                                        function_of(Kernel::sum_partials, KernelSource::shared, {})));
        });
    }

    ~CudaDevice() override { finish(); }

    const DeviceInfo& info() const override { return info_; }
    std::vector<Candidate> candidates(const Launch& launch) const override {
        return towers::candidates(gpu_variants(), launch, facts_);
    }
    bool save_scratch() override { return towers::save_scratch(facts_); }

    std::uint64_t free_memory() const override {
        return guard("asking for free memory", [&] {
            std::size_t free = 0, all = 0;
            check(cudaMemGetInfo(&free, &all));
            return std::uint64_t(free) + device_memory_.kept();
        });
    }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override {
        return guard(fmt::format("allocating {} bytes", bytes), [&] {
            const bool on_host = memory == Memory::staging;
            auto allocation =
                std::make_unique<CudaAllocation>(on_host ? staging_memory_ : device_memory_, bytes);
            void* pointer = allocation->block;
            if (on_host) {
                allocation->host = static_cast<std::byte*>(pointer);
                std::memset(pointer, 0, bytes);
                check(cudaHostGetDevicePointer(&pointer, pointer, 0));
            } else {
                check(cudaMemsetAsync(pointer, 0, bytes, computing()));
                check(cudaStreamSynchronize(computing())); // other queues may use the memory next
            }
            allocation->address = reinterpret_cast<std::uint64_t>(pointer);
            return std::unique_ptr<Allocation>(std::move(allocation));
        });
    }

    std::size_t do_scratch_bytes(const Launch& launch) const override {
        return towers::scratch_bytes(launch, gpu_variants(), facts_);
    }

    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override {
        return guard("recording", [&] {
            const auto allocate = [this](std::size_t bytes) { return do_allocate(bytes, Memory::device); };
            auto recording = build_graph(lower(commands, gpu_variants(), facts_, {scratch, allocate}));
            const DriverCall call("cudaGraphUpload");
            if (has_launches(commands)) // without launches it is small and may run in any stream
                check(cudaGraphUpload(recording->graph.get(), computing()));
            return std::unique_ptr<RecordingState>(std::move(recording));
        });
    }

    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        guard("submitting", [&] {
            Lane& lane = lane_of(submission.queue);
            const cudaStream_t stream = lane.stream.get();
            for (const Submission& each : after)
                if (const Pending* earlier = pending(each))
                    check(cudaStreamWaitEvent(stream, earlier->done.get(), 0));
            const DriverCall call("cudaGraphLaunch");
            check(cudaGraphLaunch(static_cast<const CudaRecording&>(recording).graph.get(), stream));
            Event done = unused_event(lane);
            check(cudaEventRecord(done.get(), stream));
            lane.pending.push_back({submission.ticket, std::move(done)});
        });
    }

    void do_wait(Submission submission) override {
        guard("running", [&] {
            if (const Pending* awaited = pending(submission)) wait_for(*awaited);
        });
    }

    void do_finish() noexcept override {
        cudaSetDevice(ordinal_);
        // wait() has reported any error that matters
        for (const Lane& lane : lanes_) cudaStreamSynchronize(lane.stream.get());
    }

    std::vector<double> do_timestamps(const RecordingState& recording) const override {
        return guard("reading timestamps", [&] {
            const std::vector<Event>& events = static_cast<const CudaRecording&>(recording).timestamps;
            std::vector<double> seconds;
            if (!events.empty() && seconds_from_origin(events.front()) > most_seconds_from_origin)
                move_origin();
            for (const Event& event : events) seconds.push_back(origin_seconds_ + seconds_from_origin(event));
            return seconds;
        });
    }

private:
    struct Pending {
        Ticket ticket;
        Event done;
    };
    struct Lane {
        Stream stream;
        std::deque<Pending> pending; ///< submissions not known to have finished, in order
    };

    double seconds_from_origin(const Event& event) const {
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, origin_.get(), event.get()));
        return double(milliseconds) * 1e-3;
    }

    void move_origin() const {
        Event next = make_event(cudaEventDefault);
        check(cudaEventRecord(next.get(), lanes_[std::size_t(Queue::download)].stream.get()));
        check(cudaEventSynchronize(next.get()));
        origin_seconds_ += origin_ ? seconds_from_origin(next) : 0;
        origin_ = std::move(next);
    }

    Lane& lane_of(Queue queue) { return lanes_[std::size_t(queue)]; }
    cudaStream_t computing() { return lane_of(Queue::compute).stream.get(); }

    static void wait_for(const Pending& submission) {
        const DriverCall call("cudaEventSynchronize");
        check(cudaEventSynchronize(submission.done.get()));
    }

    /// Null: it has finished.
    const Pending* pending(const Submission& submission) {
        const std::deque<Pending>& all = lane_of(submission.queue).pending;
        const auto found = std::find_if(
            all.begin(), all.end(), [&](const Pending& each) { return each.ticket == submission.ticket; });
        return found != all.end() ? &*found : nullptr;
    }

    /// Reuses the event of the lane's first submission if it has finished, so that there are no more events
    /// than pending submissions. Streams that wait for the event's earlier record are not affected.
    static Event unused_event(Lane& lane) {
        if (lane.pending.empty() || cudaEventQuery(lane.pending.front().done.get()) != cudaSuccess)
            return make_event(wait_event);
        Event event = std::move(lane.pending.front().done);
        lane.pending.pop_front();
        return event;
    }

    void make_current() const {
        const DriverCall call("cudaSetDevice"); // which makes the card's context
        check(cudaSetDevice(ordinal_));
    }

    /// Makes the device current in this thread, and adds device and action to the runtime's errors.
    template<class Function>
    auto guard(const std::string& doing, Function function) const -> decltype(function()) {
        try {
            make_current();
            return function();
        } catch (const RuntimeError& error) {
            const std::string what =
                fmt::format("{} ({}): {}: {}", info_.id, info_.name, doing, error.what());
            if (error.code() == cudaErrorMemoryAllocation) throw OutOfMemory(what);
            if (error.code() == cudaErrorLaunchTimeout) throw DeviceLost(what);
            throw DeviceError(what);
        }
    }

    int ordinal_;
    DeviceInfo info_;
    DeviceFacts facts_;
    BlockPool device_memory_{allocate_on_device, cudaFree};
    BlockPool staging_memory_{allocate_on_host, cudaFreeHost};
    std::array<Lane, queue_count> lanes_; ///< one for each Queue
    mutable Event origin_;                ///< of timestamps
    mutable double origin_seconds_ = 0;   ///< from the first origin
};

/// CUDA lists each card once. Devices with one UUID would be parts of a card (MIG), and none of them the
/// card.
void forget_shared_uuids(std::vector<DeviceInfo>& devices) {
    std::map<decltype(DeviceInfo::uuid), unsigned> counts;
    for (const DeviceInfo& device : devices) ++counts[device.uuid];
    for (DeviceInfo& device : devices)
        if (counts[device.uuid] > 1) device.uuid = {};
}

class CudaBackend final : public Backend {
public:
    std::string_view name() const override { return "cuda"; }

    Listing list(const OpenOptions&) const override {
        Listing listing;
        try {
            Search search = find_devices();
            listing.absence = std::move(search.absence);
            listing.left_out = std::move(search.left_out);
            for (const Found& found : search.devices)
                listing.devices.push_back(describe(found.properties, unsigned(listing.devices.size())));
            forget_shared_uuids(listing.devices);
        } catch (const RuntimeError& error) {
            const bool mismatch = error.code() == cudaErrorSystemDriverMismatch;
            listing = {.devices = {},
                       .absence = "the NVIDIA driver did not start",
                       .left_out = {{"the NVIDIA driver",
                                     fmt::format("{}{}", error.what(),
                                                 mismatch ? "; if the driver was updated, restart the machine"
                                                          : "")}}};
        }
        return listing;
    }

    std::unique_ptr<Device> open(unsigned index, const OpenOptions& options) const override {
        try {
            const Found found = find_devices().devices.at(index);
            return std::make_unique<CudaDevice>(found.ordinal, describe(found.properties, index), options);
        } catch (const RuntimeError& error) {
            throw DeviceError(fmt::format("cuda:{}: {}", index, error.what()));
        }
    }
};

} // namespace
} // namespace cuda

const Backend& cuda_backend() {
    static const cuda::CudaBackend backend;
    return backend;
}

} // namespace towers
