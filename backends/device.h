// The contract between the engine and the backends: everything that the engine knows of a device.
#pragma once

#include "backends/kernels.h"
#include "backends/launch/choices.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace towers {

/// A device failed or refused. The message names the device, the call and the driver's words. After one from
/// submit() or wait(), the device and everything that it made can only be destroyed; after any other the
/// device is unchanged.
class DeviceError : public std::runtime_error {
    using std::runtime_error::runtime_error;

public:
    std::string device; ///< its id; empty: not known
};

/// The device has too little memory; less work at once may fit. The message does not say what to do, since
/// that depends on the command.
class OutOfMemory : public DeviceError {
    using DeviceError::DeviceError;
};

/// The driver gave up the device, perhaps because it takes long work for a hang. Less work at once may help.
/// The message does not say what to do, since that depends on the command.
class DeviceLost : public DeviceError {
    using DeviceError::DeviceError;
};

enum class DeviceKind { cpu, integrated_gpu, discrete_gpu, virtual_gpu, software };

struct DeviceInfo {
    std::string id;                      ///< what the command line calls it: `vulkan:0`, `cpu`
    std::string name;                    ///< the card's or processor's own name
    std::string vendor;                  ///< who made it
    std::string driver;                  ///< the driver or library with its version
    std::array<std::uint8_t, 16> uuid{}; ///< the same for a card in every backend; zero: none
    DeviceKind kind = DeviceKind::cpu;
    std::uint64_t memory = 0;                      ///< bytes
    std::uint64_t largest_allocation = UINT64_MAX; ///< bytes of a buffer that the driver allows
    unsigned queues = 1;          ///< how many Queues work side by side; 1: copies and kernels take turns
    unsigned subgroup_size = 1;   ///< invocations that run in lockstep
    unsigned compute_units = 0;   ///< multiprocessors of a GPU, threads of a CPU; 0: the driver does not tell
    std::vector<Precision> units; ///< besides float32, what it multiplies natively and faster
    bool unused_units = false;    ///< it has units, for which this program was built without kernels
    std::string withheld;         ///< why a run takes it only if it is named; empty: a run may take it
};

/// DeviceInfo::vendor of NVIDIA's cards, whoever drives them
constexpr std::string_view nvidia = "NVIDIA";

/// Whether two drivers show the same card. CUDA's shows each once: two of its devices with one UUID would be
/// parts of a card (MIG).
inline bool same_card(const DeviceInfo& a, const DeviceInfo& b) {
    const bool both_of_cuda = a.id.starts_with("cuda:") && b.id.starts_with("cuda:");
    return a.uuid == b.uuid && a.uuid != decltype(a.uuid){} && !both_of_cuda;
}

enum class Memory {
    device,  ///< fast for the device; the host cannot reach it
    staging, ///< both reach it, a card's kernels only slowly: copies move what a step needs
};

class Device;

/// Frees what a device made, but only when the device is idle: running work never loses its memory or
/// commands, in whatever order and for whatever reason objects are destroyed.
struct FreeWhenIdle {
    Device* device = nullptr;
    template<class T>
    void operator()(T* made) const;
};

/// A backend's memory of a buffer; its destructor frees the memory.
struct Allocation {
    virtual ~Allocation() = default;
    std::uint64_t address = 0; ///< for kernels; a multiple of 256
    std::size_t bytes = 0;     ///< the requested size
    std::byte* host = nullptr; ///< staging memory only: where the host sees it
};

/// Memory on a device; movable. The destructor waits for everything submitted to the device, then frees the
/// memory. A buffer must not outlive its device.
class Buffer {
public:
    Buffer() = default;
    Buffer(Device& device, std::unique_ptr<Allocation> allocation)
        : allocation_(allocation.release(), {&device}) {}

    std::uint64_t address() const { return allocation_->address; }
    std::size_t bytes() const { return allocation_ ? allocation_->bytes : 0; }
    const Allocation& allocation() const { return *allocation_; }
    /// Null if this holds no memory.
    const Device* device() const { return allocation_ ? allocation_.get_deleter().device : nullptr; }

    /// The host's view of staging memory as an array of T.
    template<class T>
    std::span<T> host() const {
        return {reinterpret_cast<T*>(allocation_->host), allocation_->bytes / sizeof(T)};
    }

private:
    std::unique_ptr<Allocation, FreeWhenIdle> allocation_;
};

struct BufferSlice {
    const Buffer* buffer = nullptr;
    std::size_t offset = 0, bytes = 0;

    std::uint64_t address() const { return buffer->address() + offset; }
};

struct Copy {
    BufferSlice source, target;  ///< of equal size
    std::string_view label = {}; ///< for people; read while the copy is recorded
};

/// Commands after it may read what commands before it wrote. Commands between two barriers may run in any
/// order. Where it is known which bytes commands touch (Launch::extents), a device may leave out the order of
/// two that have none in common or only read those.
struct Barrier {};

/// A time on the device's clock when all commands before it are done and none after it has begun.
struct Timestamp {};

using Command = std::variant<Launch, Copy, Barrier, Timestamp>;

bool has_launches(std::span<const Command> commands);

/// A device computes, and copies in each direction, side by side if it can. Submissions to one queue run in
/// order.
enum class Queue : std::uint8_t { compute, upload, download };
constexpr std::size_t queue_count = 3;

/// Identifies a submission: 1 for a device's first, 2 for the next to any of its queues, and so on.
using Ticket = std::uint64_t;

struct Submission {
    Ticket ticket = 0;
    Queue queue = Queue::compute;
};

/// A backend's own form of a list of commands.
struct RecordingState {
    virtual ~RecordingState() = default;
    bool launches = false;        ///< see has_launches()
    Submission last_submission{}; ///< ticket 0: none
};

/// A list of launches and copies, recorded once and submitted many times. Its destructor waits as a Buffer's
/// does.
using Recording = std::unique_ptr<RecordingState, FreeWhenIdle>;

/// One opened device. Each tower opens its own, and one thread at a time uses it.
///
/// The verbs check what they are given: a call that breaks this contract is a mistake of the caller's, throws
/// std::logic_error and changes nothing. What the device itself refuses or fails at is a DeviceError. After
/// one from submit() or wait(), all verbs but finish() throw DeviceError.
class Device {
public:
    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    virtual ~Device() = default;

    virtual const DeviceInfo& info() const = 0;

    /// The bytes of Memory::device that are still free, according to the driver or the system.
    virtual std::uint64_t free_memory() const { return not_told; }
    static constexpr std::uint64_t not_told = UINT64_MAX;

    /// The ways in which the device could run the launch, the plainest last. Empty when it does not tell, or
    /// cannot run it.
    virtual std::vector<Candidate> candidates(const Launch&) const { return {}; }

    /// The bytes of scratch memory that the launch needs in a recording. Launches between two barriers or
    /// timestamps need theirs at the same time.
    std::size_t scratch_bytes(const Launch& launch) const;
    /// From now on chooses ways to run launches that need little scratch memory. Returns false if nothing
    /// changes.
    virtual bool save_scratch() { return false; }

    /// Allocates zeroed memory. Throws OutOfMemory if there is not enough.
    Buffer allocate(std::size_t bytes, Memory memory);

    /// A launch must have at least one item, and pointers that are null or multiples of 16. A copy's slices
    /// must have equal sizes above 0, lie within this device's buffers and not overlap. `scratch`: memory of
    /// this device for the launches' own use, which only recordings may share, and which must outlive this
    /// one. If it is null or too small, the recording allocates its own.
    Recording record(std::span<const Command> commands, const Buffer* scratch = nullptr);

    /// Queues one of this device's recordings. It runs after all earlier submissions to the same queue and
    /// after the submissions in `after`, of any queue. It sees what all these wrote, what any submission
    /// wrote that has been waited for, and what the host has written to staging memory so far. Copy queues
    /// accept no launches. A device may run everything in the order of submission; the CPU's device works
    /// only while a thread waits for it. A device may finish a recording's first submissions before this
    /// returns.
    Ticket submit(const Recording& recording, Queue queue = Queue::compute,
                  std::span<const Ticket> after = {});

    /// Returns when the submission, all earlier ones in its queue, and all that those came after have
    /// finished and their results are visible in staging memory. Submissions may be waited for in any order
    /// and repeatedly.
    void wait(Ticket ticket);

    /// Returns when nothing submitted to any queue will run any more: everything has finished, or the device
    /// is lost.
    void finish() noexcept;

    /// Destroys something that this device made, after finish(). Never throws.
    virtual void free(const std::function<void()>& destroy) {
        finish();
        destroy();
    }

    /// The times at which the recording's last submission, which must have been waited for, passed each
    /// Timestamp: in seconds since an arbitrary moment, the same for all of the device's recordings. Empty if
    /// the device has no clock.
    std::vector<double> timestamps(const Recording& recording) const;

    /// Records, submits and waits, for work that is done once.
    void run(std::span<const Command> commands) { wait(submit(record(commands))); }

protected:
    /// The backend's part of each verb. Arguments are already checked. `after` contains at most one
    /// submission of each other queue, and none that the queue's order implies or that is known to have
    /// finished. do_wait() is not called again for finished submissions.
    virtual std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) = 0;
    virtual std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                                      const Buffer* scratch) = 0;
    virtual void do_submit(const RecordingState& recording, Submission submission,
                           std::span<const Submission> after) = 0;
    virtual void do_wait(Submission submission) = 0;
    virtual void do_finish() noexcept = 0;
    virtual std::vector<double> do_timestamps(const RecordingState& recording) const = 0;
    virtual std::size_t do_scratch_bytes(const Launch&) const { return 0; }

private:
    void check_usable() const;
    void check_own(const char* verb, const Recording& recording) const;
    void check_command(std::size_t index, const Command& command) const;
    void check_issued(const char* verb, Ticket ticket) const;
    [[noreturn]] void broken(const std::string& what) const;

    /// For a submission: the last submission of each queue that has finished when it has; 0: none.
    using Implied = std::array<Ticket, queue_count>;
    struct Pending {
        Queue queue;
        Implied implied;
    };
    /// Null if the submission is known to have finished.
    const Pending* pending(Ticket ticket) const;

    Ticket issued_ = 0;
    std::deque<Pending> pending_; ///< from the first not known to have finished to the last issued
    std::array<Implied, queue_count> implied_{}; ///< by the last submission to each queue
    Implied finished_{};                         ///< by what has been waited for
    std::string failure_;                        ///< of submit() or wait(); empty: none
};

template<class T>
void FreeWhenIdle::operator()(T* made) const {
    device->free([made] { delete made; });
}

} // namespace towers
