#include "apps/towers/ranks.h"

#include "apps/towers/common_flags.h"
#include "apps/towers/ending.h"
#include "apps/towers/start_over.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "backends/launch/choices.h"
#include "backends/watched_device.h"
#include "engine/model/freeze.h"
#include "engine/ranks/engine_version.h"
#include "engine/ranks/message.h"
#include "engine/ranks/mpi_transport.h"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <set>
#include <spdlog/spdlog.h>
#include <thread>

namespace towers {
namespace {

using nlohmann::json;

constexpr unsigned looks_at_clock = 50; ///< of another rank

/// Flags that each rank may have of its own, and those that count on rank 0 alone.
const std::set<std::string> own_flags{"towers",     "backend", "data", "test-data", "format",
                                      "threads",    "readers", "feed", "shares",    "run",
                                      "checkpoint", "model",   "json"};

CourierOptions courier_options(const Orders& orders, std::function<void(const PeerGone&)> gone,
                               std::function<void(std::optional<unsigned>)> late) {
    CourierOptions options;
    options.stop = &orders.stop;
    options.gone = std::move(gone);
    if (launched().value().kills_soon) {
        options.killed_soon = &orders.term;
        options.late = std::move(late);
    }
    return options;
}

/// Of an exception that is being handled.
std::pair<int, std::string> code_and_line() {
    try {
        throw;
    } catch (const UsageError& error) {
        return {command_line_wrong, error.what()};
    } catch (const std::exception& error) {
        return {work_failed, error.what()};
    } catch (...) {
        return {work_failed, "something went wrong"};
    }
}

/// Ends a rank that does not speak, after the one that does: a launcher may kill the others when a rank ends.
[[noreturn]] void end_after_the_speaker(int code) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    end_at_once(code);
}

/// Of the tasks of a step that are refused, the first says why.
std::optional<Launched> launched_here() {
    try {
        return launched();
    } catch (const UsageError&) {
        const char* const task = std::getenv("SLURM_PROCID");
        if (task != nullptr && std::string(task) != "0") end_after_the_speaker(command_line_wrong);
        throw;
    }
}

} // namespace

std::string place_among_ranks() {
    const std::optional<Launched> by = launched_here();
    if (!by) return "";
    return fmt::format("rank {} of {} on {}, by {}", by->rank, by->ranks, host_name(), by->launcher);
}

std::string absence_of_ranks() {
    const std::optional<Launched> by = launched_here();
    return !by || by->ranks == 1 ? "" : absence_of(by->mpi);
}

void check_alone(const std::string& command) {
    const std::optional<Launched> by = launched_here();
    if (!by || by->ranks == 1) return;
    if (by->rank > 0) end_after_the_speaker(command_line_wrong);
    throw UsageError(
        fmt::format("{} runs in one process, but {} started {}; start it without, since several ranks "
                    "work together in train, eval, predict and bench alone",
                    command, by->launcher, by->ranks));
}

std::vector<std::string> common_lines(const Given& given) {
    std::vector<std::string> lines;
    for (const GivenSettings* const each : {&given.file, &given.flags}) {
        const std::string text = write_settings(each->values, Settings::all);
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            const std::string line = text.substr(begin, end - begin), name = line.substr(0, line.find(' '));
            if (each->gives(name) && !own_flags.contains(name)) lines.push_back(line);
            begin = end + 1;
        }
    }
    return lines;
}

std::vector<std::string> common_lines(const CLI::App& command) {
    std::vector<std::string> lines;
    for (const CLI::Option* const option : command.get_options())
        if (const std::string name = option->get_single_name();
            option->count() > 0 && !own_flags.contains(name))
            lines.push_back(fmt::format("{} = {}", name, fmt::join(option->results(), " ")));
    return lines;
}

json to_message(const Recipe& recipe) { return {{"name", recipe.name}, {"text", recipe.text}}; }

Recipe recipe_in(const json& message) {
    return parse_recipe(message["name"], message["text"], "the recipe of rank 0");
}

TrainFlags flags_to_go_on(const TrainFlags& flags, const Left& left) {
    TrainFlags its = flags;
    const Given given = given_by(flags);
    its.settings = given.file;
    replace(its.settings.values, given.flags);
    its.settings.names.insert(given.flags.names.begin(), given.flags.names.end());
    its.config.clear();
    std::erase_if(its.settings.names, [&](const std::string& name) {
        return !own_flags.contains(name) ||
               (name == "shares" && !fits_any_towers(its.settings.values.shares));
    });
    its.run = left.run.string();
    its.resume = !left.run.empty();
    its.resume_from.reset();
    return its;
}

bool fits_any_towers(const std::string& shares) {
    return shares.empty() || shares == "auto" || shares == "even";
}

std::unique_ptr<Ranks> Ranks::join(Orders& orders) {
    const std::optional<Launched> by = launched_here();
    if (!by || by->ranks == 1) return nullptr;
    work_begins(); // MPI does not survive a new start of the program
    std::unique_ptr<Ranks> ranks;
    try {
        const auto late = [&](const std::string& line) {
            if (by->rank > 0) end_after_the_speaker(work_failed);
            end_at_once(report(work_failed, line));
        };
        ranks.reset(new Ranks(open_mpi_transport(*by, late), orders));
    } catch (const UsageError&) {
        if (by->rank > 0) end_after_the_speaker(command_line_wrong);
        throw;
    }
    if (const std::string warning = ranks->world_.warning(); !warning.empty()) spdlog::warn("{}", warning);
    return ranks;
}

Ranks::Ranks(std::shared_ptr<Transport> transport, Orders& orders, std::optional<Left> left)
    : transport_(std::move(transport)), orders_(orders), left_(std::move(left)),
      run_(left_ ? left_->run : ""), world_(transport_,
                                            courier_options(
                                                orders, [this](const PeerGone& gone) { peer_is_gone(gone); },
                                                [this](std::optional<unsigned> peer) { peer_is_late(peer); }),
                                            fmt::format("towers {} (kernels {}, engine {})", TOWERS_VERSION,
                                                        kernels_version(), engine_version())) {
    world_.courier().on(Topic::stop, [&orders](unsigned, const Bytes&) { orders.stop = true; });
    const std::lock_guard lock(mutex_);
    have_met_ = true;
    if (gone_) throw PeerGone(*gone_);
}

void Ranks::when_gone(std::function<void()> end, std::function<std::string()> way_on) {
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
    way_on_ = std::move(way_on);
}

void Ranks::can_go_on(std::filesystem::path run) {
    const std::lock_guard lock(mutex_);
    run_ = std::move(run);
}

/// On the communication thread.
void Ranks::peer_is_gone(const PeerGone& gone) {
    const std::lock_guard lock(mutex_);
    if (left_ && !have_met_) return void(gone_ = gone); // whoever makes this tries again
    const bool is_first_lost = gone.rank == 0 && !gone.code && !is_first();
    const bool can_shrink = transport_->can_shrink() && !gone.code && have_met_;
    // A launcher that lets the others go on would wait for one that hangs.
    if (can_shrink && gone.rank != world_.rank()) world_.courier().kill_process(gone.rank);
    if (is_first_lost) end_without(gone, 1);
    if (!can_shrink || orders_.stop) end_without(gone);
    if (const unsigned first = make_next(gone); first > 0)
        end_without(PeerGone(0, "it has ended or does not answer"), first);
    if (is_first() && run_.empty()) end_without(gone);
}

/// Meets with those that are left, while this rank's other threads end their work. Returns the first of them;
/// if that is not rank 0, they do not meet.
unsigned Ranks::make_next(const PeerGone& gone) {
    std::vector<unsigned> there(world_.size()); // by the ranks of this world
    std::iota(there.begin(), there.end(), 0u);
    while (true) {
        std::vector<unsigned> left;
        try {
            left = transport_->shrink([&] { end_without(gone); });
        } catch (const TransportError&) {
            end_without(gone);
        }
        std::vector<unsigned> still;
        for (const unsigned rank : left) still.push_back(there[rank]);
        there = still;
        std::vector<std::string> lost;
        for (unsigned rank = 0; rank < world_.size(); ++rank) {
            if (std::ranges::find(there, rank) != there.end()) continue;
            world_.courier().kill_process(rank);
            lost.push_back(fmt::format("{}: {}", world_.name(rank),
                                       rank == gone.rank ? gone.what() : "it has ended or does not answer"));
        }
        if (there[0] != 0) return there[0];
        if (lost.empty()) end_without(gone); // this rank does not hear from one that others hear from
        try {
            next_.reset(new Ranks(transport_, orders_, Left{fmt::format("{}", fmt::join(lost, "; ")), run_}));
            return 0;
        } catch (const PeerGone& its) { // one more is gone, unless it says that the job ends
            if (its.code) end_without(its);
        }
    }
}

std::unique_ptr<Ranks> Ranks::take_next() {
    const std::lock_guard lock(mutex_);
    return std::move(next_);
}

void Ranks::end(int code) {
    world_.courier().end();
    if (next_ && is_first()) next_->world_.courier().tell_failure(code, "");
}

/// The launcher will kill this rank before it is certain who is gone. The launcher's words tell it, too.
void Ranks::peer_is_late(std::optional<unsigned> peer) {
    const std::lock_guard lock(mutex_);
    if (!way_on_ || next_ || !is_first()) return;
    report(work_failed, fmt::format("{}{}",
                                    peer ? world_.name(*peer) + ": it does not answer"
                                         : "the connection to a rank has broken",
                                    way_on_()));
}

/// Ends the program. The lowest rank that is left says what happened.
void Ranks::end_without(const PeerGone& gone, unsigned speaker) {
    const int code = gone.code.value_or(work_failed);
    if (next_) next_->world_.courier().tell_failure(code, "");
    if (world_.rank() != speaker) end_after_the_speaker(code);
    const std::string name = have_met_ ? world_.name(gone.rank) : fmt::format("rank {}", gone.rank);
    if (end_) end_();
    const std::string way_on = way_on_ ? way_on_() : "";
    report(code, fmt::format("{}: {}{}", name, gone.what(), way_on));
    // A launcher that learns of the end before it has read the line may drop it.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    end_at_once(code);
}

std::vector<std::string> Ranks::own_towers(const std::string& backend, const std::string& towers,
                                           const OpenOptions& open) const {
    const bool of_all_ranks = towers.find('/') != towers.npos;
    const bool says = !of_all_ranks && !(backend.empty() && towers.empty());
    std::vector<std::string> its = choose_towers(says ? backend : "", says ? towers : "", open);
    if (!says) its = dealt_to(world_.local_rank(), world_.local_ranks(), its);
    work_begins(); // MPI does not survive a new start of the program
    return its;
}

void Ranks::tell_towers(const std::vector<std::string>& own, const std::vector<std::string>& lines) {
    world_.courier().send(0, Topic::setup, to_bytes({{"towers", own}, {"settings", lines}}));
}

std::vector<std::string> Ranks::gather_towers(const std::vector<std::string>& own,
                                              const std::vector<std::string>& own_lines) {
    std::vector<std::string> all;
    towers_ = {};
    for (unsigned rank = 0; rank < world_.size(); ++rank) {
        const json told = rank == 0 ? json{{"towers", own}, {"settings", own_lines}}
                                    : to_json(world_.courier().receive(rank, Topic::setup));
        const std::vector<std::string> lines = told["settings"], towers = told["towers"];
        if (lines != own_lines)
            throw UsageError(fmt::format(
                "{} has the settings '{}', but {} '{}'; give all ranks the same flags "
                "but for --towers, --data and "
                "what else is a machine's own",
                world_.name(rank), fmt::join(lines, ", "), world_.name(0), fmt::join(own_lines, ", ")));
        towers_.counts.push_back(towers.size());
        towers_.hosts.push_back(world_.ranks()[rank].host);
        for (const std::string& id : towers) all.push_back(fmt::format("{}/{}", rank, id));
    }
    return all;
}

unsigned Ranks::threads_for(unsigned asked) const {
    return asked != 0 || std::getenv("OMP_NUM_THREADS") != nullptr ? asked : world_.threads();
}

void Ranks::tell(json message) {
    message["counts"] = towers_.counts;
    world_.courier().send_all(Topic::setup, to_bytes(message));
}

json Ranks::receive() {
    json told = to_json(world_.courier().receive(0, Topic::setup));
    if (told.is_null()) return told;
    towers_ = {.counts = told["counts"], .hosts = {}};
    for (const Rank& rank : world_.ranks()) towers_.hosts.push_back(rank.host);
    return told;
}

void Ranks::tell_run(const ResolvedRun& run) {
    json message{{"settings", write_settings(run.settings, Settings::all)},
                 {"recipe", to_message(run.recipe)},
                 {"towers", run.towers},
                 {"global_batch", run.global_batch},
                 {"traced_steps", run.traced_steps}};
    if (run.tuning && !run.tuning->known.empty())
        message["choices"] = {{"file", run.tuning->known.string()},
                              {"text", read_file(run.tuning->known)},
                              {"complete", run.tuning->complete}};
    tell(std::move(message));
}

ResolvedRun Ranks::receive_run(const Given& given, const OpenOptions& open) {
    const json told = receive();
    ResolvedRun run;
    TrainSettings& settings = run.settings = parse_settings(told["settings"], "rank 0").values;
    TrainSettings own;
    replace(own, given);
    if (given.gives("data")) settings.data = own.data;
    if (given.gives("test-data")) settings.test_data = own.test_data;
    if (given.gives("format")) settings.format = own.format;
    settings.threads = own.threads;
    run.open = open;
    run.open.threads = threads_for(own.threads);
    if (given.gives("readers")) settings.readers = own.readers;
    if (given.gives("feed")) settings.feed = own.feed;
    run.recipe = recipe_in(told["recipe"]);
    freeze(run.recipe.model, settings.freeze);
    run.quirks = parse_quirks(settings.quirks);
    run.towers = told["towers"].get<std::vector<std::string>>();
    run.global_batch = told["global_batch"];
    run.traced_steps = told["traced_steps"];
    run.open.timeout = device_timeout(settings.device_timeout);
    run.open.exact_products = settings.exact_products;
    choose_precision(run.open, precision_in(settings), {}, run.recipe);
    run.tuning = tuning_by(settings);
    if (run.tuning) run.tuning->rank = world_.rank();
    if (told.contains("choices")) {
        run.tuning->known = told["choices"]["file"].get<std::string>();
        run.tuning->known_text = told["choices"]["text"];
        run.tuning->complete = told["choices"]["complete"];
    }
    return run;
}

void Ranks::compare_data(const DataSource& data, const DataSource* tests) {
    const auto describe = [](const DataSource& its) {
        return json{{"examples", its.size()}, {"checksum", its.checksum()}, {"name", its.info().name}};
    };
    json own{{"data", describe(data)}};
    if (tests != nullptr) own["test data"] = describe(*tests);
    if (!is_first()) return world_.courier().send(0, Topic::setup, to_bytes(own));
    for (unsigned rank = 1; rank < world_.size(); ++rank) {
        const json its = to_json(world_.courier().receive(rank, Topic::setup));
        for (const auto& [what, expected] : own.items()) {
            const json found = its.value(what, json{{"examples", 0}, {"checksum", 0}});
            if (found["examples"] == expected["examples"] && found["checksum"] == expected["checksum"])
                continue;
            throw UsageError(fmt::format(
                "{} has other {}: {} examples with checksum {:x}, and {} has {} with "
                "checksum {:x}; give each rank a copy of the same data",
                world_.name(rank), what, found["examples"].get<std::uint64_t>(),
                found["checksum"].get<std::uint64_t>(), world_.name(0),
                expected["examples"].get<std::uint64_t>(), expected["checksum"].get<std::uint64_t>()));
        }
    }
}

void Ranks::gather_traces(Trace& trace) {
    Courier& courier = world_.courier();
    for (unsigned rank = 1; rank < world_.size(); ++rank) {
        ClockOffset clock; // the fastest answers narrow its bounds
        for (unsigned i = 0; i < looks_at_clock; ++i) {
            const double asked = host_seconds(Clock::now());
            courier.send(rank, Topic::setup, {});
            const double its = to_json(courier.receive(rank, Topic::setup));
            clock.begins(0, asked, its);
            clock.ends(0, its, host_seconds(Clock::now()));
        }
        const Bytes message = courier.receive(rank, Topic::setup);
        trace.add(Reader(message).text(), clock);
    }
}

void Ranks::send_trace(const Trace& trace) {
    Courier& courier = world_.courier();
    for (unsigned i = 0; i < looks_at_clock; ++i) {
        courier.receive(0, Topic::setup);
        courier.send(0, Topic::setup, to_bytes(host_seconds(Clock::now())));
    }
    Writer message;
    message.put(std::string_view(trace.to_json()));
    courier.send(0, Topic::setup, message.take());
}

void Ranks::tell_end() { world_.courier().send_all(Topic::setup, to_bytes(nullptr)); }

void Ranks::fail_with_current_exception(std::unique_ptr<Ranks> self) {
    const auto [code, line] = code_and_line();
    world_.courier().tell_failure(code, line);
    if (!is_first()) end_after_the_speaker(code);
    keep_for_ever(std::shared_ptr<Ranks>(std::move(self))); // MPI waits for the others when it ends
}

int run_on_ranks(const std::function<int(Ranks*)>& lead, const std::function<void(Ranks&)>& follow,
                 Orders* orders) {
    static Orders never; // a signal ends the program
    std::unique_ptr<Ranks> ranks = Ranks::join(orders != nullptr ? *orders : never);
    const auto fail = [&ranks] {
        Ranks& its = *ranks;
        its.fail_with_current_exception(std::move(ranks));
    };
    const auto run = [&] {
        if (ranks != nullptr && !ranks->is_first()) {
            follow(*ranks);
            return 0;
        }
        const int code = lead(ranks.get());
        if (ranks != nullptr) ranks->tell_end();
        return code;
    };
    while (true) {
        try {
            const int code = run();
            if (ranks != nullptr) ranks->end(code);
            return code;
        } catch (const PeerGone&) {
            std::unique_ptr<Ranks> next = ranks->take_next();
            if (next == nullptr) {
                fail();
                throw;
            }
            ranks = std::move(next);
        } catch (...) {
            if (ranks == nullptr) throw;
            if (std::unique_ptr<Ranks> next = ranks->take_next()) ranks = std::move(next);
            fail();
            throw;
        }
    }
}

} // namespace towers
