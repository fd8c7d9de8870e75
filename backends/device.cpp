#include "backends/device.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>

namespace towers {
namespace {

constexpr std::uint64_t pointer_alignment = 16; // what the kernels' widest loads need

std::size_t index_of(Queue queue) { return std::size_t(queue); }
/// What the device's part of a verb returns; its errors say which device it is.
template<class Verb>
auto of_device(const Device& device, Verb verb) {
    try {
        return verb();
    } catch (DeviceError& error) {
        if (error.device.empty()) error.device = device.info().id;
        throw;
    }
}
void raise(Ticket& ticket, Ticket least) { ticket = std::max(ticket, least); }

} // namespace

bool has_launches(std::span<const Command> commands) {
    return std::any_of(commands.begin(), commands.end(),
                       [](const Command& command) { return std::holds_alternative<Launch>(command); });
}

void Device::broken(const std::string& what) const {
    throw std::logic_error(fmt::format("{}: {}", info().id, what));
}

void Device::check_usable() const {
    if (!failure_.empty())
        of_device(*this, [this] {
            throw DeviceError(
                fmt::format("{}: failed before and can only be closed: {}", info().id, failure_));
        });
}

void Device::check_own(const char* verb, const Recording& recording) const {
    if (!recording) broken(fmt::format("{}: there is no recording", verb));
    if (recording.get_deleter().device != this)
        broken(fmt::format("{}: the recording is another device's", verb));
}

void Device::check_issued(const char* verb, Ticket ticket) const {
    if (ticket == 0 || ticket > issued_) broken(fmt::format("{}: ticket {} was never issued", verb, ticket));
}

void Device::check_command(std::size_t index, const Command& command) const {
    const auto refuse = [&](const std::string& what) {
        broken(fmt::format("record: command {}: {}", index, what));
    };
    if (const auto* launch = std::get_if<Launch>(&command)) {
        if (std::size_t(launch->kernel) >= all_kernels().size())
            refuse(fmt::format("there is no kernel {}", unsigned(launch->kernel)));
        const KernelInfo& kernel = kernel_info(launch->kernel);
        if (kernel.items(launch->parameters) == 0) refuse(fmt::format("{} has no items", kernel.name));
        for (std::size_t i = 0; i < kernel.pointers.size(); ++i)
            if (launch->parameters.pointer(i) % pointer_alignment != 0)
                refuse(fmt::format("{}: pointer {} is no multiple of {}", kernel.name, i, pointer_alignment));
    } else if (const auto* copy = std::get_if<Copy>(&command)) {
        const auto& [source, target, label] = *copy;
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
    return Buffer(*this, of_device(*this, [&] { return do_allocate(bytes, memory); }));
}

std::size_t Device::scratch_bytes(const Launch& launch) const {
    return of_device(*this, [&] { return do_scratch_bytes(launch); });
}

Recording Device::record(std::span<const Command> commands, const Buffer* scratch) {
    check_usable();
    for (std::size_t i = 0; i < commands.size(); ++i) check_command(i, commands[i]);
    if (scratch != nullptr && scratch->device() != this) broken("record: the scratch memory is not its own");
    Recording recording(of_device(*this, [&] { return do_record(commands, scratch); }).release(), {this});
    recording->launches = has_launches(commands);
    return recording;
}

Ticket Device::submit(const Recording& recording, Queue queue, std::span<const Ticket> after) {
    check_usable();
    check_own("submit", recording);
    if (queue != Queue::compute && recording->launches)
        broken("submit: the recording has launches, which a copy queue cannot run");
    for (const Ticket ticket : after) check_issued("submit", ticket);

    Implied implied = implied_[index_of(queue)], last{};
    for (const Ticket ticket : after)
        if (const Pending* earlier = pending(ticket)) {
            raise(last[index_of(earlier->queue)], ticket);
            for (std::size_t i = 0; i < queue_count; ++i) raise(implied[i], earlier->implied[i]);
        }
    std::vector<Submission> waits;
    for (std::size_t i = 0; i < queue_count; ++i)
        if (last[i] > implied_[index_of(queue)][i]) waits.push_back({last[i], Queue(i)});
    const Submission submission{issued_ + 1, queue};
    try {
        of_device(*this, [&] { do_submit(*recording, submission, waits); });
    } catch (const std::exception& error) {
        failure_ = error.what();
        throw;
    }
    implied[index_of(queue)] = ++issued_;
    implied_[index_of(queue)] = implied;
    pending_.push_back({queue, implied});
    recording->last_submission = submission;
    return issued_;
}

void Device::wait(Ticket ticket) {
    check_usable();
    check_issued("wait", ticket);
    const Pending* const awaited = pending(ticket);
    if (awaited == nullptr) return;
    try {
        of_device(*this, [&] { do_wait({ticket, awaited->queue}); });
    } catch (const std::exception& error) {
        failure_ = error.what();
        throw;
    }
    for (std::size_t i = 0; i < queue_count; ++i) raise(finished_[i], awaited->implied[i]);
    while (!pending_.empty() && pending(issued_ - pending_.size() + 1) == nullptr) pending_.pop_front();
}

const Device::Pending* Device::pending(Ticket ticket) const {
    const Ticket dropped = issued_ - pending_.size();
    if (ticket <= dropped) return nullptr;
    const Pending& submission = pending_[ticket - dropped - 1];
    return ticket <= finished_[index_of(submission.queue)] ? nullptr : &submission;
}

void Device::finish() noexcept { do_finish(); }

std::vector<double> Device::timestamps(const Recording& recording) const {
    check_usable();
    check_own("timestamps", recording);
    const Ticket last = recording->last_submission.ticket;
    if (last == 0 || pending(last) != nullptr) broken("timestamps: the recording has not finished");
    return of_device(*this, [&] { return do_timestamps(*recording); });
}

} // namespace towers
