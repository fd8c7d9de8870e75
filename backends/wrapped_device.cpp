#include "backends/wrapped_device.h"

#include <stdexcept>

namespace towers {
namespace {

struct WrappedAllocation : Allocation {
    Buffer buffer; // the other device's
    std::set<const Buffer*>& all;
    WrappedAllocation(Buffer theirs, std::set<const Buffer*>& buffers)
        : buffer(std::move(theirs)), all(buffers) {
        all.insert(&buffer);
        address = buffer.address();
        bytes = buffer.bytes();
        host = buffer.allocation().host;
    }
    ~WrappedAllocation() override { all.erase(&buffer); }
};

} // namespace

std::unique_ptr<Allocation> WrappedDevice::do_allocate(std::size_t bytes, Memory memory) {
    return std::make_unique<WrappedAllocation>(device_->allocate(bytes, memory), buffers_);
}

Recording WrappedDevice::record_theirs(std::span<const Command> commands, const Buffer* scratch) {
    const auto theirs_of = [](const Buffer& ours) {
        return &static_cast<const WrappedAllocation&>(ours.allocation()).buffer;
    };
    std::vector<Command> theirs(commands.begin(), commands.end());
    for (Command& command : theirs)
        if (auto* copy = std::get_if<Copy>(&command))
            for (BufferSlice* slice : {&copy->source, &copy->target})
                if (slice->buffer->device() == this) slice->buffer = theirs_of(*slice->buffer);
    return device_->record(theirs, scratch != nullptr ? theirs_of(*scratch) : nullptr);
}

std::unique_ptr<RecordingState> WrappedDevice::do_record(std::span<const Command> commands,
                                                         const Buffer* scratch) {
    return std::make_unique<WrappedRecording>(record_theirs(commands, scratch));
}

std::uint64_t WrappedDevice::allocated() const {
    std::uint64_t bytes = 0;
    for (const Buffer* buffer : buffers_) bytes += buffer->bytes();
    return bytes;
}

BufferSlice WrappedDevice::slice_at(std::uint64_t address, std::size_t bytes) const {
    for (const Buffer* buffer : buffers_)
        if (address >= buffer->address() && address + bytes <= buffer->address() + buffer->bytes())
            return {buffer, std::size_t(address - buffer->address()), bytes};
    throw std::logic_error("no memory lies there");
}

void WrappedDevice::do_submit(const RecordingState& recording, Submission submission,
                              std::span<const Submission> after) {
    std::vector<Ticket> tickets; // the other device counts as this one does
    for (const Submission& each : after) tickets.push_back(each.ticket);
    device_->submit(static_cast<const WrappedRecording&>(recording).recording, submission.queue, tickets);
}

std::vector<double> WrappedDevice::do_timestamps(const RecordingState& recording) const {
    return device_->timestamps(static_cast<const WrappedRecording&>(recording).recording);
}

} // namespace towers
