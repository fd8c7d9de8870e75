#include "backends/cpu/cpu_backend.h"

#include "backends/arithmetic.h"
#include "backends/cpu/crowding.h"
#include "backends/cpu/overrides.h"
#include "backends/cpu/processor.h"
#include "backends/cpu/quota.h"
#include "backends/denormals.h"
#include "backends/headroom.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <new>
#include <omp.h>
#include <optional>
#include <spdlog/spdlog.h>

namespace towers {
namespace {

/// Gives the calling thread a team of so many threads, all of which flush denormal numbers, for the loops
/// that follow, oneDNN's too. OpenMP's library ends the program if it gets too few threads. It keeps those
/// that it has, which may have started while the calling thread did not flush.
void start_team(const DeviceInfo& info, unsigned threads) {
    if (threads == 1) return;
    thread_local unsigned running = 1;
    std::unique_lock lock(thread_starts(), std::defer_lock);
    if (threads > running) {
        lock.lock();
        require_threads(info.id, threads - running);
        if (at_forced_exit != nullptr) std::atexit(at_forced_exit);
    }
#pragma omp parallel num_threads(int(threads))
    FlushDenormals::from_now_on();
    running = threads;
}

/// Makes OpenMP start exactly this many threads for the calling thread's parallel regions. oneDNN divides
/// work among as many threads as it is told and would wait forever for missing ones.
void use_threads(unsigned threads) {
    omp_set_dynamic(0);
    omp_set_num_threads(int(threads));
}

DeviceInfo describe_cpu(unsigned threads) {
    DeviceInfo info;
    info.id = "cpu";
    const Processor& processor = this_processor();
    info.name = processor.name;
    info.vendor = processor.vendor;
    info.driver = fmt::format("oneDNN {}.{}.{}, {} thread{}", dnnl_version()->major, dnnl_version()->minor,
                              dnnl_version()->patch, threads, threads == 1 ? "" : "s");
    info.kind = DeviceKind::cpu;
    info.units = native_units();
    info.compute_units = threads;
    info.memory = host_memory();
    return info;
}

struct HostAllocation : Allocation {
    HostMemory memory;
};

struct CpuRecording : RecordingState {
    std::vector<Work> work;
    std::vector<double> timestamps;
};

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// While a thread waits, runs the submissions of all queues in the order of submission, on that thread and
/// its OpenMP team. So the host learns of each submission as soon as it is done.
class CpuDevice final : public Device {
public:
    explicit CpuDevice(const OpenOptions& options)
        : facts_{.busy_groups = cpu_threads(options.threads),
                 .subgroup_size = 1,
                 .exact_products = options.exact_products,
                 .precision = options.precision,
                 .round_operands = options.round_operands,
                 .limits = options.limits,
                 .choices = options.round_operands ? nullptr : options.choices} {
        context_.threads = facts_.busy_groups;
        context_.guarded = options.guarded;
        info_ = describe_cpu(context_.threads);
        const std::lock_guard lock(thread_starts());
        require_threads(info_.id, context_.threads - 1);
    }

    const DeviceInfo& info() const override { return info_; }
    std::uint64_t free_memory() const override { return available_memory(); }
    std::vector<Candidate> candidates(const Launch& launch) const override {
        std::vector<Candidate> all = towers::candidates(cpu_variants(), launch, facts_);
        // There is no choice: another way may be faster, but would round nothing.
        if (facts_.round_operands) std::erase_if(all, [](const Candidate& each) { return !each.used; });
        return all;
    }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory) override {
        auto allocation = std::make_unique<HostAllocation>();
        allocation->memory = HostMemory(info_.id.c_str(), bytes, context_.guarded);
        allocation->host = allocation->memory.data();
        std::memset(allocation->host, 0, bytes);
        allocation->address = reinterpret_cast<std::uint64_t>(allocation->host);
        allocation->bytes = bytes;
        return allocation;
    }

    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands, const Buffer*) override {
        auto recording = std::make_unique<CpuRecording>();
        std::size_t timestamps = 0;
        use_threads(context_.threads); // oneDNN plans for the number of threads that it sees
        for (const Command& command : commands) {
            if (const auto* launch = std::get_if<Launch>(&command))
                recording->work.push_back(prepare(*launch));
            else if (const auto* copy = std::get_if<Copy>(&command))
                recording->work.push_back(prepare(*copy));
            else if (std::holds_alternative<Timestamp>(command))
                recording->work.push_back(
                    [moments = &recording->timestamps, i = timestamps++] { (*moments)[i] = seconds_now(); });
        }
        recording->timestamps.resize(timestamps);
        return recording;
    }

    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission>) override {
        queue_.push_back(static_cast<const CpuRecording*>(&recording));
        submitted_ = submission.ticket;
    }

    void do_wait(Submission submission) override { work_until(submission.ticket); }

    void do_finish() noexcept override {
        try {
            work_until(submitted_);
        } catch (...) { // kept for the thread that will wait
            lost_ = std::current_exception();
        }
    }

    std::vector<double> do_timestamps(const RecordingState& recording) const override {
        return static_cast<const CpuRecording&>(recording).timestamps;
    }

private:
    void work_until(Ticket ticket) {
        use_threads(context_.threads);
        const FlushDenormals flush;
        if (lost_) std::rethrow_exception(lost_);
        const double begin = seconds_now();
        try {
            while (submitted_ - queue_.size() < ticket) {
                if (queue_.front()->launches) start_team(info_, context_.threads); // one thread copies
                for (const Work& work : queue_.front()->work) {
                    work();
                    context_.scratch.require_intact();
                }
                queue_.pop_front();
            }
        } catch (const dnnl::error& error) {
            queue_.clear(); // later work depends on what failed
            throw DeviceError(fmt::format("{}: oneDNN: {}", info_.id, error.message));
        } catch (...) {
            queue_.clear();
            throw;
        }
        if (crowding_.worked(seconds_now() - begin)) look_for_others();
    }

    /// Tells the user if other threads take this device's processors. The program does not use fewer threads
    /// by itself, since that would change the last bits of the results.
    void look_for_others() {
        if (context_.threads == 1 || !waits_are_known_) return;
        if (const std::optional<double> part = crowding_.judge(waits_.longest(context_.threads)))
            spdlog::warn(
                "{}: its {} threads wait for processors, {:.0f} % of the last seconds, because other "
                "programs or towers use them; with fewer --threads it may be faster",
                info_.id, context_.threads, 100 * *part);
    }

    Work prepare(const Launch& launch) {
        constexpr std::size_t compiled = std::size_t(32) << 20; // code from oneDNN for a large network
        require_headroom(info_.id, compiled + context_.threads * thread_stack);
        try {
            const auto [variant, config] = choose(cpu_variants(), launch, facts_);
            if (variant != nullptr) return variant->prepare(context_, launch, config);
        } catch (const dnnl::error& error) {
            const std::string what = fmt::format("{}: oneDNN cannot run {}: {}", info_.id,
                                                 kernel_info(launch.kernel).name, error.message);
            if (error.status == dnnl_out_of_memory) throw OutOfMemory(what);
            throw DeviceError(what);
        }
        throw DeviceError(
            fmt::format("{}: has no kernel for this {}", info_.id, kernel_info(launch.kernel).name));
    }

    Work prepare(const Copy& copy) {
        const auto at = [](const BufferSlice& slice) { return reinterpret_cast<void*>(slice.address()); };
        return [source = at(copy.source), target = at(copy.target), bytes = copy.source.bytes] {
            std::memcpy(target, source, bytes);
        };
    }

    DeviceFacts facts_;
    CpuContext context_;
    DeviceInfo info_;
    std::deque<const CpuRecording*> queue_; ///< submitted, not yet done
    Ticket submitted_ = 0;
    std::exception_ptr lost_; ///< a failure that no thread has seen yet
    Crowding crowding_;
    ThreadWaits waits_;
    const bool waits_are_known_ = ThreadWaits::are_known();
};

class CpuBackend final : public Backend {
public:
    std::string_view name() const override { return "cpu"; }

    Listing list(const OpenOptions& options) const override {
        return {{describe_cpu(cpu_threads(options.threads))}, {}};
    }

    std::unique_ptr<Device> open(unsigned, const OpenOptions& options) const override {
        return std::make_unique<CpuDevice>(options);
    }
};

} // namespace

constexpr std::size_t cache_line = 64; ///< what oneDNN's scratchpads are aligned to

Scratch::Scratch(CpuContext& context, std::size_t bytes)
    : context_(&context), bytes_(ceil_div(bytes, cache_line) * cache_line) {
    if (context.scratch.bytes() < bytes) context.scratch = HostMemory("cpu", aligned(bytes), context.guarded);
}

std::byte* Scratch::bytes() const { return context_->scratch.data() + context_->scratch.bytes() - bytes_; }

unsigned cpu_threads(unsigned wanted) {
    // Read before anything changes the setting.
    static const unsigned by_default = [] {
        const unsigned threads = std::min(unsigned(omp_get_max_threads()), most_cpu_threads);
        return std::getenv("OMP_NUM_THREADS") != nullptr ? threads
                                                         : threads_within(threads, processor_quota("/"));
    }();
    if (omp_get_max_active_levels() == 0) return 1;
    return std::min(wanted != 0 ? wanted : by_default, unsigned(omp_get_thread_limit()));
}

const Backend& cpu_backend() {
    static const CpuBackend backend;
    return backend;
}

} // namespace towers
