// A device that runs a plan level by level while the host inspects every tensor, alone or in lockstep with
// another device.
#pragma once

#include "backends/device.h"
#include "engine/data/batch.h"
#include "engine/execution/session.h"
#include "engine/plan/plan.h"

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace towers {

/// A tensor that a level of a plan writes.
struct WrittenTensor {
    const Operation* operation;
    TensorId tensor;
    const PlannedTensor* planned; ///< the tensor
    bool read;                    ///< the operation reads it as well
    /// Several operations may each write a part of a tensor.
    bool first; ///< no earlier operation has written the tensor
    bool whole; ///< no other operation writes the tensor before one reads it
    std::size_t window_offset;
};

/// The tensors that each level of a plan writes, in the order of its operations, each with its own place in
/// the window.
std::vector<std::vector<WrittenTensor>> written_in(const Plan& plan);

/// For each tensor of a plan, the tensors in the same memory while it is in use, including itself.
std::vector<std::vector<std::size_t>> overlapping_tensors(const Plan& plan);

/// The bytes of a window for any of these levels.
std::size_t window_bytes(std::span<const std::vector<WrittenTensor>> levels);

/// An element's index along each axis of a tensor.
std::vector<std::size_t> index_in(const TensorShape& shape, std::size_t element);

/// Fills tensors before they are written, so that missing elements show: a NaN, and an absurd word.
constexpr std::uint32_t unwritten = 0x7fc0dead;

/// A plan in memory on a device, and a window through which the host sees what a level has written.
class ParitySide {
public:
    /// Brings the images to the device. The device and the plan must outlive it. Throws DeviceError, as all
    /// below.
    ParitySide(Device& device, const Plan& plan, const DataSource& images, std::size_t window_bytes);

    const Device& device() const { return session_.device(); }

    /// Sets the inputs of the step. `state`: laid out as StateLayout says; if the plan is for one of several
    /// towers, only the parameters are used.
    void prepare(std::span<const float> state, const StepNumbers& numbers, const Batch& batch);

    /// Starts a level, one at a time. `written`: everything that it writes; tensors that nothing has written
    /// yet are first filled with `unwritten`.
    void start(std::size_t level, std::span<const WrittenTensor> written);
    /// Waits for the level; then elements() and words() return what it wrote.
    void finish();
    /// Replaces the values that this side's level wrote by the other side's.
    void adopt(const ParitySide& other, std::span<const WrittenTensor> written);

    /// T: float, uvec2 (fixed64) or std::uint32_t, as the tensor's type says.
    template<class T>
    std::span<const T> elements(const WrittenTensor& written) const {
        if (size_of(written.planned->type) != sizeof(T)) throw std::logic_error("a tensor of another type");
        return view<T>(written);
    }
    /// A tensor of any type, in words
    std::span<std::uint32_t> words(const WrittenTensor& written) const {
        return view<std::uint32_t>(written);
    }
    /// Whether the level, or an earlier one, has written an element.
    bool has_written(const WrittenTensor& written, std::size_t element) const;

private:
    Copy to_window(const WrittenTensor& written) const;
    Copy from_window(const WrittenTensor& written) const;
    template<class T>
    std::span<T> view(const WrittenTensor& written) const {
        return window_.host<T>().subspan(written.window_offset / sizeof(T),
                                         written.planned->bytes / sizeof(T));
    }

    const Plan& plan_;
    Session session_;
    Buffer window_;
    Recording recording_; // last: it refers to the others
    Ticket ticket_ = 0;
};

} // namespace towers
