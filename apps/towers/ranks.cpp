#include "apps/towers/ranks.h"

#include "apps/towers/common_flags.h"
#include "apps/towers/ending.h"
#include "apps/towers/start_over.h"
#include "backends/error.h"
#include "backends/watched_device.h"
#include "engine/model/freeze.h"
#include "engine/ranks/message.h"
#include "engine/ranks/mpi_transport.h"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <spdlog/spdlog.h>
#include <thread>

namespace towers {
namespace {

using nlohmann::json;

/// Flags that each rank may have of its own.
const std::set<std::string> own_flags{"towers",  "backend", "data",     "test-data", "format", "threads",
                                      "readers", "feed",    "hold-out", "tune",      "shares"};

CourierOptions courier_options(std::atomic<bool>& stop, std::function<void(const PeerGone&)> gone) {
    CourierOptions options;
    options.stop = &stop;
    options.gone = std::move(gone);
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

void check_alone(const std::string& command) {
    const std::optional<Launched> by = launched_here();
    if (!by || by->ranks == 1) return;
    if (by->rank > 0) end_after_the_speaker(command_line_wrong);
    throw UsageError(
        fmt::format("{} runs in one process, but {} started {}; start it without, since of several "
                    "ranks only train and bench make one run",
                    command, by->launcher, by->ranks));
}

std::vector<std::string> common_flags(const TrainFlags& flags) {
    std::vector<std::string> lines;
    const std::string text = write_settings(flags.settings.values, Settings::all);
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin), name = line.substr(0, line.find(' '));
        if (flags.settings.gives(name) && !own_flags.contains(name)) lines.push_back(line);
        begin = end + 1;
    }
    return lines;
}

std::unique_ptr<Ranks> Ranks::join(std::atomic<bool>& stop) {
    const std::optional<Launched> by = launched_here();
    if (!by || by->ranks == 1) return nullptr;
    work_begins(); // MPI does not survive a new start of the program
    std::unique_ptr<Ranks> ranks;
    try {
        const auto late = [&](const std::string& line) {
            if (by->rank > 0) end_after_the_speaker(work_failed);
            end_at_once(report(work_failed, line));
        };
        ranks.reset(new Ranks(open_mpi_transport(*by, late), stop));
    } catch (const UsageError&) {
        if (by->rank > 0) end_after_the_speaker(command_line_wrong);
        throw;
    }
    if (const std::string warning = ranks->world_.warning(); !warning.empty()) spdlog::warn("{}", warning);
    return ranks;
}

Ranks::Ranks(std::unique_ptr<Transport> transport, std::atomic<bool>& stop)
    : world_(std::move(transport),
             courier_options(stop, [this](const PeerGone& gone) { peer_is_gone(gone); }),
             "towers " TOWERS_VERSION) {
    world_.courier().on(Topic::stop, [&stop](unsigned, const Bytes&) { stop = true; });
}

void Ranks::when_gone(std::function<std::string()> end) {
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
}

/// On the communication thread. The lowest rank that is left says what happened.
void Ranks::peer_is_gone(const PeerGone& gone) {
    const std::lock_guard lock(mutex_);
    const bool is_known =
        gone.rank < world_.ranks().size(); // else the ranks are just getting to know each other
    const bool is_first_lost = gone.rank == 0 && !gone.code && world_.rank() > 0;
    const bool speaks = world_.rank() == (is_first_lost ? 1u : 0u);
    const int code = gone.code.value_or(work_failed);
    if (!speaks) end_after_the_speaker(code);
    const std::string name = is_known ? world_.name(gone.rank) : fmt::format("rank {}", gone.rank);
    const std::string way_on = end_ ? end_()
                               : gone.rank == 0
                                   ? "; go on from the last checkpoint in its run directory with --resume"
                                   : "";
    report(code, fmt::format("{}: {}{}", name, gone.what(), way_on));
    // A launcher that learns of the end before it has read the line may drop it.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    end_at_once(code);
}

std::vector<std::string> Ranks::own_devices(const std::string& backend, const std::string& towers,
                                            const OpenOptions& open) const {
    const bool of_all_ranks = towers.find('/') != towers.npos; // of the run that is resumed
    if (!of_all_ranks && !(towers.empty() && backend.empty())) return choose_towers(backend, towers, open);
    return dealt_to(world_.local_rank(), world_.local_ranks(), choose_towers("", "", open));
}

void Ranks::tell_towers(const std::vector<std::string>& own, const std::vector<std::string>& flags) {
    world_.courier().send(0, Topic::setup, to_bytes({{"towers", own}, {"flags", flags}}));
}

std::vector<std::string> Ranks::gather_towers(const std::vector<std::string>& own,
                                              const std::vector<std::string>& flags) {
    std::vector<std::string> all;
    towers_ = {};
    for (unsigned rank = 0; rank < world_.size(); ++rank) {
        const json told = rank == 0 ? json{{"towers", own}, {"flags", flags}}
                                    : to_json(world_.courier().receive(rank, Topic::setup));
        const std::vector<std::string> its_flags = told["flags"], its_towers = told["towers"];
        if (its_flags != flags)
            throw UsageError(fmt::format("{} has the flags '{}', but {} '{}'; give all ranks the same flags "
                                         "but for --towers, --data and what else is a machine's own",
                                         world_.name(rank), fmt::join(its_flags, ", "), world_.name(0),
                                         fmt::join(flags, ", ")));
        towers_.counts.push_back(its_towers.size());
        towers_.hosts.push_back(world_.ranks()[rank].host);
        for (const std::string& id : its_towers) all.push_back(fmt::format("{}/{}", rank, id));
    }
    return all;
}

std::vector<std::string> Ranks::exchange_towers(const std::vector<std::string>& own,
                                                const std::vector<std::string>& flags) {
    if (is_first()) {
        std::vector<std::string> towers = gather_towers(own, flags);
        world_.courier().send_all(Topic::setup, to_bytes({{"towers", towers}, {"counts", towers_.counts}}));
        return towers;
    }
    tell_towers(own, flags);
    const json told = to_json(world_.courier().receive(0, Topic::setup));
    take_counts(told["counts"]);
    return told["towers"];
}

void Ranks::take_counts(std::vector<std::size_t> counts) {
    towers_.counts = std::move(counts);
    for (const Rank& rank : world_.ranks()) towers_.hosts.push_back(rank.host);
}

unsigned Ranks::threads_for(unsigned asked) const {
    return asked != 0 || std::getenv("OMP_NUM_THREADS") != nullptr ? asked : world_.threads();
}

void Ranks::tell_run(const ResolvedRun& run) {
    const json message{{"settings", write_settings(run.settings, Settings::all)},
                       {"recipe", {{"name", run.recipe.name}, {"text", run.recipe.text}}},
                       {"towers", run.towers},
                       {"counts", towers_.counts},
                       {"global_batch", run.global_batch}};
    world_.courier().send_all(Topic::setup, to_bytes(message));
}

ResolvedRun Ranks::receive_run(const TrainFlags& flags) {
    const json told = to_json(world_.courier().receive(0, Topic::setup));
    ResolvedRun run;
    TrainSettings& settings = run.settings = parse_settings(told["settings"], "rank 0").values;
    const TrainSettings& own = flags.settings.values;
    const auto gives = [&](const char* name) { return flags.settings.gives(name); };
    if (gives("data")) settings.data = own.data;
    if (gives("test-data")) settings.test_data = own.test_data;
    if (gives("format")) settings.format = own.format;
    settings.threads = own.threads;
    run.open = flags.open;
    run.open.threads = threads_for(own.threads);
    if (gives("readers")) settings.readers = own.readers;
    if (gives("feed")) settings.feed = own.feed;
    run.recipe = parse_recipe(told["recipe"]["name"], told["recipe"]["text"], "the recipe of rank 0");
    freeze(run.recipe.model, settings.freeze);
    run.quirks = parse_quirks(settings.quirks);
    run.towers = told["towers"].get<std::vector<std::string>>();
    run.global_batch = told["global_batch"];
    run.open.timeout = device_timeout(settings.device_timeout);
    run.open.exact_products = settings.exact_products;
    choose_precision(run.open, precision_in(settings), {}, run.recipe);
    take_counts(told["counts"]);
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

void Ranks::tell_end(int code) { world_.courier().send_all(Topic::setup, to_bytes(code)); }

int Ranks::receive_end() { return to_json(world_.courier().receive(0, Topic::setup)); }

void Ranks::fail_with_current_exception(std::unique_ptr<Ranks> self) {
    const auto [code, line] = code_and_line();
    world_.courier().tell_failure(code, line);
    if (!is_first()) end_after_the_speaker(code);
    keep_for_ever(std::shared_ptr<Ranks>(std::move(self))); // MPI waits for the others when it ends
}

int run_on_ranks(std::atomic<bool>& stop, const std::function<int(Ranks*)>& command) {
    std::unique_ptr<Ranks> ranks = Ranks::join(stop);
    try {
        return command(ranks.get());
    } catch (...) {
        if (ranks != nullptr) {
            Ranks& its = *ranks;
            its.fail_with_current_exception(std::move(ranks));
        }
        throw;
    }
}

} // namespace towers
