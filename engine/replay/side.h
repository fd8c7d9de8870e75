// A device that runs a plan level by level, while the host looks at every tensor: one of two in lockstep, or
// one alone.
#pragma once

#include "backends/device.h"
#include "engine/plan/plan.h"
#include "engine/towers/session.h"

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace towers {

/// A tensor that a level of a plan writes.
struct WrittenTensor {
    const Operation* operation;
    TensorId tensor;
    ElementType type;
    bool read; ///< the operation reads it as well
    /// Several operations may write a tensor, a part each.
    bool first; ///< nothing has been written there before
    bool whole; ///< nothing more is written there before something reads it
    std::size_t window_offset, bytes;
};

/// Everything that each level of a plan writes, in the order of its operations, each with its own place in a
/// window.
std::vector<std::vector<WrittenTensor>> written_in(const Plan& plan);

/// For each tensor of a plan, those that lie in the same memory while it is in use, itself included.
std::vector<std::vector<std::size_t>> overlapping_tensors(const Plan& plan);

/// The bytes of a window that is large enough for each of these levels.
std::size_t window_bytes(std::span<const std::vector<WrittenTensor>> levels);

/// An element's place in a tensor, one index an axis.
std::vector<std::size_t> index_in(const TensorShape& shape, std::size_t element);

/// Fills a tensor before it is written, so that an element left out shows: a NaN, and absurd as a word.
constexpr std::uint32_t unwritten = 0x7fc0dead;

/// A plan in memory on a device, and a window through which the host sees what a level has written.
class ParitySide {
public:
    /// Has the feed load the device. The device and the plan must outlive it. Throws DeviceError, as all
    /// below.
    ParitySide(Device& device, const Plan& plan, Feed& feed, std::size_t window_bytes);

    /// Sets what the step starts with. `state`: as StateLayout says; a step of one tower of several takes the
    /// parameters of it.
    void prepare(std::span<const float> state, const StepNumbers& numbers, std::span<const Example> examples);

    /// Starts a level; `written` is all that it writes. One at a time. What nothing has written yet is filled
    /// with `unwritten` before.
    void start(std::size_t level, std::span<const WrittenTensor> written);
    /// Waits for it; numbers() and words() then give what it wrote.
    void finish();
    /// Replaces what this side's level wrote by the other side's values.
    void adopt(const ParitySide& other, std::span<const WrittenTensor> written);

    std::span<const float> numbers(const WrittenTensor& written) const { return view<float>(written); }
    std::span<std::uint32_t> words(const WrittenTensor& written) const {
        return view<std::uint32_t>(written);
    }

private:
    Copy to_window(const WrittenTensor& written) const;
    Copy from_window(const WrittenTensor& written) const;
    template<class T>
    std::span<T> view(const WrittenTensor& written) const {
        if (size_of(written.type) != sizeof(T)) throw std::logic_error("a tensor of another type");
        return window_.host<T>().subspan(written.window_offset / sizeof(T), written.bytes / sizeof(T));
    }

    const Plan& plan_;
    Session session_;
    Buffer window_;
    Recording recording_; // last: it refers to the others
    Ticket ticket_ = 0;
};

} // namespace towers
