#include "engine/towers/tower.h"

#include "backends/upload.h"
#include "engine/error.h"
#include "engine/plan/micro_batches.h"
#include "engine/plan/work.h"
#include "engine/plural.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace towers {

namespace {

Buffer allocate_arena(Device& device, Arena arena, std::size_t bytes) {
    return device.allocate(bytes, is_staging(arena) ? Memory::staging : Memory::device);
}

/// Small arenas whose layout depends on the share, in which gaps must stay zero: each share has its own.
constexpr bool is_of_share(Arena arena) {
    return arena == Arena::step || arena == Arena::results || arena == Arena::staged_results ||
           arena == Arena::staged_exchanges;
}

/// The exchanges that come before a level.
std::vector<Exchange> exchanges_before(std::size_t level, const Plan& plan,
                                       std::span<const Buffer* const, arena_count> arenas) {
    std::vector<Exchange> exchanges;
    if (level == plan.levels().size()) return exchanges;
    const auto staged = [&](TensorId id) {
        const PlannedTensor& tensor = plan.tensors()[id.index()];
        return arenas[std::size_t(tensor.arena)]->host<float>().subspan(tensor.offset / sizeof(float),
                                                                        tensor.bytes / sizeof(float));
    };
    for (const Operation& operation : plan.levels()[level])
        if (const auto* planned = std::get_if<PlannedExchange>(&operation.work))
            exchanges.push_back({.merge = planned->merge,
                                 .values = planned->values,
                                 .given = {staged(planned->given[0]), staged(planned->given[1])},
                                 .merged = {staged(planned->merged[0]), staged(planned->merged[1])}});
    return exchanges;
}

/// The bytes of the largest arena of activations.
std::uint64_t largest_activations(const TrainingPlan& training) {
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < arena_count; ++i)
        if (is_of_activations(Arena(i))) largest = std::max(largest, training.bytes(Arena(i)));
    return largest;
}

/// A device's message without its name in front, for a line that has it already.
std::string_view without_name(std::string_view message, const DeviceInfo& info) {
    for (const std::string& name : {fmt::format("{} ({}): ", info.id, info.name), info.id + ": "})
        if (message.starts_with(name)) return message.substr(name.size());
    return message;
}

} // namespace

std::string to_string(const AtOnce& at_once) {
    if (at_once.micro_batches == 1) return "";
    return fmt::format("{} micro-batches of up to {}{}{}", at_once.micro_batches,
                       count_of(at_once.most, "example"), at_once.reason.empty() ? "" : ", because ",
                       at_once.reason);
}

std::array<Buffer, arena_count> allocate_arenas(Device& device, const Plan& plan, Feed& feed) {
    std::array<Buffer, arena_count> arenas;
    for (std::size_t i = 0; i < arena_count; ++i)
        if (const std::size_t bytes = plan.bytes(Arena(i)))
            arenas[i] = allocate_arena(device, Arena(i), bytes);
    feed.load(device, arenas[std::size_t(Arena::records)]);
    return arenas;
}

void write_numbers(const Buffer& step, const StepNumbers& numbers) {
    const std::span<float> block = step.host<float>();
    block[STEP_LEARNING_RATE] = numbers.learning_rate;
    block[STEP_AVERAGE_DECAY] = numbers.average_decay;
    block[STEP_CORRECTION_1] = numbers.correction_1;
    block[STEP_CORRECTION_2] = numbers.correction_2;
}

void write_step(const Buffer& step, const StepNumbers& numbers, std::span<const Example> examples) {
    write_numbers(step, numbers);
    static_assert(sizeof(Example) == sizeof(uvec4)); // as the kernels read them
    const auto target = step.host<Example>().subspan(step_examples_offset / sizeof(Example));
    std::copy(examples.begin(), examples.end(), target.begin());
}

StepResults read_results(const Buffer& staged_results) {
    const std::span<const float> values = staged_results.host<float>();
    return {values[RESULT_TOTAL_LOSS], values[RESULT_CROSS_ENTROPY],
            std::isfinite(values[RESULT_TOTAL_LOSS]) && values[RESULT_NONFINITE] == 0};
}

std::array<const Buffer*, arena_count> pointers_to(const std::array<Buffer, arena_count>& arenas) {
    std::array<const Buffer*, arena_count> pointers{};
    std::transform(arenas.begin(), arenas.end(), pointers.begin(), [](const Buffer& each) { return &each; });
    return pointers;
}

Tower::Tower(std::unique_ptr<Device> device, Feed& feed, Planner plan, unsigned share, Splitting splitting)
    : device_(std::move(device)), plan_(std::move(plan)), splitting_(std::move(splitting)) {
    for (bool loaded = false; !loaded;) {
        take(share);
        try {
            feed.load(*device_, held(Arena::records));
            loaded = true;
        } catch (const OutOfMemory& error) {
            if (!make_do(at_once(), error)) throw;
        }
    }
}

void Tower::take(unsigned share) {
    share_ = 0;
    program_ = nullptr;
    if (share == 0) return;
    auto found = programs_.find(share);
    if (found == programs_.end()) {
        constexpr std::size_t most_programs = 4; // a backend may keep a copy of the weights in each
        if (programs_.size() == most_programs)
            programs_.erase(std::ranges::min_element(
                programs_, {}, [](const auto& program) { return program.second.taken; }));
        Program made = make_program(share);
        found = programs_.emplace(share, std::move(made)).first;
    }
    program_ = &found->second;
    program_->taken = ++takes_;
    share_ = share;
}

/// Whether an arena takes of the memory that Device::free_memory() tells of.
bool Tower::counts(Arena arena) const {
    const DeviceKind kind = device_->info().kind;
    const bool is_host =
        kind == DeviceKind::cpu || kind == DeviceKind::integrated_gpu || kind == DeviceKind::software;
    return is_host || !is_staging(arena);
}

std::uint64_t Tower::memory() const {
    std::uint64_t bytes = 0;
    const auto add = [&](const std::array<Buffer, arena_count>& arenas) {
        for (std::size_t i = 0; i < arena_count; ++i)
            if (counts(Arena(i))) bytes += arenas[i].bytes();
    };
    add(held_);
    for (const auto& [share, program] : programs_) add(program.arenas);
    return bytes;
}

/// What a step needs, together with what the tower holds anyway.
std::uint64_t Tower::bytes_of(const TrainingPlan& training) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < arena_count; ++i)
        if (counts(Arena(i))) bytes += std::max(training.bytes(Arena(i)), held_[i].bytes());
    return bytes;
}

/// What there is for a step, together with what the tower holds. A tenth of what is free remains, for
/// recordings and for whoever else needs memory.
std::uint64_t Tower::room() const {
    const std::uint64_t free = device_->free_memory();
    if (free == Device::not_told) return free;
    std::uint64_t room = free - free / 10;
    for (std::size_t i = 0; i < arena_count; ++i)
        if (counts(Arena(i))) room += held_[i].bytes();
    return room;
}

/// How a share is to be computed, as far as can be told before memory is allocated.
AtOnce Tower::choose(unsigned share) const {
    const auto in_pieces = [&](unsigned most, std::string reason) -> AtOnce {
        const std::vector<unsigned> sizes = micro_batches(share, splitting_.group, most);
        return {unsigned(sizes.size()), sizes[0], std::move(reason)};
    };
    if (!splitting_.obstacle.empty()) return {1, share, ""};
    if (splitting_.most != 0 && splitting_.most <= most_) return in_pieces(splitting_.most, "");
    const std::uint64_t room = this->room(), largest = device_->info().largest_allocation;
    const auto obstacle = [&](unsigned most) -> std::string {
        const auto too_much = [](std::uint64_t needed, const char* what, std::uint64_t there) {
            constexpr double mib = 1 << 20;
            return fmt::format("all at once need {:.1f} MiB {} and {:.1f} MiB can be had",
                               double(needed) / mib, what, double(there) / mib);
        };
        try {
            const TrainingPlan training = plan_(share, most);
            if (const std::uint64_t all = bytes_of(training); all > room)
                return too_much(all, "of memory", room);
            if (const std::uint64_t piece = largest_activations(training); piece > largest)
                return too_much(piece, "in one piece", largest);
            return "";
        } catch (const UsageError&) { // more examples than kernels can count
            return "all at once are too large for a kernel";
        }
    };
    const unsigned fits =
        largest_that_fits(share, splitting_.group, [&](unsigned most) { return obstacle(most).empty(); });
    if (std::min(fits, most_) >= share) return {1, share, ""};
    if (most_ <= fits) return in_pieces(most_, refusal_);
    return in_pieces(fits, obstacle(share));
}

/// Makes the memory that shares have in common large enough for a step.
void Tower::hold(const TrainingPlan& training) {
    for (std::size_t i = 0; i < arena_count; ++i) {
        const std::size_t before = held_[i].bytes(), wanted = training.bytes(Arena(i));
        if (is_of_share(Arena(i)) || wanted <= before) continue;
        programs_.clear(); // they know the old address
        held_[i] = {};     // now: the memory may not suffice for both
        try {
            held_[i] = allocate_arena(*device_, Arena(i), wanted);
        } catch (const OutOfMemory& error) {
            if (before > 0) held_[i] = allocate_arena(*device_, Arena(i), before);
            if (splitting_.obstacle.empty()) throw;
            throw OutOfMemory(fmt::format("{}; {}", error.what(), splitting_.obstacle));
        }
    }
}

/// After a refusal: frees what a step alone needs, and computes fewer examples at once from now on. False:
/// there are no fewer.
bool Tower::make_do(const AtOnce& failed, const OutOfMemory& error) {
    const unsigned groups = failed.most / splitting_.group;
    if (groups < 2 || !splitting_.obstacle.empty()) return false;
    most_ = groups / 2 * splitting_.group;
    refusal_ = fmt::format("more were refused: {}", without_name(error.what(), device_->info()));
    programs_.clear();
    for (std::size_t i = 0; i < arena_count; ++i)
        if (is_of_activations(Arena(i)) || Arena(i) == Arena::micro_batch) held_[i] = {};
    return true;
}

Tower::Program Tower::make_program(unsigned share) {
    for (;;) {
        const AtOnce at_once = choose(share);
        try {
            return record(share, at_once);
        } catch (const OutOfMemory& error) {
            if (!make_do(at_once, error)) throw;
        }
    }
}

Tower::Program Tower::record(unsigned share, const AtOnce& at_once) {
    const TrainingPlan training = plan_(share, at_once.most);
    hold(training);
    if (uploads_.empty()) make_transfers(training);
    Program program;
    program.at_once = at_once;
    std::array<const Buffer*, arena_count> arenas = pointers_to(held_);
    for (std::size_t i = 0; i < arena_count; ++i)
        if (is_of_share(Arena(i)) && training.bytes(Arena(i)) > 0) {
            program.arenas[i] = allocate_arena(*device_, Arena(i), training.bytes(Arena(i)));
            arenas[i] = &program.arenas[i];
        }
    program.flops = flops_of(training.plan);
    for (const std::size_t i : training.order) program.flops += flops_of(training.micro_plans[i]);
    for (const Plan& plan : training.micro_plans)
        program.micro_recordings.push_back(device_->record(plan.bind(arenas, 0, plan.levels().size())));
    program.order = training.order;
    const Plan& plan = training.plan;
    std::size_t first = 0;
    for (const Cut& cut : training.cuts) {
        program.parts.push_back({device_->record(plan.bind(arenas, first, cut.level)), cut,
                                 exchanges_before(cut.level, plan, arenas)});
        first = cut.level;
    }
    return program;
}

/// Of a tower of several; the arenas that they use stay where they are.
void Tower::make_transfers(const TrainingPlan& training) {
    std::vector<Transfer> uploads, downloads; // none, if one is refused
    const std::size_t trained = training.plan.bytes(Arena::staged_parameters);
    for (const ArenaRange& bucket : training.buckets) {
        const auto transfer = [&](Arena from, Arena to, std::size_t bytes) {
            if (bytes == 0) return Transfer{};
            const std::string label =
                fmt::format("{} {}", to == Arena::state ? "parameters" : "gradients", uploads.size());
            const std::vector<Command> copy{
                Copy{{&held(from), bucket.offset, bytes}, {&held(to), bucket.offset, bytes}, label}};
            return Transfer{device_->record(copy)};
        };
        const std::size_t end = std::min(trained, bucket.offset + bucket.bytes); // statistics lie behind
        downloads.push_back(transfer(Arena::gradients, Arena::staged_gradients, bucket.bytes));
        uploads.push_back(
            transfer(Arena::staged_parameters, Arena::state, std::max(end, bucket.offset) - bucket.offset));
    }
    buckets_ = training.buckets;
    uploads_ = std::move(uploads);
    downloads_ = std::move(downloads);
}

void Tower::prepare(const StepNumbers& numbers, std::span<const Example> examples) {
    if (program_) write_step(program_->arenas[std::size_t(Arena::step)], numbers, examples);
}

std::span<const Tower::Part> Tower::parts() const {
    return program_ ? std::span<const Part>(program_->parts) : std::span<const Part>();
}

/// What comes before the parts of a share that is not computed at once: it reads all parameters.
void Tower::submit_micro_batches() {
    std::vector<Ticket> parameters;
    for (const Transfer& upload : uploads_)
        if (upload.ticket != 0) parameters.push_back(upload.ticket);
    for (const std::size_t i : program_->order)
        device_->submit(program_->micro_recordings[i], Queue::compute, std::exchange(parameters, {}));
}

void Tower::submit_from(std::size_t first) {
    if (first == 0 && program_) submit_micro_batches();
    std::size_t complete = first == 0 ? 0 : program_->parts[first - 1].cut.buckets;
    for (std::size_t i = first; i < parts().size(); ++i) {
        Part& part = program_->parts[i];
        std::vector<Ticket> parameters;
        for (const std::size_t bucket : part.cut.needs)
            if (const Ticket ticket = uploads_[bucket].ticket) parameters.push_back(ticket);
        part.ticket = device_->submit(part.recording, Queue::compute, parameters);
        for (; complete < part.cut.buckets; ++complete)
            downloads_[complete].ticket =
                device_->submit(downloads_[complete].recording, Queue::download, std::span(&part.ticket, 1));
        if (!part.exchanges.empty()) return;
    }
}

void Tower::wait_for_parameters() {
    if (!program_) return;
    const auto wait = [&](const Transfer& upload) {
        if (upload.ticket != 0) device_->wait(upload.ticket);
    };
    if (!program_->order.empty()) // micro-batches read all
        std::ranges::for_each(uploads_, wait);
    else
        for (const std::size_t bucket : program_->parts.front().cut.needs) wait(uploads_[bucket]);
}

void Tower::wait_for_bucket(std::size_t bucket) { device_->wait(downloads_[bucket].ticket); }

void Tower::upload(std::size_t bucket) {
    Transfer& upload = uploads_[bucket];
    if (upload.recording) upload.ticket = device_->submit(upload.recording, Queue::upload);
}

void Tower::wait(std::size_t part) { device_->wait(program_->parts[part].ticket); }

StepResults Tower::results() const {
    return program_ ? read_results(program_->arenas[std::size_t(Arena::staged_results)])
                    : StepResults{0, 0, true};
}

void Tower::load(std::span<const float> state) {
    towers::upload(*device_, held(Arena::state), std::as_bytes(state));
}

void Tower::save(std::span<float> state) {
    download(*device_, held(Arena::state), std::as_writable_bytes(state));
}

void Tower::save_gradients(std::span<float> gradients) {
    download(*device_, held(Arena::gradients), std::as_writable_bytes(gradients));
}

} // namespace towers
