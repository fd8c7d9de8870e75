#include "backends/device.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>

namespace towers {
namespace {

constexpr std::uint64_t pointer_alignment = 16; // what the kernels' widest loads need

} // namespace

void Device::broken(const std::string& what) const {
    throw std::logic_error(fmt::format("{}: {}", info().id, what));
}

void Device::check_usable() const {
    if (!failure_.empty())
        throw DeviceError(fmt::format("{}: failed before and can only be closed: {}", info().id, failure_));
}

void Device::check_own(const char* verb, const Recording& recording) const {
    if (!recording) broken(fmt::format("{}: there is no recording", verb));
    if (recording.get_deleter().device != this)
        broken(fmt::format("{}: the recording is another device's", verb));
}

void Device::check_command(std::size_t index, const Command& command) const {
    const auto refuse = [&](const std::string& what) {
        broken(fmt::format("record: command {}: {}", index, what));
    };
    if (const auto* launch = std::get_if<Launch>(&command)) {
        if (std::size_t(launch->kernel) >= all_kernels().size())
            refuse(fmt::format("there is no kernel {}", unsigned(launch->kernel)));
        const KernelInfo& kernel = kernel_info(launch->kernel);
        if (launch->items == 0) refuse(fmt::format("{} has no items", kernel.name));
        for (std::size_t i = 0; i < kernel.pointers.size(); ++i)
            if (launch->parameters.pointer(i) % pointer_alignment != 0)
                refuse(fmt::format("{}: pointer {} is no multiple of {}", kernel.name, i, pointer_alignment));
    } else if (const auto* copy = std::get_if<Copy>(&command)) {
        const auto& [source, target] = *copy;
        for (const BufferSlice* slice : {&source, &target}) {
            const char* const which = slice == &source ? "source" : "target";
            if (slice->buffer == nullptr || slice->buffer->device() == nullptr)
                refuse(fmt::format("the copy's {} is no buffer", which));
            if (slice->buffer->device() != this)
                refuse(fmt::format("the copy's {} is another device's buffer", which));
            const std::size_t size = slice->buffer->bytes();
            if (slice->offset > size || slice->bytes > size - slice->offset)
                refuse(fmt::format("the copy's {} is {} bytes at {} of a buffer of {}", which, slice->bytes,
                                   slice->offset, size));
        }
        if (source.bytes != target.bytes)
            refuse(fmt::format("a copy of {} bytes to {}", source.bytes, target.bytes));
        if (source.bytes == 0) refuse("a copy of no bytes");
        if (&source.buffer->allocation() == &target.buffer->allocation() &&
            source.offset < target.offset + target.bytes && target.offset < source.offset + source.bytes)
            refuse("the copy's source and target overlap");
    }
}

Buffer Device::allocate(std::size_t bytes, Memory memory) {
    check_usable();
    return Buffer(*this, do_allocate(bytes, memory));
}

Recording Device::record(std::span<const Command> commands) {
    check_usable();
    for (std::size_t i = 0; i < commands.size(); ++i) check_command(i, commands[i]);
    return Recording(do_record(commands).release(), {this});
}

Ticket Device::submit(const Recording& recording) {
    check_usable();
    check_own("submit", recording);
    try {
        issued_ = do_submit(*recording);
    } catch (const std::exception& error) {
        failure_ = error.what();
        throw;
    }
    return recording->last_submission = issued_;
}

void Device::wait(Ticket ticket) {
    check_usable();
    if (ticket == 0 || ticket > issued_) broken(fmt::format("wait: ticket {} was never issued", ticket));
    try {
        do_wait(ticket);
    } catch (const std::exception& error) {
        failure_ = error.what();
        throw;
    }
    finished_ = std::max(finished_, ticket);
}

void Device::finish() noexcept {
    do_finish();
    finished_ = issued_;
}

std::vector<double> Device::timestamps(const Recording& recording) const {
    check_usable();
    check_own("timestamps", recording);
    if (recording->last_submission == 0 || recording->last_submission > finished_)
        broken("timestamps: the recording has not finished");
    return do_timestamps(*recording);
}

} // namespace towers
