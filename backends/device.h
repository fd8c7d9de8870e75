// The contract between the engine and the backends: all that the engine knows of a device.
#pragma once

#include "backends/kernels.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace towers {

/// A device failed or refused; the message names the device, the call and the driver's words. After one from
/// submit() or wait(), the device and what it made can only be destroyed. Others leave it as it was.
class DeviceError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// It refused for want of memory, and might do less work at once. What to do about that depends on the
/// command, so the message leaves it out.
class OutOfMemory : public DeviceError {
    using DeviceError::DeviceError;
};

/// The driver gave the device up, perhaps because it takes long work for a hang. Less work at once may help;
/// what to do about that depends on the command, so the message leaves it out.
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
    unsigned queues = 1;        ///< of Queue's that work side by side; 1: copies and kernels take turns
    unsigned subgroup_size = 1; ///< invocations that run in lockstep
    unsigned compute_units = 0; ///< multiprocessors of a GPU, threads of a CPU; 0: the driver does not tell
    std::string withheld;       ///< why a run takes it only when it is named; empty: it may be taken
};

/// DeviceInfo::vendor of NVIDIA's cards, whoever drives them
constexpr std::string_view nvidia = "NVIDIA";

/// Whether two backends show the same card.
inline bool same_card(const DeviceInfo& a, const DeviceInfo& b) {
    return a.uuid == b.uuid && a.uuid != decltype(a.uuid){};
}

enum class Memory {
    device,  ///< fast for the device; the host cannot reach it
    staging, ///< both reach it; kernels may read small blocks from it, copies move large ones
};

class Device;

/// Frees what a device made once the device is idle, so that nothing that runs loses its memory or its
/// commands, whatever ends first and for whatever reason.
struct FreeWhenIdle {
    Device* device = nullptr;
    template<class T>
    void operator()(T* made) const;
};

/// What a backend keeps behind a buffer; destroying it frees the memory.
struct Allocation {
    virtual ~Allocation() = default;
    std::uint64_t address = 0; ///< as kernels see it; 256-byte aligned
    std::size_t bytes = 0;     ///< as asked for
    std::byte* host = nullptr; ///< staging memory only: where the host sees it
};

/// Memory on a device; movable. Its destruction waits for all that was submitted to the device, then frees
/// the memory. Must not outlive its device.
class Buffer {
public:
    Buffer() = default;
    Buffer(Device& device, std::unique_ptr<Allocation> allocation)
        : allocation_(allocation.release(), {&device}) {}

    std::uint64_t address() const { return allocation_->address; }
    std::size_t bytes() const { return allocation_ ? allocation_->bytes : 0; }
    const Allocation& allocation() const { return *allocation_; }
    /// Null: this is no memory.
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
};

struct Copy {
    BufferSlice source, target;  ///< of equal size
    std::string_view label = {}; ///< for people; read while the copy is recorded
};

/// What follows may read what came before; between two barriers any order is allowed.
struct Barrier {};

/// A moment on the device's clock: all that came before is done, nothing that follows has begun.
struct Timestamp {};

using Command = std::variant<Launch, Copy, Barrier, Timestamp>;

bool has_launches(std::span<const Command> commands);

/// What a device does side by side, where it can: computing, and copying in each direction. Submissions to
/// one queue run in order.
enum class Queue : std::uint8_t { compute, upload, download };
constexpr std::size_t queue_count = 3;

/// Names a submission. The first of a device is 1, the next, to any of its queues, 2.
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

/// A list of launches and copies, recorded once, submitted many times. Its destruction waits as a Buffer's
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

    /// Bytes of Memory::device that the driver or the system says are still to be had.
    virtual std::uint64_t free_memory() const { return not_told; }
    static constexpr std::uint64_t not_told = UINT64_MAX;

    /// What the device would run the launch with, by the name of its variant (backends/variants.h), for
    /// reports. Empty when it does not tell, or cannot run it.
    virtual std::string_view variant_of(const Launch&) const { return {}; }

    /// Zeroed memory. Throws OutOfMemory when there is not enough.
    Buffer allocate(std::size_t bytes, Memory memory);

    /// A launch has items, and pointers that are null or multiples of 16. A copy's slices have equal sizes
    /// above 0, lie within buffers of this device and do not overlap.
    Recording record(std::span<const Command> commands);

    /// Queues the recording, which is this device's, behind all that was submitted to the same queue before
    /// and behind the submissions `after`, of any queue. It sees what they wrote, what any submission wrote
    /// that has been waited for, and what the host has written to staging memory so far. Copy queues take no
    /// launches. A device may run everything in the order of submission; one that is the host works only
    /// while a thread waits for it. A device may finish a recording's first submissions before this returns.
    Ticket submit(const Recording& recording, Queue queue = Queue::compute,
                  std::span<const Ticket> after = {});

    /// Returns when the submission, all before it in its queue and all that those came after have finished
    /// and their results are visible in staging memory. In any order, and as often as one likes.
    void wait(Ticket ticket);

    /// Returns when nothing that was submitted to any queue will run any more: all of it has finished, or the
    /// device is lost.
    void finish() noexcept;

    /// When the recording's last submission, which has been waited for, passed each Timestamp: seconds since
    /// a moment that is arbitrary, but the same for all that the device records. Empty when it has no clock.
    std::vector<double> timestamps(const Recording& recording) const;

    /// Records, submits and waits: for work that is done once.
    void run(std::span<const Command> commands) { wait(submit(record(commands))); }

protected:
    /// The backend's part of each verb; it need check nothing of the above. `after` has what the queue's
    /// order does not imply already, and one submission of each other queue at most. What is known to have
    /// finished is neither in there nor waited for again.
    virtual std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) = 0;
    virtual std::unique_ptr<RecordingState> do_record(std::span<const Command> commands) = 0;
    virtual void do_submit(const RecordingState& recording, Submission submission,
                           std::span<const Submission> after) = 0;
    virtual void do_wait(Submission submission) = 0;
    virtual void do_finish() noexcept = 0;
    virtual std::vector<double> do_timestamps(const RecordingState& recording) const = 0;

private:
    void check_usable() const;
    void check_own(const char* verb, const Recording& recording) const;
    void check_command(std::size_t index, const Command& command) const;
    void check_issued(const char* verb, Ticket ticket) const;
    [[noreturn]] void broken(const std::string& what) const;

    /// Of each queue the last submission that has finished when another one has; 0: none.
    using Implied = std::array<Ticket, queue_count>;
    struct Pending {
        Queue queue;
        Implied implied;
    };
    /// Null: it is known to have finished.
    const Pending* pending(Ticket ticket) const;

    Ticket issued_ = 0;
    std::deque<Pending> pending_; ///< the last ones issued, from the first that is not known to have finished
    std::array<Implied, queue_count> implied_{}; ///< by the last submission to each queue
    Implied finished_{};                         ///< by what has been waited for
    std::string failure_;                        ///< of submit() or wait(); empty: none
};

template<class T>
void FreeWhenIdle::operator()(T* made) const {
    device->finish();
    delete made;
}

} // namespace towers
