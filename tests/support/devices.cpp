#include "tests/support/devices.h"

#include <cstdio>
#include <map>
#include <stdexcept>

namespace towers::test {

namespace {
SharingLimits sharing;
} // namespace

ShareOut::ShareOut(const SharingLimits& limits) : before_(sharing) { sharing = limits; }
ShareOut::~ShareOut() { sharing = before_; }

OpenOptions open_options() { return {.threads = 0, .validate = true, .overrides = true, .limits = &sharing}; }

const std::vector<std::string>& device_ids() {
    static const std::vector<std::string> ids = [] {
        std::vector<std::string> found;
        for (const Backend* backend : all_backends()) {
            const Backend::Listing listing = backend->list(open_options());
            if (listing.devices.empty())
                std::printf("SKIPPED %s: %s\n", std::string(backend->name()).c_str(),
                            listing.absence.c_str());
            for (const DeviceInfo& info : listing.devices) {
                std::printf("testing on %s: %s, %s\n", info.id.c_str(), info.name.c_str(),
                            info.driver.c_str());
                found.push_back(info.id);
            }
        }
        return found;
    }();
    return ids;
}

namespace {
std::map<std::string, std::unique_ptr<Device>> opened;
unsigned expected_messages = 0;
} // namespace

Device& device(const std::string& id) {
    auto& slot = opened[id];
    if (!slot) slot = open_device(id, open_options());
    return *slot;
}

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

struct WrappedRecording : RecordingState {
    Recording recording; // the other device's
    explicit WrappedRecording(Recording theirs) : recording(std::move(theirs)) {}
};

} // namespace

std::unique_ptr<Allocation> WrappedDevice::do_allocate(std::size_t bytes, Memory memory) {
    return std::make_unique<WrappedAllocation>(device_->allocate(bytes, memory), buffers_);
}

std::unique_ptr<RecordingState> WrappedDevice::do_record(std::span<const Command> commands) {
    std::vector<Command> theirs(commands.begin(), commands.end());
    for (Command& command : theirs)
        if (auto* copy = std::get_if<Copy>(&command))
            for (BufferSlice* slice : {&copy->source, &copy->target}) {
                if (slice->buffer->device() != this) continue;
                slice->buffer = &static_cast<const WrappedAllocation&>(slice->buffer->allocation()).buffer;
            }
    return std::make_unique<WrappedRecording>(device_->record(theirs));
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

void FailingDevice::count(Verb verb) {
    if (verb == failure_.verb && failure_.calls_left-- == 0) failure_.lost = true;
    if (!failure_.lost) return;
    if (failure_.silent != nullptr) failure_.silent->wait(true); // behind which the failure may be gone
    throw DeviceError("refused");
}

std::unique_ptr<Allocation> FailingDevice::do_allocate(std::size_t bytes, Memory memory) {
    count(Verb::allocate);
    return WrappedDevice::do_allocate(bytes, memory);
}

std::unique_ptr<RecordingState> FailingDevice::do_record(std::span<const Command> commands) {
    count(Verb::record);
    return WrappedDevice::do_record(commands);
}

void FailingDevice::do_submit(const RecordingState& recording, Submission submission,
                              std::span<const Submission> after) {
    count(Verb::submit);
    WrappedDevice::do_submit(recording, submission, after);
}

void FailingDevice::do_wait(Submission submission) {
    count(Verb::wait);
    WrappedDevice::do_wait(submission);
}

void expect_validation_messages(unsigned count) { expected_messages += count; }
unsigned expected_validation_messages() { return expected_messages; }

void close_devices() { opened.clear(); }

} // namespace towers::test
