#include "engine/execution/session.h"

#include "backends/upload.h"
#include "engine/step/network.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace towers {

Session::Session(const Session& other, bool (*shares)(Arena)) : device_(other.device_), place_(other.place_) {
    for (std::size_t i = 0; i < arena_count; ++i)
        if (shares(Arena(i))) arenas_[i] = other.arenas_[i];
}

ArenaBytes Session::bytes() const {
    ArenaBytes bytes{};
    for (std::size_t i = 0; i < arena_count; ++i)
        if (arenas_[i]) bytes[i] = arenas_[i]->bytes();
    return bytes;
}

bool Session::holds(const ArenaBytes& bytes) const {
    return std::ranges::equal(bytes, this->bytes(), std::ranges::less_equal());
}

ArenaBytes Session::needs(const Plan& plan) const {
    ArenaBytes bytes = plan.bytes();
    std::size_t& scratch = bytes[std::size_t(Arena::scratch)];
    for (const Level& level : plan.levels()) {
        std::size_t of_level = 0;
        for (const Operation& operation : level)
            if (const auto* launch = std::get_if<Launch>(&operation.work))
                of_level += device_->scratch_bytes(*launch);
        scratch = std::max(scratch, of_level);
    }
    return bytes;
}

void Session::hold(const ArenaBytes& bytes) {
    for (std::size_t i = 0; i < arena_count; ++i) {
        const std::size_t before = arenas_[i] ? arenas_[i]->bytes() : 0;
        if (bytes[i] <= before) continue;
        const bool staging = place_ == Place::host || is_staging(Arena(i));
        const auto allocate = [&](std::size_t size) {
            const Memory memory = staging ? Memory::staging : Memory::device;
            arenas_[i] = std::make_shared<const Buffer>(device_->allocate(size, memory));
        };
        arenas_[i].reset(); // freed first: memory may not suffice for both
        try {
            allocate(bytes[i]);
        } catch (const OutOfMemory&) {
            if (before > 0) allocate(before);
            throw;
        }
    }
}

std::vector<Command> Session::bind(const Plan& plan, std::size_t first, std::size_t last) const {
    std::array<const Buffer*, arena_count> pointers{};
    std::ranges::transform(arenas_, pointers.begin(), [](const auto& arena) { return arena.get(); });
    return plan.bind(pointers, first, last);
}

Recording Session::record(const Plan& plan, std::size_t first, std::size_t last) const {
    return device_->record(bind(plan, first, last), arenas_[std::size_t(Arena::scratch)].get());
}

void Session::upload(Arena arena, std::span<const float> values) const {
    towers::upload(*device_, buffer(arena), std::as_bytes(values));
}

void Session::download(Arena arena, std::span<float> values) const {
    towers::download(*device_, buffer(arena), std::as_writable_bytes(values));
}

void Session::load(const DataSource& images) const { load_images(images, *device_, buffer(Arena::records)); }

void Session::write(const StepNumbers& numbers) const {
    const std::span<float> block = host<float>(Arena::staged_step);
    block[STEP_LEARNING_RATE] = numbers.learning_rate;
    block[STEP_AVERAGE_DECAY] = numbers.average_decay;
    block[STEP_CORRECTION_1] = numbers.correction_1;
    block[STEP_CORRECTION_2] = numbers.correction_2;
    block[STEP_FOLLOWS] = numbers.follows ? 1 : 0;
    block[STEP_LOSS_SCALE] = numbers.loss_scale;
    block[STEP_GRADIENT_SCALE] = 1 / numbers.loss_scale;
}

void Session::write(std::span<const Example> examples) const {
    static_assert(sizeof(Example) == sizeof(uvec4)); // as the kernels read them
    std::ranges::copy(examples,
                      host<Example>(Arena::staged_step).begin() + step_examples_offset / sizeof(Example));
}

void Session::write(const Batch& batch, std::span<const Example> placed) const {
    write(placed);
    const std::size_t share = batch.examples.size();
    const StepInputs at(share, !batch.mixes.empty(), batch.targets.size() / share);
    const std::span<std::byte> block = host<std::byte>(Arena::staged_step);
    const auto put = [&](std::size_t offset, const auto& values) {
        std::ranges::copy(std::as_bytes(values), block.begin() + std::ptrdiff_t(offset));
    };
    put(at.mixes, batch.mixes);
    put(at.targets, batch.targets);
    put(at.class_weights, batch.class_weights);
}

StepResults Session::results() const {
    const std::span<const float> values = host<float>(Arena::staged_results);
    return {values[RESULT_TOTAL_LOSS], values[RESULT_CROSS_ENTROPY],
            std::isfinite(values[RESULT_TOTAL_LOSS]) && values[RESULT_NONFINITE] == 0};
}

BufferSlice Session::slice(Arena arena, std::size_t offset, std::size_t bytes) const {
    return {&buffer(arena), offset, bytes};
}

} // namespace towers
