// Runs of several ranks, under the launchers of real MPIs.
#include "backends/launch/choices.h"
#include "engine/ranks/engine_version.h"
#include "tests/apps/helpers.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

/// An MPI with its launcher.
struct Mpi {
    const char* name;
    const char* rank_variable; ///< in a rank's environment
    Arguments flags;
    bool code = true;  ///< ends with that of a rank that failed
    bool colon = true; ///< can start unlike ranks, which a colon separates; some versions crash
};

bool is_on_path(const std::string& program) {
    std::istringstream folders(std::getenv("PATH"));
    for (std::string folder; std::getline(folders, folder, ':');)
        if (fs::exists(fs::path(folder) / program)) return true;
    return false;
}

/// Marks the processes that it starts.
RunOptions marked(const std::string& mark) {
    return {.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                            {"TOWERS_TEST_MARK", mark}},
            .seconds = 120};
}

Outcome run(const Arguments& command) { return Program(command, marked("none")).end(); }

/// MPICH before 4.3 may end with 0 when a rank fails: https://github.com/pmodels/mpich/issues/7057
const Mpi mpich{"mpich", "PMI_RANK", {}, false};

/// Those that are installed and have a plugin; says which are not.
const std::vector<Mpi>& mpis() {
    static const std::vector<Mpi> there = [] {
        std::vector<Mpi> found;
        const fs::path program = towers_command({}).front();
        for (const Mpi& mpi : {Mpi{"openmpi", "OMPI_COMM_WORLD_RANK", {"--oversubscribe"}}, mpich})
            if (is_on_path(fmt::format("mpirun.{}", mpi.name)) &&
                fs::exists(program.parent_path() / fmt::format("lib/towers/towers-{}.so", mpi.name))) {
                found.push_back(mpi);
                const Arguments unlike{"-n", "1", "true", ":", "-n", "1", "true"};
                found.back().colon =
                    run(Arguments{fmt::format("mpirun.{}", mpi.name)} + mpi.flags + unlike).code == 0;
                if (!found.back().colon) MESSAGE(fmt::format("mpirun.{} starts no unlike ranks", mpi.name));
            } else
                MESSAGE(fmt::format("there is no launcher of {}, or no plugin: it is not tested", mpi.name));
        return found;
    }();
    return there;
}

/// A launcher that lets ranks go on without one that is gone; none: it is not here.
const std::optional<Mpi>& mpi_that_goes_on() {
    static const std::optional<Mpi> there = []() -> std::optional<Mpi> {
        for (Mpi mpi : mpis()) {
            mpi.flags = Arguments{"--with-ft", "ulfm"} + mpi.flags;
            const Arguments launcher{fmt::format("mpirun.{}", mpi.name)};
            if (std::string(mpi.name) == "openmpi" &&
                run(launcher + mpi.flags + Arguments{"-n", "1", "true"}).code == 0)
                return mpi;
        }
        MESSAGE("no launcher lets ranks go on without one that is gone: it is not tested");
        return {};
    }();
    return there;
}

void check_failed(const Mpi& mpi, const Outcome& outcome) {
    if (mpi.code) CHECK(outcome.code != 0);
}

/// What a rank runs: `train` with these flags.
Arguments train_command(const Arguments& flags) {
    Arguments rank = towers_command(Arguments{"train"} + flags);
    // mpirun of Open MPI has a flag --tune, too
    if (const auto tune = std::ranges::find(rank, "--tune"); tune != rank.end()) {
        *tune += "=" + tune[1];
        rank.erase(tune + 1);
    }
    return rank;
}

/// A launcher and its ranks, each with a command line of its own.
Arguments launch(const Mpi& mpi, const std::vector<Arguments>& ranks) {
    Arguments command = Arguments{fmt::format("mpirun.{}", mpi.name)} + mpi.flags;
    if (std::ranges::count(ranks, ranks[0]) == long(ranks.size()))
        return command + Arguments{"-n", std::to_string(ranks.size())} + ranks[0];
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (i > 0) command.push_back(":");
        command = command + Arguments{"-n", "1"} + ranks[i];
    }
    return command;
}

/// The same with trainings, each with flags of its own.
Arguments under(const Mpi& mpi, const std::vector<Arguments>& ranks) {
    std::vector<Arguments> commands;
    for (const Arguments& each : ranks) commands.push_back(train_command(each));
    return launch(mpi, commands);
}

/// The same with ranks that take each pair of them to be on a host of its own.
Arguments in_pairs(const Mpi& mpi, std::size_t ranks, const Arguments& flags) {
    const std::string named = fmt::format("TOWERS_HOST=pair$((${} / 2)) exec \"$@\"", mpi.rank_variable);
    return launch(mpi,
                  std::vector<Arguments>(ranks, Arguments{"sh", "-c", named, "sh"} + train_command(flags)));
}

/// So many ranks with the same flags.
Arguments under(const Mpi& mpi, std::size_t ranks, const Arguments& flags) {
    return under(mpi, std::vector<Arguments>(ranks, flags));
}

/// The process of a rank that is marked so; 0 if there is none.
pid_t find_process(const Mpi& mpi, const std::string& mark, unsigned rank) {
    const std::string is_marked = "TOWERS_TEST_MARK=" + mark,
                      is_rank = fmt::format("{}={}", mpi.rank_variable, rank);
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        pid_t pid = 0;
        if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
        std::ifstream file(entry.path() / "environ");
        const std::string all((std::istreambuf_iterator<char>(file)), {});
        std::vector<std::string> variables;
        std::istringstream text(all);
        for (std::string each; std::getline(text, each, '\0');) variables.push_back(each);
        if (std::ranges::count(variables, is_marked) > 0 && std::ranges::count(variables, is_rank) > 0)
            return pid;
    }
    return 0;
}

/// Waits until it is there.
pid_t process_of(const Mpi& mpi, const std::string& mark, unsigned rank) {
    for (int attempt = 0; attempt < 2000; ++attempt) {
        if (const pid_t process = find_process(mpi, mark, rank)) return process;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL(fmt::format("{} has started no rank {} of {}", mpi.name, rank, mark));
    return 0;
}

/// Data and a recipe whose batch norm takes the whole batch, and the flags of a run on them.
class Case {
public:
    Case() {
        write_records(folder_ / "data", 8);
        write_text(folder_ / "mine.toml",
                   tiny_recipe("\"batch\"", "kind = \"momentum\"\nlearning_rate = 1e-2\nmomentum = 0.9\n"));
    }
    fs::path operator/(const char* name) const { return folder_ / name; }

    Arguments flags(const fs::path& run, const std::string& towers, unsigned steps) const {
        return {"--towers",       towers,
                "--threads",      "1",
                "--recipe",       (folder_ / "mine.toml").string(),
                "--global-batch", "24",
                "--data",         (folder_ / "data").string(),
                "--run",          run.string(),
                "--steps",        std::to_string(steps),
                "--save-every",   "2",
                "--log-every",    "1",
                "--progress",     "log"};
    }

private:
    TemporaryFolder folder_;
};

unsigned latest(const fs::path& run) {
    unsigned latest = 0;
    if (!fs::exists(run)) return latest;
    for (const std::string& name : names_in(run))
        if (name.starts_with("model.ckpt-") && name.ends_with(".safetensors"))
            latest = std::max(latest, unsigned(std::stoul(name.substr(11))));
    return latest;
}

/// What the program says on stderr, without the launcher's words.
std::vector<std::string> own_lines(const Outcome& outcome) {
    std::vector<std::string> lines = lines_of(outcome.err);
    std::erase_if(lines, [](const std::string& line) { return !line.starts_with("towers: "); });
    return lines;
}

/// Checks that the program failed and said one line, with these words.
void check_refused(const Mpi& mpi, const Outcome& outcome, const std::string& words) {
    INFO(outcome.err);
    check_failed(mpi, outcome);
    const std::vector<std::string> lines = own_lines(outcome);
    REQUIRE(lines.size() == 1);
    CHECK(contains(lines[0], words));
}

void check_started(const Outcome& outcome) {
    INFO(outcome.out << outcome.err);
    CHECK(outcome.code == 0);
}

/// Kills ranks so often, at any moment of the job's life: nothing is lost but the steps since the last
/// checkpoint.
void check_killed(int kills) {
    const Case its;
    std::mt19937 random(std::random_device{}());
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const Arguments shares{"--shares", "5:3"};
        const fs::path run_path = its / mpi.name;
        int killed = 0;
        for (int life = 0; killed < kills; ++life) {
            REQUIRE(life < 20 * kills);
            const bool exists = fs::exists(checkpoint(run_path, 0));
            const unsigned before = exists ? latest(run_path) : 0;
            const std::string mark = fmt::format("{}-{}", run_path.string(), life);
            if (!exists) fs::remove_all(run_path);
            Program program(under(mpi, 2,
                                  its.flags(run_path, "cpu", before + 40) + shares +
                                      (exists ? Arguments{"--resume"} : Arguments{})),
                            marked(mark));
            const unsigned rank = random() % 2;
            pid_t process = 0;
            program.wait_until([&] { return (process = find_process(mpi, mark, rank)) != 0; });
            if (process == 0) { // now and then mpirun of Open MPI 5 ends without a rank
                const Outcome outcome = program.end();
                INFO(outcome.err);
                CHECK_FALSE(contains(outcome.err, "towers: "));
                continue;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(random() % 900));
            ::kill(process, SIGKILL);
            const Clock::time_point begin = Clock::now();
            if (program.wait_until([&] { return Clock::now() - begin > std::chrono::seconds(30); })) {
                // A launcher waits for ever for a rank that was killed while the two introduced themselves.
                CHECK(!contains(program.out(), "loss = "));
                CHECK(find_process(mpi, mark, 1 - rank) == 0);
                program.send(SIGKILL);
                MESSAGE(fmt::format("mpirun.{} does not learn that a rank is dead", mpi.name));
            }
            const Outcome outcome = program.end();
            if (contains(outcome.out, "done: saved")) continue; // the kill came too late
            check_failed(mpi, outcome);
            ++killed;
            const bool trained = contains(outcome.out, "loss = ");
            if (std::string(mpi.name) == "openmpi" && rank == 1 && trained) {
                INFO(outcome.err);
                CHECK(contains(outcome.err, "towers: rank 1 ("));
                CHECK(contains(outcome.err, "go on from it with --resume"));
            }
        }
        const unsigned steps = latest(run_path) + 4;
        Arguments last = its.flags(run_path, "cpu", steps) + shares;
        if (fs::exists(checkpoint(run_path, 0)))
            last.push_back("--resume");
        else
            fs::remove_all(run_path);
        check_started(run(under(mpi, 2, last)));
        const fs::path whole = its / (std::string(mpi.name) + "-whole").c_str();
        check_started(run(under(mpi, 2, its.flags(whole, "cpu", steps) + shares)));
        check_same(whole, run_path, steps);
    }
}

/// A trained run, its data as files, and command lines of one process and of several ranks that are to say
/// the same of it.
class Using {
public:
    Using() {
        check_worked(
            run_towers(Arguments{"train"} + case_.flags(run_, "cpu", 2) + Arguments{"--tune", "off"}));
        CHECK(run_towers({"data", "import", case_ / "data", files_, "--as", "folder"}).code == 0);
    }
    fs::path operator/(const char* name) const { return case_ / name; }
    std::string run() const { return run_; }
    std::string files() const { return files_; }
    std::string data() const { return case_ / "data"; }

    Arguments command(const Arguments& words, const std::string& towers) const {
        return towers_command(words + Arguments{"--towers", towers, "--threads", "1"});
    }
    /// Checks that the ranks, each with these towers, print and end as one process with all of them.
    void check_same(const Mpi& mpi, const Arguments& words, const std::vector<std::string>& towers) const {
        std::vector<Arguments> ranks;
        for (const std::string& each : towers) ranks.push_back(command(words, each));
        if (!mpi.colon && std::ranges::count(ranks, ranks[0]) < long(ranks.size())) return;
        const Outcome alone = ::run(command(words, fmt::format("{}", fmt::join(towers, ","))));
        const Outcome outcome = ::run(launch(mpi, ranks));
        CAPTURE(words[0]);
        CAPTURE(fmt::format("{}", fmt::join(towers, " ")));
        INFO(outcome.err);
        CHECK(without_time(outcome.out) == without_time(alone.out));
        CHECK(own_lines(outcome) == own_lines(alone));
        if (mpi.code || alone.code == 0) CHECK(outcome.code == alone.code);
    }

private:
    /// What eval prints begins with the time.
    static std::string without_time(const std::string& out) {
        const std::size_t at = out.find(": precision @ 1");
        return at == out.npos ? out : out.substr(at);
    }

    Case case_;
    std::string run_ = case_ / "trained", files_ = case_ / "files";
};

/// Two ranks that train until they are told to stop, and have taken a few steps.
struct Endless {
    Endless(const Mpi& its, const Case& data, const fs::path& run)
        : mpi(its), mark(run.string()),
          program(under(mpi, 2, data.flags(run, "cpu", 1000000)), marked(mark)) {
        CHECK(program.wait_for_lines("loss = ", 3));
    }
    pid_t process(unsigned rank) const { return process_of(mpi, mark, rank); }

    const Mpi& mpi;
    std::string mark;
    Program program;
};

} // namespace

TEST_CASE("ranks train as the same towers of one process") {
    const Case its;
    const Arguments shares{"--shares", "1:3:2:2"};
    check_worked(run_towers(Arguments{"train"} + its.flags(its / "alone", "cpu,cpu,cpu,cpu", 10) + shares));
    const std::vector<float> expected = any_variables(checkpoint(its / "alone", 10));
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const fs::path run_path = its / mpi.name;
        const auto ranks = [&](const std::vector<std::string>& towers) {
            std::vector<Arguments> all;
            for (const std::string& each : towers) all.push_back(its.flags(run_path, each, 10) + shares);
            return under(mpi, all);
        };
        const std::vector<std::vector<std::string>> layouts{
            {"cpu,cpu", "cpu,cpu"}, {"cpu", "cpu,cpu", "cpu"}, {"cpu", "cpu", "cpu", "cpu"}};
        for (const auto& towers : layouts) {
            if (!mpi.colon && std::ranges::count(towers, towers[0]) < long(towers.size())) continue;
            CAPTURE(towers.size());
            const Outcome outcome = run(ranks(towers));
            check_started(outcome);
            CHECK(contains(outcome.out, fmt::format("tower_3: {}/cpu", towers.size() - 1)));
            CHECK(relative_distance(any_variables(checkpoint(run_path, 10)), expected) < 1e-5);
            CHECK(relative_distance(any_variables(checkpoint(run_path, 10), true),
                                    any_variables(checkpoint(its / "alone", 10), true)) < 1e-5);
            CHECK(metrics(run_path).size() == 10);
            fs::rename(run_path, its / "before");
            if (towers.size() == 2) { // once more: the same bits
                check_started(run(ranks(towers)));
                check_same(its / "before", run_path, 10);
                fs::remove_all(run_path);
            }
            fs::remove_all(its / "before");
        }
    }
}

TEST_CASE("a run goes on with any number of ranks, and with none") {
    const Case its;
    const Arguments shares{"--shares", "even"};
    check_worked(
        run_towers(Arguments{"train"} + its.flags(its / "alone", "cpu", 8) + Arguments{"--tune", "off"}));
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const fs::path run_path = its / mpi.name;
        check_worked(
            run_towers(Arguments{"train"} + its.flags(run_path, "cpu", 2) + Arguments{"--tune", "off"}));
        for (const unsigned ranks : {2u, 3u})
            check_started(run(
                under(mpi, ranks, its.flags(run_path, "cpu", 2 * ranks) + Arguments{"--resume"} + shares)));
        check_worked(run_towers({"train", "--run", run_path.string(), "--resume", "--steps", "8", "--towers",
                                 "cpu", "--data", (its / "data").string()}));
        CHECK(relative_distance(any_variables(checkpoint(run_path, 8)),
                                any_variables(checkpoint(its / "alone", 8))) < 1e-5);
    }
}

TEST_CASE("gradients travel as bfloat16 between hosts if all ranks are told so, and in a resumed run") {
    const Case its;
    const Arguments flags{"--shares", "even", "--wire", "bf16"};
    const Outcome alone = run_towers(Arguments{"train"} + its.flags(its / "alone", "cpu,cpu,cpu", 4) + flags);
    check_started(alone);
    CHECK(contains(alone.err, "--wire bf16 changes nothing in a run of one process"));
    const auto distance_from_alone = [&](const fs::path& path) {
        return relative_distance(any_variables(checkpoint(path, 4)),
                                 any_variables(checkpoint(its / "alone", 4)));
    };
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const fs::path run_path = its / mpi.name, exact = its / fmt::format("{}-exact", mpi.name).c_str();
        const Outcome whole = run(in_pairs(mpi, 3, its.flags(run_path, "cpu", 4) + flags));
        check_started(whole);
        CHECK_FALSE(contains(whole.err, "changes nothing"));
        const Outcome beside = run(under(mpi, 3, its.flags(exact, "cpu", 4) + flags));
        check_started(beside);
        CHECK(contains(beside.err, "--wire bf16 changes nothing among ranks of one host"));
        CHECK(distance_from_alone(exact) < 1e-6);
        CHECK(distance_from_alone(run_path) > 1e-5);
        CHECK(distance_from_alone(run_path) < 1e-2);
        // Each time the same bits, and none of what rounding has left
        fs::copy(run_path, its / "again", fs::copy_options::recursive);
        for (const fs::path& path : {run_path, its / "again"})
            check_started(run(in_pairs(mpi, 3, its.flags(path, "cpu", 6) + Arguments{"--resume"})));
        check_same(run_path, its / "again", 6);
        CHECK(contains(read_text(run_path / "config.toml"), "wire = 'bf16'\n"));
        fs::remove_all(its / "again");
        if (!mpi.colon) continue;
        const Outcome refused = run(
            under(mpi, {its.flags(its / "refused", "cpu", 4), its.flags(its / "refused", "cpu", 4) + flags}));
        check_failed(mpi, refused);
        CHECK(contains(refused.err, "wire = 'bf16'"));
    }
}

TEST_CASE("ranks that are killed lose nothing but the steps since the last checkpoint") { check_killed(3); }

TEST_CASE("ranks go on from the last checkpoint without one that is killed, as a run resumed on fewer") {
    const std::optional<Mpi>& mpi = mpi_that_goes_on();
    if (!mpi) return;
    const Case its;
    const fs::path run_path = its / "run", whole = its / "whole";
    constexpr unsigned steps = 200;
    const auto train = [&](std::size_t ranks, const fs::path& folder, unsigned to, const Arguments& more) {
        return under(*mpi, ranks, its.flags(folder, "cpu", to) + Arguments{"--shares", "even"} + more);
    };
    Program program(train(3, run_path, steps, {}), marked(run_path.string()));
    REQUIRE(program.wait_for_lines("loss = ", 10));
    ::kill(process_of(*mpi, run_path.string(), 1), SIGKILL);
    const Outcome outcome = program.end();
    check_started(outcome);
    CHECK(contains(outcome.out, "done: saved"));
    CHECK(contains(outcome.err, "towers: rank 1 ("));
    const std::string words = "2 ranks go on from " + (run_path / "model.ckpt-").string();
    REQUIRE(contains(outcome.err, words));
    const unsigned step = unsigned(std::stoul(outcome.err.substr(outcome.err.find(words) + words.size())));
    CHECK(contains(outcome.out, fmt::format("resumed at step {}", step)));
    CHECK(metrics(run_path).size() == steps);
    check_started(run(train(3, whole, step, {})));
    check_started(run(train(2, whole, steps, {"--resume"})));
    check_same(whole, run_path, steps);
}

TEST_CASE("ranks go on until rank 0 is alone, and not without it") {
    const std::optional<Mpi>& mpi = mpi_that_goes_on();
    if (!mpi) return;
    const Case its;
    const Arguments shares{"--shares", "1:2:3"};
    for (const bool ends_well : {true, false}) {
        CAPTURE(ends_well);
        const fs::path run_path = its / (ends_well ? "well" : "badly");
        const std::string mark = run_path.string();
        Program program(under(*mpi, 3, its.flags(run_path, "cpu", ends_well ? 300 : 1000000) + shares),
                        marked(mark));
        REQUIRE(program.wait_for_lines("loss = ", 10));
        ::kill(process_of(*mpi, mark, 2), SIGKILL);
        REQUIRE(program.wait_for_lines("resumed at step ", 1));
        ::kill(process_of(*mpi, mark, ends_well ? 1 : 0), SIGKILL);
        const Outcome outcome = program.end();
        INFO(outcome.out << outcome.err);
        CHECK((outcome.code == 0) == ends_well);
        CHECK(contains(outcome.err, "2 ranks go on from "));
        CHECK(contains(outcome.err, ", with automatic shares, since '1:2:3' are of all ranks"));
        CHECK(contains(outcome.err, ends_well ? "1 rank goes on from "
                                              : "go on from the last checkpoint in its run directory"));
        CHECK(contains(outcome.out, "done: saved") == ends_well);
    }
}

TEST_CASE("a signal to any rank, and SIGUSR2 to the launcher, end all ranks after the same step, saved") {
    const Case its;
    for (const Mpi& mpi : mpis())
        for (const int signal : {SIGTERM, SIGUSR2})
            for (const unsigned rank : {0u, 1u}) {
                CAPTURE(mpi.name);
                CAPTURE(signal);
                CAPTURE(rank);
                const fs::path run_path = its / fmt::format("{}-{}-{}", mpi.name, signal, rank).c_str();
                Endless job(mpi, its, run_path);
                // mpiexec of MPICH does not pass SIGUSR2 on
                if (signal == SIGUSR2 && rank == 0 && std::string(mpi.name) == "openmpi")
                    job.program.send(signal);
                else
                    ::kill(job.process(rank), signal);
                const Outcome outcome = job.program.end();
                check_started(outcome);
                CHECK(contains(outcome.out, "stopped: saved "));
                CHECK(metrics(run_path).size() == latest(run_path));
            }
}

TEST_CASE("ranks that do not fit together are refused with one line") {
    const Case its;
    write_records(its / "other", 4);
    for (const Mpi& mpi : mpis()) {
        if (!mpi.colon) continue;
        CAPTURE(mpi.name);
        const fs::path run_path = its / "run";
        const Arguments flags = its.flags(run_path, "cpu", 4);
        const auto with = [&](const char* flag, const std::string& value) {
            Arguments other = flags;
            *(std::ranges::find(other, flag) + 1) = value;
            return run(under(mpi, {flags, other}));
        };
        /// With these lines in a file that --config names, instead of --data.
        const auto with_file = [&](const std::string& lines) {
            write_text(its / "mine.config", lines);
            Arguments other = flags;
            const auto data = std::ranges::find(other, "--data");
            data[0] = "--config", data[1] = (its / "mine.config").string();
            const Arguments tests{"--eval-every", "2"};
            return run(under(mpi, {flags + tests, other + tests}));
        };
        const auto check = [&](const Outcome& outcome, const std::string& words) {
            check_refused(mpi, outcome, words);
            CHECK_FALSE(fs::exists(run_path));
        };
        check(with("--global-batch", "32"), "give all ranks the same flags");
        check(run(under(mpi, {flags, flags + Arguments{"--hold-out", "25%"}})), "hold-out = '25%'");
        check(with("--data", (its / "other").string()), "has other data: 20 examples");
        check(with_file(fmt::format("data = '{}'", (its / "other").string())), "has other data: 20 ");
        check(with_file(fmt::format("test-data = '{}'", (its / "other").string())), "has other test data: ");
        check(with_file("lr = 0.5"), "give all ranks the same flags");
        check(with("--data", (its / "nothing").string()), "there is no file or folder");
        check(with("--towers", "cuda:77"), "rank 1 (");
    }
}

TEST_CASE("bench measures the run of all ranks and the exchange between them") {
    const Case its;
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const fs::path report = its / (std::string(mpi.name) + ".json").c_str();
        const auto bench = [&](const Arguments& flags) {
            const Arguments command =
                towers_command(Arguments{"bench", "--towers", "cpu,cpu", "--threads", "1", "--batch", "2",
                                         "--repetitions", "2", "--steps", "2", "--warm-up", "4"} +
                               flags);
            return run(launch(mpi, {command, command}));
        };
        const Outcome outcome = bench({"--together", "--json", report.string()});
        check_started(outcome);
        CHECK(contains(outcome.out, "% of the sum of the ranks' own rates"));
        const nlohmann::json figures = nlohmann::json::parse(read_text(report));
        REQUIRE(figures.at("ranks").size() == 2);
        CHECK(figures.at("ranks")[1].at("towers") == Arguments{"1/cpu", "1/cpu"});
        CHECK(figures.at("ranks")[1].at("shares") == std::vector<unsigned>{2, 2});
        CHECK(figures.at("share_of_sum").at("min") > 0);
        // Of the 4.27 MB of the model, half go as gradients and the other half as new parameters.
        const nlohmann::json& exchange = figures.at("exchange");
        CHECK(double(exchange.at("sent_bytes")) == doctest::Approx(4.0 * 1068298).epsilon(.01));
        CHECK(exchange.at("step_us").at("min") > 0);

        const Outcome refused = bench({});
        check_failed(mpi, refused);
        CHECK(contains(refused.err, "give --together"));
    }
}

TEST_CASE("ranks evaluate as the same towers of one process") {
    const Using its;
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        // 8 test examples: batches of any number, also fewer than towers
        its.check_same(mpi, {"eval", its.run(), "--batch", "3", "--per-class"}, {"cpu", "cpu"});
        its.check_same(mpi, {"eval", its.run(), "--raw", "--batch", "1", "--split", "train"},
                       {"cpu", "cpu,cpu"});
        const std::string confusion = its / (std::string(mpi.name) + ".csv").c_str();
        its.check_same(mpi, {"eval", its.run(), "--confusion", confusion}, {"cpu", "cpu", "cpu"});
        CHECK(fs::exists(confusion));
        // What a rank that follows does again and again
        its.check_same(mpi, {"eval", its.run(), "--interval", "1"}, {"cpu", "cpu"});
    }
}

TEST_CASE("ranks predict as the same towers of one process") {
    const Using its;
    const std::string pictures = its.files() + "/test", list = its / "list";
    std::string names = fmt::format("{}\n", (its / "nothing.png").string());
    for (const auto& each : fs::recursive_directory_iterator(pictures))
        if (each.is_regular_file() && names.find("png", names.find("png") + 3) == names.npos)
            names += each.path().string() + "\n";
    write_text(list, names);
    write_text(its / "broken.png", "no picture");
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const Arguments all{"predict", its.run(), pictures, its / "broken.png"};
        its.check_same(mpi, all + Arguments{"--json", "--scores", "--batch", "2"}, {"cpu", "cpu"});
        its.check_same(mpi, all + Arguments{"--csv", "--raw", "--batch", "1", "--skip-broken"},
                       {"cpu", "cpu,cpu"});
        // One picture and three towers, and one that is not there
        its.check_same(mpi, {"predict", its.run(), "--files-from", list}, {"cpu", "cpu", "cpu"});
    }
}

TEST_CASE("ranks that cannot evaluate or predict together are refused with one line") {
    const Using its;
    write_records(its / "other", 4);
    for (const char* name : {"here/a.png", "here/b.png", "there/a.png"}) {
        fs::create_directories((its / name).parent_path());
        write_text(its / name, "no picture");
    }
    write_text(its / "there/b.png", "none");
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const auto ranks = [&](const Arguments& first, const Arguments& second) {
            return run(launch(mpi, {its.command(first, "cpu"), its.command(second, "cpu")}));
        };
        const Arguments eval{"eval", its.run()};
        check_refused(mpi, ranks({"eval", its / "nothing"}, {"eval", its / "nothing"}),
                      "there is no run or checkpoint");
        if (!mpi.colon) continue;
        check_refused(mpi, ranks(eval, eval + Arguments{"--data", its / "other"}),
                      "has other data: 4 examples");
        check_refused(mpi, ranks(eval, eval + Arguments{"--batch", "7"}), "give all ranks the same flags");
        const auto predict_in = [&](const char* folder) {
            return Arguments{"env", "-C", its / folder} +
                   its.command({"predict", its.run(), "a.png", "b.png", "--batch", "1"}, "cpu");
        };
        check_refused(mpi, run(launch(mpi, {predict_in("here"), predict_in("there")})),
                      "b.png has 4 bytes, and for rank 0 (");
        // Rank 1 needs neither run nor checkpoint, and has its own copy of the data.
        fs::copy(its / "data", its / "copy",
                 fs::copy_options::recursive | fs::copy_options::overwrite_existing);
        const Outcome apart = ranks(eval + Arguments{"--data", its / "data"},
                                    {"eval", its / "nothing", "--data", its / "copy"});
        check_started(apart);
        CHECK(contains(apart.out, " of 8 examples"));
    }
}

TEST_CASE("a rank that is killed ends an evaluation with one line") {
    const Using its;
    fs::remove(its / "trained/config.toml"); // it goes on for all that is known
    for (const Mpi& mpi : mpis())
        for (const unsigned rank : {0u, 1u}) {
            CAPTURE(mpi.name);
            CAPTURE(rank);
            const std::string mark = fmt::format("{}-{}-{}", its.run(), mpi.name, rank);
            const Arguments command = its.command({"eval", its.run(), "--interval", "1"}, "cpu");
            Program program(launch(mpi, {command, command}), marked(mark));
            REQUIRE(program.wait_for_lines("precision @ 1", 1));
            ::kill(process_of(mpi, mark, rank), SIGKILL);
            const Outcome outcome = program.end();
            check_failed(mpi, outcome);
            const std::vector<std::string> lines = own_lines(outcome);
            INFO(outcome.err);
            CHECK(lines.size() <= 1); // MPICH's launcher may end the others before they can speak
            if (std::string(mpi.name) == "openmpi") {
                REQUIRE(lines.size() == 1);
                CHECK(contains(lines[0], fmt::format("rank {} (", rank)));
                CHECK(lines[0].ends_with("its process has ended"));
            }
        }
}

TEST_CASE("a rank with other kernels or another engine is refused with one line") {
    const Case its;
    const fs::path program = towers_command({}).front(), folder = its / "other";
    const std::string bytes = read_text(program);
    fs::create_directory(folder);
    fs::create_directory_symlink(fs::absolute(program).parent_path() / "lib", folder / "lib");
    for (const std::string_view version : {towers::kernels_version(), towers::engine_version()}) {
        std::string other = bytes;
        const std::size_t place = other.find(version);
        REQUIRE(place != std::string::npos);
        other[place] = other[place] == '0' ? '1' : '0';
        write_text(folder / "towers", other);
        fs::permissions(folder / "towers", fs::perms::owner_all);
        for (const Mpi& mpi : mpis()) {
            if (!mpi.colon) continue;
            CAPTURE(mpi.name);
            const Arguments flags = its.flags(its / "run", "cpu", 4);
            Arguments command = under(mpi, {flags, flags + Arguments{"--seed", "1"}});
            *std::find(command.rbegin(), command.rend(), program.string()) = folder / "towers";
            const Outcome outcome = run(command);
            INFO(outcome.err);
            check_failed(mpi, outcome);
            std::vector<std::string> lines = lines_of(outcome.err);
            std::erase_if(lines, [](const std::string& line) { return !line.starts_with("towers: "); });
            REQUIRE(lines.size() == 1);
            CHECK(lines[0].starts_with("towers: rank 0 ("));
            CHECK(contains(lines[0], version));
            CHECK(contains(lines[0], other.substr(place, version.size())));
            CHECK(contains(lines[0], ", but rank 1 ("));
            CHECK_FALSE(fs::exists(its / "run"));
        }
    }
}

TEST_CASE("the choices of all ranks' devices are kept with the run and come back") {
    const Case its;
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        Environment environment;
        environment.set("XDG_CACHE_HOME", (its / "cache").c_str());
        const fs::path whole = its / (std::string(mpi.name) + "-whole").c_str(),
                       parts = its / (std::string(mpi.name) + "-parts").c_str();
        const auto train_to = [&](const fs::path& run_path, unsigned steps, const Arguments& more = {}) {
            const Arguments tune{"--shares", "even", "--tune", "quick"};
            check_started(run(under(mpi, 2, its.flags(run_path, "cpu", steps) + tune + more)));
        };
        train_to(its / "first", 1); // measures what the others find in the cache
        fs::remove_all(its / "first");
        train_to(whole, 4);
        train_to(parts, 2);
        fs::remove_all(its / "cache");
        auto choices = nlohmann::json::parse(read_text(parts / "choices.json"));
        REQUIRE(choices.at("devices").size() == 2);
        CHECK_FALSE(choices["devices"][0].contains("rank"));
        CHECK(choices["devices"][1].at("rank") == 1);
        auto& its_launches = choices["devices"][1].at("launches");
        CHECK(its_launches.size() > 5);
        its_launches["relu_forward 4242 0"] = its_launches.front(); // of no network
        write_text(parts / "choices.json", choices.dump());
        train_to(parts, 4, {"--resume"});
        CHECK(nlohmann::json::parse(read_text(parts / "choices.json")) == choices);
        check_same(whole, parts, 4);
    }
}

TEST_CASE("a trace has the towers of all ranks, on one clock") {
    const Case its;
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const fs::path file = its / (std::string(mpi.name) + ".json").c_str();
        const Arguments flags{"--shares", "even", "--trace", file.string(), "--trace-steps", "2"};
        check_started(run(under(mpi, 2, its.flags(its / mpi.name, "cpu", 4) + flags)));
        const auto trace = nlohmann::json::parse(read_text(file));
        std::map<int, std::string> processes;
        std::map<std::uint64_t, std::pair<double, double>> steps; // in microseconds
        const auto is_on = [&](const auto& event, const char* process) {
            return event.at("ph") == "X" && processes.at(event.at("pid")).starts_with(process);
        };
        for (const auto& event : trace.at("traceEvents"))
            if (event.at("name") == "process_name") processes[event.at("pid")] = event.at("args").at("name");
        CHECK(processes.size() == 4);
        for (const auto& event : trace.at("traceEvents"))
            if (is_on(event, "host") && event.at("name").template get<std::string>().starts_with("step ")) {
                const double begin = event.at("ts"), duration = event.at("dur");
                steps[event.at("args").at("step")] = {begin, begin + duration};
            }
        CHECK(steps.size() == 2);
        unsigned its_kernels = 0, within = 0, averages = 0;
        for (const auto& event : trace.at("traceEvents")) {
            if (is_on(event, "host of rank 1 (")) ++averages;
            if (!is_on(event, "tower_1: 1/cpu (") || event.at("cat") != "device") continue;
            ++its_kernels;
            const double begin = event.at("ts"), duration = event.at("dur");
            const auto& [from, to] = steps.at(event.at("args").at("step"));
            within += begin > from - 5e3 && begin + duration < to + 5e3;
        }
        CHECK(its_kernels > 20);
        CHECK(within > .9 * its_kernels); // rank 0 does not wait for its last copies
        CHECK(averages > 2);
    }
}

TEST_CASE("checkpoints that rank 0 cannot write are everyone's failure") {
    const Case its;
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const fs::path run_path = its / mpi.name;
        Endless job(mpi, its, run_path);
        fs::rename(run_path, its / (std::string(mpi.name) + "-gone").c_str());
        ::kill(job.process(1), SIGTERM);
        const Outcome outcome = job.program.end();
        INFO(outcome.err);
        check_failed(mpi, outcome);
        CHECK(contains(outcome.err, "towers: cannot write "));
    }
}

TEST_SUITE("slow") {
    TEST_CASE("ranks that are killed 50 times lose nothing but the steps since the last checkpoint") {
        check_killed(50);
    }

    TEST_CASE("a rank that does not answer ends the job within 30 s, with one line") {
        const Case its;
        for (const Mpi& mpi : mpis()) {
            CAPTURE(mpi.name);
            const fs::path run_path = its / mpi.name;
            Endless job(mpi, its, run_path);
            const pid_t process = job.process(1);
            ::kill(process, SIGSTOP);
            const Clock::time_point begin = Clock::now();
            const Outcome outcome = job.program.end();
            INFO(outcome.err);
            CHECK(Clock::now() - begin < std::chrono::seconds(30));
            check_failed(mpi, outcome);
            CHECK(contains(outcome.err, "it has not answered for 20 s; the last checkpoint is "));
            ::kill(process, SIGKILL);
        }
    }
}
