// Ranks that are killed, stopped or told to end, under the launchers of real MPIs.
#include "tests/apps/helpers.h"
#include "tests/apps/ranks_job.h"

#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <optional>
#include <random>
#include <string>
#include <thread>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// Kills ranks so often, at any moment of the job's life: nothing is lost but the steps since the last
/// checkpoint.
void check_killed(int kills) {
    const Job its;
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

/// Two ranks that train until they are told to stop, and have taken a few steps.
struct Endless {
    Endless(const Mpi& its, const Job& data, const fs::path& run)
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

TEST_CASE("ranks that are killed lose nothing but the steps since the last checkpoint") { check_killed(3); }

TEST_CASE("ranks go on from the last checkpoint without one that is killed, as a run resumed on fewer") {
    const std::optional<Mpi>& mpi = mpi_that_goes_on();
    if (!mpi) return;
    const Job its;
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
    const Job its;
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
    const Job its;
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

TEST_CASE("checkpoints that rank 0 cannot write are everyone's failure") {
    const Job its;
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
        const Job its;
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
