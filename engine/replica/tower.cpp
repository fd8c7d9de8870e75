#include "engine/replica/tower.h"

#include "engine/plan/work.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace towers {

namespace {

/// Small arenas of which each share has its own: their layout depends on the share, and gaps must stay zero.
constexpr bool is_of_share(Arena arena) {
    return arena == Arena::step || arena == Arena::results || arena == Arena::staged_step ||
           arena == Arena::staged_results || arena == Arena::staged_exchanges;
}

/// Of those, the ones that the host uses before and after a step. Each step that can be in flight has its
/// own.
constexpr bool is_of_step(Arena arena) {
    return arena == Arena::staged_step || arena == Arena::staged_results;
}

/// The exchanges that come before a level.
std::vector<Exchange> exchanges_before(std::size_t level, const Plan& plan, const Session& session) {
    std::vector<Exchange> exchanges;
    if (level == plan.levels().size()) return exchanges;
    const auto staged = [&](TensorId id) { return session.host<float>(plan.tensors()[id.index()]); };
    for (const Operation& operation : plan.levels()[level])
        if (const auto* planned = std::get_if<PlannedExchange>(&operation.work))
            exchanges.push_back({.merge = planned->merge,
                                 .values = planned->values,
                                 .given = {staged(planned->given[0]), staged(planned->given[1])},
                                 .merged = {staged(planned->merged[0]), staged(planned->merged[1])}});
    return exchanges;
}

/// A device's message without the leading device name, for a line that has it already.
std::string without_name(std::string_view message, const DeviceInfo& info) {
    for (const std::string& name : {fmt::format("{} ({}): ", info.id, info.name), info.id + ": "})
        if (message.starts_with(name)) return std::string(message.substr(name.size()));
    return std::string(message);
}

} // namespace

Tower::Tower(std::unique_ptr<Device> device, const DataSource* images, Planner plan, const Share& share,
             Splitting splitting)
    : device_(std::move(device)), plan_(std::move(plan)), micro_batching_(std::move(splitting)) {
    for (bool uploaded = false; !uploaded;) {
        take(share);
        try {
            if (images != nullptr) session_.load(*images);
            uploaded = true;
        } catch (const OutOfMemory& error) {
            if (!halve(at_once(), error) && !save_scratch(error)) throw;
        }
    }
}

std::uint64_t Tower::memory() const {
    std::uint64_t bytes = counted_bytes(session_.bytes(), info().kind);
    const auto count = [&](const Session& session, bool (*counts)(Arena)) {
        ArenaBytes own = session.bytes();
        for (std::size_t i = 0; i < arena_count; ++i)
            if (!counts(Arena(i))) own[i] = 0;
        bytes += counted_bytes(own, info().kind);
    };
    for (const auto& [share, program] : programs_) {
        count(program.session, is_of_share);
        for (const RecordedStep& step : program.steps) count(step.session, is_of_step);
    }
    return bytes + (tests_ ? counted_bytes(tests_->records.bytes(), info().kind) : 0);
}

void Tower::take(const Share& share) {
    share_ = {};
    program_ = nullptr;
    if (share.examples == 0) return;
    auto found = programs_.find(share);
    if (found == programs_.end()) {
        constexpr std::size_t most_programs = 4; // few: a backend may keep a copy of the weights in each
        if (programs_.size() == most_programs)
            programs_.erase(std::ranges::min_element(
                programs_, {}, [](const auto& program) { return program.second.taken; }));
        Program made = make_program(share);
        found = programs_.emplace(share, std::move(made)).first;
    }
    program_ = &found->second;
    program_->taken = ++takes_;
    if (program_->images) program_->images->forget();
    share_ = share;
}

void Tower::record_again() {
    const Share share = share_;
    program_ = nullptr;
    programs_.clear();
    take(share);
}

Tower::Program Tower::make_program(const Share& share) {
    for (;;) {
        const MemoryBudget memory{.kind = info().kind,
                                  .free = device_->free_memory(),
                                  .largest_allocation = info().largest_allocation,
                                  .held = session_.bytes()};
        const AtOnce at_once =
            micro_batching_.choose(share, memory, [&](unsigned most) { return needs(plan_(share, most)); });
        try {
            Program program = record(plan_(share, at_once.most));
            program.at_once = at_once;
            return program;
        } catch (const OutOfMemory& error) {
            if (!halve(at_once, error) && !save_scratch(error)) throw;
        }
    }
}

/// What the step's arenas need, with scratch memory for each recording in turn.
ArenaBytes Tower::needs(const TrainingPlan& training) const {
    ArenaBytes most{};
    for (const Plan* const plan : training.plans())
        std::ranges::transform(most, session_.needs(*plan), most.begin(), std::ranges::max);
    return most;
}

Tower::Program Tower::record(const TrainingPlan& training) {
    hold(needs(training));
    if (uploads_.empty()) make_transfers(training);
    const bool keeps = training.plan.bytes(Arena::staged_state) > 0;
    if (keeps && !keeps_[0].recording) make_keeps();
    Program program{.session = Session(session_, [](Arena arena) { return !is_of_share(arena); })};
    ArenaBytes bytes = training.bytes();
    for (std::size_t i = 0; i < arena_count; ++i)
        if (is_of_step(Arena(i))) bytes[i] = 0;
    program.session.hold(bytes);
    program.flops = flops_of(training.plan);
    for (const std::size_t i : training.order) program.flops += flops_of(training.micro_plans[i]);
    program.order = training.order;
    if (training.plan.bytes(Arena::staged_records) > 0)
        program.images.emplace(program.session, training.plan.find(staged_records).bytes);
    program.keeps = keeps;
    const std::size_t in_flight = training.updates && info().kind != DeviceKind::cpu ? 2 : 1;
    while (program.steps.size() < in_flight) {
        try {
            program.steps.push_back(record_step(training, program.session));
        } catch (const OutOfMemory&) { // one does too
            if (program.steps.empty()) throw;
            break;
        }
    }
    return program;
}

Tower::RecordedStep Tower::record_step(const TrainingPlan& training, const Session& program) const {
    RecordedStep step{.session = Session(program, [](Arena arena) { return !is_of_step(arena); })};
    const Session& session = step.session;
    step.session.hold(training.bytes());
    for (const Plan& plan : training.micro_plans) step.micro_recordings.push_back(session.record(plan));
    std::size_t first = 0;
    for (const Cut& cut : training.cuts) {
        step.segments.push_back({session.record(training.plan, first, cut.level), cut,
                                 exchanges_before(cut.level, training.plan, session)});
        first = cut.level;
    }
    return step;
}

/// Enlarges the arenas that all shares use, if a step needs it.
void Tower::hold(ArenaBytes bytes) {
    for (std::size_t i = 0; i < arena_count; ++i)
        if (is_of_share(Arena(i))) bytes[i] = 0;
    if (!session_.holds(bytes)) programs_.clear(); // they know the old addresses
    if (bytes[std::size_t(Arena::state)] > session_.bytes()[std::size_t(Arena::state)]) { // so do these
        for (const Transfer& upload : uploads_)
            if (upload.ticket != 0) device_->wait(upload.ticket);
        uploads_.clear();
        frozen_ = {};
        keeps_ = {};
    }
    try {
        session_.hold(bytes);
    } catch (const OutOfMemory& error) {
        if (micro_batching_.obstacle().empty()) throw;
        throw OutOfMemory(fmt::format("{}; {}", error.what(), micro_batching_.obstacle()));
    }
}

/// Makes the copies for one of several towers. The addresses of their arenas change only if the state grows,
/// when the tower first has all examples.
void Tower::make_transfers(const TrainingPlan& training) {
    std::vector<Transfer> uploads, downloads; // kept only if all could be made
    const auto transfer = [&](Arena from, Arena to, const ArenaRange& range, const std::string& label) {
        if (range.bytes == 0) return Transfer{};
        const std::vector<Command> copy{Copy{session_.slice(from, range.offset, range.bytes),
                                             session_.slice(to, range.offset, range.bytes), label}};
        return Transfer{device_->record(copy)};
    };
    const std::size_t trained = training.trained.bytes;
    for (const ArenaRange& bucket : training.buckets) {
        const std::size_t end = std::min(trained, bucket.offset + bucket.bytes); // statistics follow
        downloads.push_back(transfer(Arena::gradients, Arena::staged_gradients, bucket,
                                     fmt::format("gradients {}", uploads.size())));
        uploads.push_back(transfer(Arena::staged_parameters, Arena::state,
                                   {bucket.offset, std::max(end, bucket.offset) - bucket.offset},
                                   fmt::format("parameters {}", uploads.size())));
    }
    frozen_ = transfer(Arena::staged_parameters, Arena::state, training.frozen, "frozen variables");
    buckets_ = training.buckets;
    uploads_ = std::move(uploads);
    downloads_ = std::move(downloads);
}

void Tower::make_keeps() {
    const std::size_t bytes = session_.bytes()[std::size_t(Arena::staged_state)] / staged_states;
    for (std::size_t place = 0; place < staged_states; ++place) {
        const std::vector<Command> copy{Copy{session_.slice(Arena::state, 0, bytes),
                                             session_.slice(Arena::staged_state, place * bytes, bytes),
                                             "state"}};
        keeps_[place] = {device_->record(copy)};
    }
}

/// After a failed allocation: frees the memory of steps, and computes fewer examples at once from now on.
/// Returns false if it is one group already.
bool Tower::halve(const AtOnce& refused, const OutOfMemory& error) {
    if (!micro_batching_.halve(refused, without_name(error.what(), info()))) return false;
    free_steps();
    return true;
}

/// Likewise if nothing can be halved: computes in ways that need little scratch memory from now on. Returns
/// false if there are no others.
bool Tower::save_scratch(const OutOfMemory& error) {
    if (!device_->save_scratch()) return false;
    micro_batching_.save_scratch(without_name(error.what(), info()));
    free_steps();
    return true;
}

void Tower::free_steps() {
    programs_.clear();
    for (std::size_t i = 0; i < arena_count; ++i)
        if (is_transient(Arena(i)) || Arena(i) == Arena::micro_batch) session_.release(Arena(i));
}

void Tower::prepare(const StepNumbers& numbers, const Batch& examples) {
    if (!program_) return;
    program_->turn = (program_->turn + 1) % program_->steps.size();
    const Session& session = program_->step().session;
    session.write(numbers);
    if (program_->images)
        session.write(examples, program_->images->choose(examples));
    else
        session.write(examples);
}

void Tower::stage(const Batch& examples) {
    if (program_ && program_->images) program_->images->stage(examples);
}

void Tower::prefetch(const Batch& examples) {
    if (!examples.examples.empty()) program_->images->prefetch(examples);
}

void Tower::upload_prefetched() { program_->images->upload_prefetched(); }

std::span<const Tower::Segment> Tower::segments() const {
    return program_ ? std::span<const Segment>(program_->step().segments) : std::span<const Segment>();
}

/// Submits the micro-batches, which come before the segments and read all parameters.
void Tower::submit_micro_batches(std::vector<Ticket> after) {
    for (const Transfer& upload : uploads_)
        if (upload.ticket != 0) after.push_back(upload.ticket);
    for (const std::size_t i : program_->order)
        device_->submit(program_->step().micro_recordings[i], Queue::compute, std::exchange(after, {}));
}

void Tower::submit_from(std::size_t first) {
    if (!program_) return;
    std::vector<Ticket> images; // what comes first reads them
    if (first == 0) {
        if (program_->images) images.push_back(program_->images->upload());
        submit_micro_batches(images);
    }
    std::vector<Segment>& segments = program_->step().segments;
    std::size_t complete = first == 0 ? 0 : segments[first - 1].cut.buckets;
    for (std::size_t i = first; i < segments.size(); ++i) {
        Segment& segment = segments[i];
        std::vector<Ticket> after = std::exchange(images, {});
        for (const std::size_t bucket : segment.cut.needs)
            if (const Ticket ticket = uploads_[bucket].ticket) after.push_back(ticket);
        const bool updates = program_->keeps && i + 1 == segments.size();
        if (const Ticket ticket = keeps_[place_].ticket; updates && ticket != 0) after.push_back(ticket);
        segment.ticket = device_->submit(segment.recording, Queue::compute, after);
        for (; complete < segment.cut.buckets; ++complete)
            downloads_[complete].ticket = device_->submit(downloads_[complete].recording, Queue::download,
                                                          std::span(&segment.ticket, 1));
        if (updates) keep_state();
        if (!segment.exchanges.empty()) return;
    }
}

/// Copies the state to the next place, after the last segment.
void Tower::keep_state() {
    RecordedStep& step = program_->step();
    step.keeps = place_ = (place_ + 1) % staged_states;
    keeps_[place_].ticket = device_->submit(keeps_[place_].recording, Queue::download,
                                            std::span(&step.segments.back().ticket, 1));
}

void Tower::wait(std::size_t segment) { device_->wait(program_->step().segments[segment].ticket); }

StepResults Tower::finish() { return finish(program_->step()); }

StepResults Tower::finish_earlier() {
    return finish(program_->steps[(program_->turn + 1) % program_->steps.size()]);
}

StepResults Tower::finish(const RecordedStep& step) {
    device_->wait(step.segments.back().ticket);
    if (program_->keeps) {
        device_->wait(keeps_[step.keeps].ticket);
        kept_ = step.keeps;
    }
    return step.session.results();
}

StepResults Tower::results() const {
    return program_ ? program_->step().session.results() : StepResults{0, 0, true};
}

void Tower::wait_for_parameters() {
    if (!program_) return;
    const auto wait = [&](const Transfer& upload) {
        if (upload.ticket != 0) device_->wait(upload.ticket);
    };
    if (!program_->order.empty()) // micro-batches read all
        std::ranges::for_each(uploads_, wait);
    else
        for (const std::size_t bucket : segments().front().cut.needs) wait(uploads_[bucket]);
}

void Tower::wait_for_bucket(std::size_t bucket) { device_->wait(downloads_[bucket].ticket); }

void Tower::upload(std::size_t bucket) {
    Transfer& upload = uploads_[bucket];
    if (upload.recording) upload.ticket = device_->submit(upload.recording, Queue::upload);
}

void Tower::upload_frozen() {
    if (frozen_.recording) device_->wait(device_->submit(frozen_.recording, Queue::upload));
}

std::span<float> Tower::kept_state() const {
    const auto all = session_.host<float>(Arena::staged_state);
    const std::size_t size = all.size() / staged_states;
    return all.subspan(kept_ * size, size);
}

void Tower::load_state() {
    for (const Transfer& upload : uploads_) // of an earlier state's parameters
        if (upload.ticket != 0) device_->wait(upload.ticket);
    session_.upload(Arena::state, kept_state());
    place_ = kept_;
}

void Tower::load_tests(TestData data) {
    ArenaBytes bytes{};
    if (!data.streamed) bytes[std::size_t(Arena::records)] = data.plan(1).bytes(Arena::records);
    tests_.emplace(Tests{std::move(data), Session(*device_)});
    while (!tests_->data.streamed && tests_->data.source) {
        try {
            tests_->records.hold(bytes);
            tests_->records.load(*tests_->data.source);
            tests_->data.source.reset();
        } catch (const OutOfMemory& error) {
            const Share share = share_;
            if (!halve(at_once(), error) && !save_scratch(error))
                throw OutOfMemory(fmt::format("{}; the test examples take {:.1f} MiB", error.what(),
                                              double(bytes[std::size_t(Arena::records)]) / (1 << 20)));
            take(share);
        }
    }
}

ForwardPass Tower::forward_pass(unsigned batch) const {
    Session session(session_, is_transient);
    session.borrow(session_, Arena::gradients, Arena::state);
    session.borrow(tests_->records, Arena::records, Arena::records);
    return {std::move(session), tests_->data.plan(batch), tests_->data.head};
}

bool Tower::test(std::span<const float> variables, std::span<const Example> examples,
                 const PredictionSpan& predictions, const PassWatch& watch) {
    std::size_t batch = std::min<std::size_t>(at_once().most, examples.size());
    std::optional<ForwardPass> pass;
    while (batch > 0 && !pass) {
        try {
            pass.emplace(forward_pass(unsigned(batch)));
        } catch (const OutOfMemory&) {
            if (batch == 1) throw;
            batch /= 2;
        }
    }
    if (pass) pass->load(variables);
    return !pass ||
           pass->run(examples, {tests_->data.source.get(), tests_->data.readers}, predictions, watch);
}

} // namespace towers
