#include "engine/bench/ranks_bench.h"

#include "backends/worker.h"
#include "engine/bench/exchange_bench.h"
#include "engine/bench/machine.h"
#include "engine/bench/scale_model.h"
#include "engine/bench/step_bench.h"
#include "engine/data/shapes.h"
#include "engine/ranks/message.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/recipes/recipes.h"
#include "engine/shares/shares.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>

namespace towers {
namespace {

using nlohmann::json;

/// What a rank's towers do alone, whenever rank 0 says so.
class OwnBench {
public:
    OwnBench(const BenchOptions& options, const std::vector<unsigned>& shares, const Recipe& recipe,
             const DataSource& data)
        : steps_(recipe,
                 bench_training(options.towers, std::accumulate(shares.begin(), shares.end(), 0u),
                                {shares.begin(), shares.end()}, options.open),
                 options.settings, data) {}

    /// Answers with the last repetition's figures; of the warm-up there are none.
    json measure(const std::string& what) {
        if (what == "warm up") {
            steps_.warm_up();
            return {};
        }
        steps_.repeat();
        return {{"examples_per_s", steps_.examples_per_s().back()}, {"step_us", steps_.step_us().back()}};
    }

private:
    StepBench steps_;
};

/// On another rank than the first: measures when rank 0 says so, beside the thread that follows its steps.
class OwnBenchOnCall {
public:
    OwnBenchOnCall(OwnBench& bench, Courier& courier) : courier_(courier) {
        courier_.on(Topic::bench, [this, &bench](unsigned, const Bytes& message) {
            worker_.wait(); // it has answered, but may not have returned
            task_ = [this, &bench, what = to_json(message).get<std::string>()] {
                json answer;
                try {
                    answer = {{"figures", bench.measure(what)}};
                } catch (const std::exception& error) {
                    answer = {{"error", error.what()}};
                } catch (...) {
                    answer = {{"error", "something went wrong"}};
                }
                courier_.send(0, Topic::bench, to_bytes(answer));
            };
            worker_.start(task_);
        });
    }
    OwnBenchOnCall(const OwnBenchOnCall&) = delete; // the courier holds its address
    OwnBenchOnCall& operator=(const OwnBenchOnCall&) = delete;
    ~OwnBenchOnCall() { courier_.on(Topic::bench, {}); }

private:
    Courier& courier_;
    std::function<void()> task_;
    Worker worker_; // last: it uses the others
};

/// Has all ranks measure the same thing at the same time. On rank 0. Their figures, by rank.
std::vector<json> measure_all(const std::string& what, World& world, OwnBench& own) {
    world.courier().send_all(Topic::bench, to_bytes(what));
    std::vector<json> figures{own.measure(what)};
    for (unsigned rank = 1; rank < world.size(); ++rank) {
        const json answer = to_json(world.courier().receive(rank, Topic::bench));
        if (answer.contains("error"))
            throw DeviceError(fmt::format("{}: {}", world.name(rank), answer["error"].get<std::string>()));
        figures.push_back(answer["figures"]);
    }
    return figures;
}

struct Exchanges {
    std::vector<double> us; ///< of one alone, by repetition
    double sent_bytes = 0;  ///< by this rank in one
};

/// On all ranks.
Exchanges time_exchanges(const BenchOptions& options, const Recipe& recipe, World& world) {
    Courier& courier = world.courier();
    ExchangeBench bench(recipe, world, options.settings.threads);
    bench.repeat(3); // links and caches are cold
    unsigned rounds = 0;
    if (world.rank() == 0) {
        const double fitting = options.settings.seconds / (bench.us().back() * 1e-6);
        rounds = options.settings.steps.value_or(unsigned(std::clamp(fitting, 3.0, 1000.0)));
        courier.send_all(Topic::setup, to_bytes(rounds));
    } else {
        rounds = to_json(courier.receive(0, Topic::setup));
    }
    bench.reset();
    const std::uint64_t before = courier.sent_bytes();
    for (unsigned i = 0; i < options.settings.repetitions; ++i) bench.repeat(rounds);
    return {bench.us(), double(courier.sent_bytes() - before) / rounds / options.settings.repetitions};
}

/// The measurements of rank 0, which lead those of the others.
class LeadingBench {
public:
    LeadingBench(const BenchOptions& options, World& world, OwnBench& own, StepBench& together,
                 const Exchanges& exchanges)
        : options_(options), world_(world), own_(own), together_(together), exchanges_(exchanges),
          rates_(world.size()), step_us_(world.size()) {}

    void warm_up() {
        say("each rank alone: warming up");
        measure_all("warm up", world_, own_);
        say("together: warming up");
        together_.warm_up();
    }

    void repeat(unsigned repetition) {
        const std::string which =
            fmt::format("repetition {} of {}: ", repetition + 1, options_.settings.repetitions);
        say(which + "each rank alone");
        double sum = 0, slowest = 0;
        const std::vector<json> alone = measure_all("repetition", world_, own_);
        for (unsigned rank = 0; rank < world_.size(); ++rank) {
            sum += rates_[rank].emplace_back(alone[rank]["examples_per_s"].get<double>());
            slowest = std::max(slowest, step_us_[rank].emplace_back(alone[rank]["step_us"].get<double>()));
        }
        say(which + "together");
        together_.repeat();
        share_of_sum_.push_back(together_.examples_per_s().back() / sum);
        visible_us_.push_back(together_.step_us().back() - slowest);
    }

    /// Fills in what has been measured.
    void report(RanksReport& report, const TowerRanks& ranks, const std::vector<std::string>& towers) const {
        const std::vector<unsigned> shares = together_.shares();
        for (unsigned rank = 0; rank < world_.size(); ++rank) {
            const auto first = std::ptrdiff_t(ranks.first(rank)),
                       end = first + std::ptrdiff_t(ranks.counts[rank]);
            report.ranks.push_back({world_.ranks()[rank].host,
                                    {towers.begin() + first, towers.begin() + end},
                                    {shares.begin() + first, shares.begin() + end},
                                    spread_of(rates_[rank]),
                                    spread_of(step_us_[rank])});
        }
        report.steps = together_.steps();
        report.examples_per_s = spread_of(together_.examples_per_s());
        report.step_us = spread_of(together_.step_us());
        report.share_of_sum = spread_of(share_of_sum_);
        ExchangeFigures& exchange = report.exchange;
        exchange.sent_bytes = exchanges_.sent_bytes;
        exchange.step_us = spread_of(exchanges_.us);
        exchange.visible_us = spread_of(visible_us_);
        exchange.hidden = std::clamp(1 - exchange.visible_us.median / exchange.step_us.median, 0.0, 1.0);
    }

private:
    void say(const std::string& what) const {
        if (options_.progress) options_.progress(what);
    }

    const BenchOptions& options_;
    World& world_;
    OwnBench& own_;
    StepBench& together_;
    const Exchanges& exchanges_;
    std::vector<std::vector<double>> rates_, step_us_; ///< by rank and repetition
    std::vector<double> share_of_sum_, visible_us_;    ///< by repetition
};

/// What the scale model makes of the measurements.
std::vector<ScaleFigures> predict(const RanksReport& report, double model_bytes) {
    // Of a step, backward after the first gradients are ready.
    constexpr double hideable = .6;
    const unsigned ranks = unsigned(report.ranks.size());
    double step = 0, examples = 0, sum = 0; // of the slowest rank; of all in a step; of their own rates
    for (const RankFigures& rank : report.ranks) {
        step = std::max(step, rank.step_us.median * 1e-6);
        examples += std::accumulate(rank.shares.begin(), rank.shares.end(), 0.0);
        sum += rank.examples_per_s.median;
    }
    const auto layout = [&](unsigned machines) {
        return RankLayout{machines, model_bytes, step, hideable * step};
    };
    const std::array<MeasuredLayout, 2> measured{
        {{{ranks, model_bytes, 0, 0}, report.exchange.step_us.median * 1e-6},
         {layout(ranks), report.step_us.median * 1e-6}}};
    const NetworkCosts costs = fit_network(measured, tcp_seconds_per_message);
    std::vector<ScaleFigures> predicted;
    for (unsigned machines = 2; machines <= 64; machines *= 2) {
        const double seconds = predicted_step(costs, layout(machines));
        const double rate = examples / ranks * machines / seconds;
        predicted.push_back({machines, seconds * 1e6, rate, rate / (sum / ranks * machines)});
    }
    return predicted;
}

/// Each rank has a host of its own.
bool are_apart(const World& world) {
    std::set<std::string> hosts;
    for (const Rank& rank : world.ranks()) hosts.insert(rank.host);
    return hosts.size() == world.size();
}

} // namespace

std::optional<RanksReport> bench_ranks(const BenchOptions& options, World& world, const TowerRanks& ranks,
                                       const std::vector<std::string>& towers) {
    const Recipe recipe = recipe_of(options);
    const Dataset data = make_shapes(Split::train, bench_seed, stored_size(recipe));
    const unsigned count = unsigned(towers.size()), global = global_batch(options.settings.batch, count);
    const std::vector<unsigned> shares = share_out(global, count, options.shares, recipe.model.group());

    if (world.rank() == 0 && options.progress) options.progress("the exchange alone");
    const Exchanges exchanges = time_exchanges(options, recipe, world);

    const auto first = shares.begin() + std::ptrdiff_t(ranks.first(world.rank()));
    OwnBench own(options, {first, first + std::ptrdiff_t(ranks.counts[world.rank()])}, recipe, data);
    TrainerOptions training = bench_training(towers, global, options.shares, options.open);
    training.ranks.emplace(TrainerOptions::Ranks{world.courier(), ranks, {.hosts = world.hosts()}});
    if (world.rank() > 0) {
        const OwnBenchOnCall on_call(own, world.courier());
        Trainer(recipe, training, data).follow(nullptr);
        return std::nullopt;
    }
    RanksReport report;
    report.date = utc_date();
    report.machine = describe_machine();
    report.settings = options.settings;
    report.settings.recipe = with_changes(options.settings.recipe, options.set);
    StepBench together(recipe, training, options.settings, data);
    LeadingBench bench(options, world, own, together, exchanges);
    bench.warm_up();
    for (unsigned r = 0; r < options.settings.repetitions; ++r) bench.repeat(r);
    bench.report(report, ranks, towers);
    if (are_apart(world)) report.predicted = predict(report, double(layout_of(recipe).updated_bytes));
    return report;
}

} // namespace towers
