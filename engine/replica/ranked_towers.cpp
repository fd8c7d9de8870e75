#include "engine/replica/ranked_towers.h"

#include "backends/error.h"
#include "engine/ranks/message.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <type_traits>

namespace towers {
namespace {

/// What rank 0 tells the others to do.
enum class Order : std::uint64_t {
    end,
    facts,
    take,
    record_again,
    tune,
    step,
    dry_run,
    test,
    load,
    save,
    save_gradients,
    summarize,
    find_culprit,
};

static_assert(std::is_trivially_copyable_v<StepNumbers> && std::is_trivially_copyable_v<Share> &&
              std::is_trivially_copyable_v<Prediction> && std::is_trivially_copyable_v<StepResults>);

/// How an order ended on a rank.
enum class Outcome : std::uint64_t { well, tower_failed, others_failed };

/// What kind of error a device had.
enum class Kind : std::uint64_t { plain, out_of_memory, lost, no_answer };

Kind kind_of(const DeviceError& error) {
    if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) return Kind::out_of_memory;
    if (dynamic_cast<const NoAnswer*>(&error) != nullptr) return Kind::no_answer;
    if (dynamic_cast<const DeviceLost*>(&error) != nullptr) return Kind::lost;
    return Kind::plain;
}

/// The same error on another rank.
TowerFailed failure_of(Kind kind, const std::string& what, std::size_t tower, unsigned share) {
    const auto failed = [&](const auto& error) {
        return TowerFailed(error, std::make_exception_ptr(error), tower, share);
    };
    switch (kind) {
    case Kind::out_of_memory:
        return failed(OutOfMemory(what));
    case Kind::lost:
        return failed(DeviceLost(what));
    case Kind::no_answer:
        return failed(NoAnswer(what));
    case Kind::plain:
        break;
    }
    return failed(DeviceError(what));
}

Kind kind_of(const TowerFailed& failed) {
    try {
        std::rethrow_exception(failed.cause);
    } catch (const DeviceError& error) {
        return kind_of(error);
    } catch (...) {
        return Kind::plain;
    }
}

void put(Writer& message, const TowerFacts& facts) {
    const DeviceInfo& info = facts.info;
    for (const std::string* text :
         {&facts.name, &facts.host, &info.id, &info.name, &info.vendor, &info.driver, &info.withheld,
          &facts.at_once.reason, &facts.at_once.saves})
        message.put(std::string_view(*text));
    message.put(info.uuid);
    for (const std::uint64_t number :
         {std::uint64_t(info.kind), info.memory, info.largest_allocation, std::uint64_t(info.queues),
          std::uint64_t(info.subgroup_size), std::uint64_t(info.compute_units),
          std::uint64_t(info.unused_units), std::uint64_t(facts.share),
          std::uint64_t(facts.at_once.micro_batches), std::uint64_t(facts.at_once.most),
          std::uint64_t(facts.at_once.recorded), facts.memory, std::uint64_t(info.units.size())})
        message.put(number);
    message.put(std::span<const Precision>(info.units));
}

TowerFacts get_facts(Reader& reader) {
    TowerFacts facts;
    DeviceInfo& info = facts.info;
    for (std::string* text : {&facts.name, &facts.host, &info.id, &info.name, &info.vendor, &info.driver,
                              &info.withheld, &facts.at_once.reason, &facts.at_once.saves})
        *text = reader.text();
    info.uuid = reader.get<decltype(info.uuid)>();
    const auto number = [&] { return reader.get<std::uint64_t>(); };
    info.kind = DeviceKind(number());
    info.memory = number();
    info.largest_allocation = number();
    info.queues = unsigned(number());
    info.subgroup_size = unsigned(number());
    info.compute_units = unsigned(number());
    info.unused_units = number() != 0;
    facts.share = unsigned(number());
    facts.at_once.micro_batches = unsigned(number());
    facts.at_once.most = unsigned(number());
    facts.at_once.recorded = unsigned(number());
    facts.memory = number();
    const std::span<const Precision> units = reader.get<Precision>(number());
    info.units.assign(units.begin(), units.end());
    return facts;
}

unsigned sum_of(std::span<const Share> shares) {
    unsigned sum = 0;
    for (const Share& share : shares) sum += share.examples;
    return sum;
}

/// The part of `examples` test examples that the towers before this one take.
std::size_t tests_before(std::size_t tower, std::size_t examples, std::span<const Share> shares) {
    return examples * sum_of(shares.first(tower)) / sum_of(shares);
}

/// The facts of this rank's towers, by the names that they have in the run.
std::vector<TowerFacts> facts_of_own(const TowerGroup& towers) {
    std::vector<TowerFacts> all;
    for (std::size_t i = 0; i < towers.size(); ++i) all.push_back(towers.facts(i));
    return all;
}

/// The failure of a tower, here or on another rank, that has ended the step; null: none has.
std::exception_ptr failure_of_step(const std::function<void()>& step) {
    try {
        step();
        return nullptr;
    } catch (const TowerFailed&) {
        return std::current_exception();
    } catch (const OthersFailed&) {
        return std::current_exception();
    }
}

/// Does one order.
class Follower {
public:
    Follower(Courier& courier, const TowerRanks& ranks, const Followed& followed)
        : courier_(courier), ranks_(ranks), followed_(followed), first_(ranks.first(courier.rank())),
          count_(ranks.counts[courier.rank()]) {}

    /// Returns false if it was the last.
    bool obey(const Bytes& order) {
        Reader reader(order);
        const auto what = reader.get<Order>();
        TowerGroup& towers = followed_.towers;
        switch (what) {
        case Order::end:
            return false;
        case Order::facts:
            answer_facts();
            return true;
        case Order::take: {
            const std::span<const Share> shares = reader.get<Share>(ranks_.all());
            towers.leave_first(sum_of(shares.first(first_)));
            answer_after([&] { towers.take(shares.subspan(first_, count_)); });
            return true;
        }
        case Order::record_again:
            answer_after([&] { towers.record_again(); });
            return true;
        case Order::tune:
            answer_after([&] {
                changed_ = followed_.tune();
                choices_ = followed_.choices();
            });
            return true;
        case Order::step:
        case Order::dry_run:
            take_step(what, reader);
            return true;
        case Order::test:
            test(reader);
            return true;
        case Order::load:
            towers.load({});
            return true;
        case Order::save:
            towers.save({});
            return true;
        case Order::save_gradients:
            towers.save_gradients({});
            return true;
        case Order::summarize:
            towers.save({});
            towers.save_gradients({});
            return true;
        case Order::find_culprit:
            answer_culprit(reader.get<StepResults>());
            return true;
        }
        throw std::logic_error("an order that nobody knows");
    }

private:
    /// Answers how the work ended.
    void answer_after(const std::function<void()>& work) {
        Writer answer;
        try {
            work();
            answer.put(Outcome::well);
            answer.put(std::uint64_t(std::exchange(changed_, false)));
            answer.put(std::string_view(std::exchange(choices_, "")));
        } catch (const TowerFailed& failed) {
            answer.put(Outcome::tower_failed);
            answer.put(std::uint64_t(first_ + failed.tower));
            answer.put(std::uint64_t(failed.share));
            answer.put(kind_of(failed));
            answer.put(std::string_view(failed.what()));
        } catch (const OthersFailed&) {
            answer.put(Outcome::others_failed);
        }
        courier_.send(0, Topic::answer, answer.take());
    }

    void answer_facts() {
        Writer answer;
        for (const TowerFacts& facts : facts_of_own(followed_.towers)) put(answer, facts);
        courier_.send(0, Topic::answer, answer.take());
    }

    /// A step that ends well needs no answer: the vote has said everything.
    void take_step(Order what, Reader& reader) {
        const auto traced = reader.get<std::uint64_t>();
        if (followed_.trace != nullptr && traced != Trace::none) followed_.trace->begin_step(traced);
        const auto examples = reader.get<std::uint64_t>();
        const StepWork work{reader.get<StepNumbers>(), followed_.batch(examples)};
        if (what == Order::dry_run)
            return answer_after([&] { followed_.towers.dry_run(work.numbers, work.batch); });
        const std::exception_ptr failure = failure_of_step([&] { followed_.towers.step(work, nullptr); });
        if (failure) answer_after([&] { std::rethrow_exception(failure); });
    }

    void test(Reader& reader) {
        const TestSpan span(followed_.trace);
        const auto pass = std::make_shared<TestPass>();
        const std::span<const Share> shares = reader.get<Share>(ranks_.all());
        const std::span<const float> variables = reader.get<float>(reader.get<std::uint64_t>());
        pass->variables.assign(variables.begin(), variables.end());
        const std::vector<Example> all = followed_.tests();
        const std::size_t begin = tests_before(first_, all.size(), shares),
                          end = tests_before(first_ + count_, all.size(), shares);
        pass->examples.assign(all.begin() + long(begin), all.begin() + long(end));
        pass->predictions = Predictions(pass->examples.size(), reader.get<std::uint64_t>());
        pass->stop = nullptr;
        answer_after([&] { followed_.towers.test(pass); });
        Writer answer;
        answer.put(std::uint64_t(pass->predictions.each.size()));
        answer.put(std::span<const Prediction>(pass->predictions.each));
        answer.put(std::span<const float>(pass->predictions.scores));
        courier_.send(0, Topic::answer, answer.take());
    }

    void answer_culprit(const StepResults& results) {
        const Culprit culprit = followed_.towers.find_culprit(results);
        Writer answer;
        answer.put(std::uint64_t(first_ + culprit.tower));
        answer.put(culprit.loss);
        answer.put(std::string_view(culprit.what));
        for (const std::uint64_t number :
             {std::uint64_t(culprit.of_all), std::uint64_t(culprit.stage),
              std::uint64_t(culprit.first_example), std::uint64_t(culprit.examples)})
            answer.put(number);
        courier_.send(0, Topic::answer, answer.take());
    }

    Courier& courier_;
    const TowerRanks& ranks_;
    const Followed& followed_;
    const std::size_t first_, count_; ///< its own towers
    bool changed_ = false;
    std::string choices_;
};

Writer order(Order what) {
    Writer message;
    message.put(what);
    return message;
}

} // namespace

void follow(Courier& courier, const TowerRanks& ranks, const Followed& followed) {
    Follower follower(courier, ranks, followed);
    while (follower.obey(courier.receive(0, Topic::command))) {
    }
}

RankedTowers::RankedTowers(Courier& courier, TowerRanks ranks, std::unique_ptr<TowerGroup> own,
                           std::shared_ptr<const Trace> trace)
    : courier_(courier), ranks_(std::move(ranks)), own_(std::move(own)), trace_(std::move(trace)),
      times_(ranks_.all()) {
    take_facts();
    for (const TowerFacts& facts : facts_) shares_.push_back({.examples = facts.share});
}

RankedTowers::~RankedTowers() { courier_.send_all(Topic::command, order(Order::end).take()); }

TowerFacts RankedTowers::facts(std::size_t index) const { return facts_[index]; }

std::vector<unsigned> RankedTowers::shares() const {
    std::vector<unsigned> shares;
    for (const Share& share : shares_) shares.push_back(share.examples);
    return shares;
}

/// Every other rank's answer, in their order.
std::vector<Bytes> RankedTowers::answers() const {
    std::vector<Bytes> all;
    for (unsigned rank = 1; rank < courier_.size(); ++rank)
        all.push_back(courier_.receive(rank, Topic::answer));
    return all;
}

/// Does this rank's part of an order, hears how the others' ended, and throws the failure of the first tower
/// that has failed.
bool RankedTowers::hear(const std::function<void()>& own) {
    std::optional<TowerFailed> failed;
    bool changed = false;
    choices_.clear();
    try {
        own();
    } catch (const TowerFailed& its) {
        failed = its;
    } catch (const OthersFailed&) { // they tell
    }
    for (const Bytes& answer : answers()) {
        Reader reader(answer);
        const auto outcome = reader.get<Outcome>();
        if (outcome == Outcome::well) {
            changed = reader.get<std::uint64_t>() != 0 || changed;
            if (std::string choices = reader.text(); !choices.empty()) choices_.push_back(std::move(choices));
        }
        if (outcome != Outcome::tower_failed || failed) continue;
        const auto tower = reader.get<std::uint64_t>(), share = reader.get<std::uint64_t>();
        const auto kind = reader.get<Kind>();
        failed = failure_of(kind, reader.text(), tower, unsigned(share));
    }
    if (failed) throw TowerFailed(*failed);
    return changed;
}

void RankedTowers::take_facts() {
    courier_.send_all(Topic::command, order(Order::facts).take());
    std::vector<TowerFacts> facts = facts_of_own(*own_);
    for (const Bytes& answer :
         answers()) // throws if a rank is gone; who reports the end still asks for facts
        for (Reader reader(answer); reader.has_more();) facts.push_back(get_facts(reader));
    for (std::size_t i = 0; i < facts.size(); ++i) {
        const unsigned rank = ranks_.rank_of(i);
        facts[i].name = facts[i].info.id = fmt::format("{}/{}", rank, facts[i].info.id);
        facts[i].host = ranks_.hosts[rank];
    }
    facts_ = std::move(facts);
}

void RankedTowers::take(std::span<const Share> given) {
    std::vector<Share> shares(given.begin(), given.end());
    for (Share& share : shares) share.alone = false; // the state of several ranks is with its owners
    if (taken_ && shares == shares_) return;
    taken_ = false;
    shares_ = shares;
    Writer message = order(Order::take);
    message.put(std::span<const Share>(shares_));
    courier_.send_all(Topic::command, message.take());
    hear([&] { own_->take(std::span<const Share>(shares_).first(own_->size())); });
    taken_ = true;
    take_facts();
}

void RankedTowers::record_again() {
    courier_.send_all(Topic::command, order(Order::record_again).take());
    hear([&] { own_->record_again(); });
}

bool RankedTowers::tune(const std::function<bool()>& own) {
    courier_.send_all(Topic::command, order(Order::tune).take());
    bool changed = false;
    return hear([&] { changed = own(); }) || changed;
}

/// Tells the others to take a step.
void RankedTowers::tell(std::uint64_t what, const StepNumbers& numbers, const Batch& batch) {
    Writer message = order(Order(what));
    message.put(trace_ ? trace_->step() : Trace::none);
    message.put(batch.first);
    message.put(numbers);
    courier_.send_all(Topic::command, message.take());
    examples_ = batch.examples.size();
}

StepResults RankedTowers::step(const StepWork& work, const StepWork*) {
    tell(std::uint64_t(Order::step), work.numbers, work.batch);
    StepResults results{};
    if (const std::exception_ptr failure = failure_of_step([&] { results = own_->step(work, nullptr); })) {
        taken_ = false;
        hear([&] { std::rethrow_exception(failure); });
        throw std::logic_error("a rank's tower failed, and none says so");
    }
    take_reports();
    return results;
}

void RankedTowers::dry_run(const StepNumbers& numbers, const Batch& batch) {
    tell(std::uint64_t(Order::dry_run), numbers, batch);
    try {
        hear([&] { own_->dry_run(numbers, batch); });
    } catch (const TowerFailed&) {
        taken_ = false;
        throw;
    }
    take_reports();
}

void RankedTowers::take_reports() {
    for (std::size_t i = 0; i < times_.size(); ++i) times_[i] = own_->reports().at(i).times;
    for (std::size_t i = 0; i < own_->size(); ++i) times_[i] = own_->times(i);
}

bool RankedTowers::test(const std::shared_ptr<TestPass>& pass) {
    Writer message = order(Order::test);
    message.put(std::span<const Share>(shares_));
    message.put(std::uint64_t(pass->variables.size()));
    message.put(std::span<const float>(pass->variables));
    const std::size_t classes = pass->predictions.all().classes();
    message.put(std::uint64_t(classes));
    courier_.send_all(Topic::command, message.take());
    const auto own = std::make_shared<TestPass>();
    own->variables = pass->variables;
    const std::size_t count = tests_before(own_->size(), pass->examples.size(), shares_);
    own->examples.assign(pass->examples.begin(), pass->examples.begin() + long(count));
    own->predictions = Predictions(count, classes);
    own->stop = pass->stop;
    bool whole = true;
    std::exception_ptr failure;
    try {
        hear([&] { whole = own_->test(own); });
    } catch (const TowerFailed&) {
        failure = std::current_exception();
    }
    std::size_t first = 0;
    const auto take = [&](std::span<const Prediction> each, std::span<const float> scores) {
        const PredictionSpan place = pass->predictions.all().part(first, each.size());
        std::ranges::copy(each, place.each.begin());
        std::ranges::copy(scores, place.scores.begin());
        first += each.size();
    };
    take(own->predictions.each, own->predictions.scores);
    for (const Bytes& answer : answers()) {
        Reader reader(answer);
        const auto its = reader.get<std::uint64_t>();
        const std::span<const Prediction> each = reader.get<Prediction>(its);
        take(each, reader.get<float>(its * classes));
    }
    if (failure) std::rethrow_exception(failure);
    return whole;
}

void RankedTowers::summarize(const std::shared_ptr<SummaryPass>& pass) {
    courier_.send_all(Topic::command, order(Order::summarize).take());
    own_->summarize(pass);
}

std::vector<float> RankedTowers::losses(const StepResults& results) const {
    const float decay = results.total_loss - results.cross_entropy;
    std::vector<float> losses;
    for (const TowerGroup::Report& tower : own_->reports())
        losses.push_back(tower.share == 0
                             ? std::numeric_limits<float>::quiet_NaN()
                             : tower.cross_entropy * float(examples_) / float(tower.share) + decay);
    return losses;
}

/// What shows first in the order of the step, of the first tower.
Culprit RankedTowers::find_culprit(const StepResults& results) const {
    Writer message = order(Order::find_culprit);
    message.put(results);
    courier_.send_all(Topic::command, message.take());
    Culprit first = own_->find_culprit(results);
    for (const Bytes& answer : answers()) {
        Reader reader(answer);
        Culprit its{};
        its.tower = reader.get<std::uint64_t>();
        its.loss = reader.get<float>();
        its.what = reader.text();
        its.of_all = reader.get<std::uint64_t>() != 0;
        its.stage = unsigned(reader.get<std::uint64_t>());
        its.first_example = reader.get<std::uint64_t>();
        its.examples = reader.get<std::uint64_t>();
        if (its.stage < first.stage) first = its;
    }
    return first;
}

void RankedTowers::load(std::span<const float> state) {
    courier_.send_all(Topic::command, order(Order::load).take());
    own_->load(state);
}

void RankedTowers::save(std::span<float> state) {
    courier_.send_all(Topic::command, order(Order::save).take());
    own_->save(state);
}

void RankedTowers::save_gradients(std::span<float> gradients) {
    courier_.send_all(Topic::command, order(Order::save_gradients).take());
    own_->save_gradients(gradients);
}

} // namespace towers
