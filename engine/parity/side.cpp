#include "engine/parity/side.h"

#include "engine/plan/network.h"
#include "engine/towers/upload.h"

#include <algorithm>
#include <iterator>

namespace towers {

std::vector<WrittenTensor> written_in(const Plan& plan, const Level& level) {
    std::vector<WrittenTensor> all;
    std::size_t end = 0;
    const auto add = [&](const Operation& operation, TensorId tensor, bool words, bool read) {
        const std::size_t bytes = plan.tensors()[tensor.index()].bytes;
        all.push_back({&operation, tensor, words, read, end, bytes});
        end += aligned(bytes);
    };
    for (const Operation& operation : level) {
        if (const auto* copy = std::get_if<PlannedCopy>(&operation.work)) {
            add(operation, copy->target, false, false);
            continue;
        }
        const Launch& launch = std::get<Launch>(operation.work);
        const KernelInfo& kernel = kernel_info(launch.kernel);
        for (std::size_t i = 0; i < kernel.pointers.size(); ++i) {
            const TensorId tensor = TensorId::of(launch.parameters.pointer(i));
            if (!tensor || kernel.pointers[i] == Access::read) continue;
            add(operation, tensor, kernel.elements[i] == Element::word,
                kernel.pointers[i] == Access::read_write);
        }
    }
    return all;
}

ParitySide::ParitySide(Device& device, const Plan& plan, const Dataset& data, std::size_t window_bytes)
    : device_(device), plan_(plan), arenas_(allocate_arenas(device, plan, data)),
      window_(device.allocate(window_bytes, Memory::staging)) {}

void ParitySide::prepare(std::span<const float> parameters, const StepNumbers& numbers,
                         std::span<const Example> examples) {
    upload(device_, arena(Arena::parameters), std::as_bytes(parameters));
    upload(device_, arena(Arena::averages), std::as_bytes(parameters));
    write_step(arena(Arena::step), numbers, examples);
}

void ParitySide::start(std::size_t level, std::span<const WrittenTensor> written) {
    std::vector<Command> commands;
    for (const WrittenTensor& each : written) {
        if (each.read) continue;
        std::ranges::fill(words(each), unwritten);
        commands.push_back(Copy{window(each), memory(each)});
    }
    commands.push_back(Barrier{});
    std::ranges::copy(plan_.bind(pointers_to(arenas_), level, level + 1), std::back_inserter(commands));
    commands.push_back(Barrier{});
    for (const WrittenTensor& each : written) commands.push_back(Copy{memory(each), window(each)});
    recording_ = device_.record(commands);
    ticket_ = device_.submit(recording_);
}

void ParitySide::finish() { device_.wait(ticket_); }

void ParitySide::adopt(const ParitySide& other, std::span<const WrittenTensor> written) {
    std::vector<Command> commands;
    for (const WrittenTensor& each : written) {
        std::ranges::copy(other.words(each), words(each).begin());
        commands.push_back(Copy{window(each), memory(each)});
    }
    device_.run(commands);
}

BufferSlice ParitySide::window(const WrittenTensor& written) const {
    return {&window_, written.window_offset, written.bytes};
}

BufferSlice ParitySide::memory(const WrittenTensor& written) const {
    const PlannedTensor& tensor = plan_.tensors()[written.tensor.index()];
    return {&arena(tensor.arena), tensor.offset, tensor.bytes};
}

} // namespace towers
