// However the program is started, it finds itself, its threads and its processors.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <csignal>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <sched.h>
#include <set>
#include <unistd.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// Runs `script` in a shell, where $0 is the program, with the settings that OpenMP's library reads.
Outcome show_settings(const std::string& script, const RunOptions& options = {}) {
    Arguments command{"env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", "OMP_DISPLAY_ENV=verbose"};
    return Program(command + Arguments{"sh", "-c", script, TOWERS_PROGRAM}, options).end();
}

void check_started_anew(const Outcome& outcome) {
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "towers 0."));
    CHECK(contains(outcome.err, "GOMP_SPINCOUNT = '2000'"));
}

/// The processors that a thread may use, as Linux writes them: `0-3,8`.
std::string processors_of(const fs::path& thread) {
    std::ifstream status(thread / "status");
    const std::string key = "Cpus_allowed_list:\t";
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(key)) return line.substr(key.size());
    return ""; // it has ended
}

/// The processors of every thread of a process.
std::set<std::string> processors_of_threads(pid_t process) {
    std::set<std::string> found;
    for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", process)))
        found.insert(processors_of(thread.path()));
    found.erase("");
    return found;
}

} // namespace

TEST_CASE("OpenMP's binding of threads takes no processor away from the program") {
    cpu_set_t set;
    REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
    const int count = CPU_COUNT(&set);
    if (count == 1) {
        MESSAGE("SKIPPED: there is only one processor");
        return;
    }
    const std::string all = processors_of("/proc/thread-self");
    const std::string first = all.substr(0, all.find_first_of(",-"));
    const std::string one = ", 1 thread", each = fmt::format(", {} threads", count);
    struct Start {
        Arguments before; ///< how the program is started
        std::string processors, threads;
    };
    const std::vector<Start> starts{
        {{"OMP_PROC_BIND=true"}, all, each},
        {{"OMP_PROC_BIND=spread,close", "GOMP_SPINCOUNT=2000"}, all, each},
        {{"OMP_PLACES=threads", "OMP_WAIT_POLICY=passive"}, all, each},
        {{"GOMP_CPU_AFFINITY=" + all}, all, each},
        {{"GOMP_CPU_AFFINITY=" + first}, first, one}, // the user's choice of processors
        {{"OMP_PLACES={" + first + "}", "OMP_PROC_BIND=true"}, first, one},
        {{"OMP_PROC_BIND=true", "taskset", "-c", first}, first, one}, // not widened
    };
    const TemporaryFolder folder;
    for (const Start& start : starts) {
        const std::string how = fmt::format("{}", fmt::join(start.before, " "));
        CAPTURE(how);
        const Arguments before = Arguments{"env"} + start.before;
        const Outcome devices = Program(before + towers_command({"devices", "--json"})).end();
        CHECK(driver_of_cpu(nlohmann::json::parse(devices.out)).ends_with(start.threads));
        // Two towers, averaging, readers and, once, a driver have threads of their own.
        const std::string other = &start == &starts.front() ? quick_device() : "";
        const Arguments flags{"--feed", "streamed", "--batch", "2", "--steps", "1000000", "--log-every", "1"};
        const std::string towers = other.empty() ? "cpu,cpu" : "cpu,cpu," + other;
        const Arguments train{"train", "--towers", towers, "--run", (folder / how).string()};
        Program program(before + towers_command(train + flags + small_data()));
        REQUIRE(program.wait_for_lines("step 2,", 1));
        CHECK(processors_of_threads(program.process()) == std::set<std::string>{start.processors});
        program.send(SIGINT);
        CHECK(program.end().code == 0);
    }
}

#ifndef __SANITIZE_THREAD__ // which starts the program anew itself
TEST_CASE("the program starts anew where it was started through the dynamic loader") {
    for (const char* loader : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}) {
        if (!fs::exists(loader)) continue;
        const std::string words = fmt::format("{} --library-path '/nowhere at all' \"$0\" ", loader);
        check_started_anew(show_settings(words + "--version"));
        CHECK(contains(show_settings(words + "''").err, "towers --help")); // an empty word stays one
        return;
    }
    MESSAGE("SKIPPED: the dynamic loader is elsewhere");
}

TEST_CASE("the program starts anew when its file was deleted or replaced") {
    const TemporaryFolder folder;
    const fs::path copy = folder / "copy";
    fs::copy_file(TOWERS_PROGRAM, copy);
    const std::string name = copy.string();
    for (const std::string& change :
         {"rm " + name, "echo other >" + name + ".new; mv " + name + ".new " + name}) {
        CAPTURE(change);
        fs::remove(copy);
        fs::copy_file(TOWERS_PROGRAM, copy);
        // The shell has the file open and starts it after the change.
        check_started_anew(
            show_settings("exec 9<" + name + "; " + change + "; exec /proc/self/fd/9 --version"));
    }
}
#endif

TEST_CASE("the program works where /proc is not mounted") {
    const Arguments hidden{"unshare", "--mount", "--map-root-user",
                           "sh",      "-c",      "mount -t tmpfs none /proc && exec \"$@\"",
                           "sh"};
    if (Program(hidden + Arguments{"true"}).end().code != 0) {
        MESSAGE("SKIPPED: the system does not let this user mount anything");
        return;
    }
    const TemporaryFolder folder;
    const Arguments train{
        "train", "--towers", "cpu,cpu", "--batch", "2", "--steps", "2", "--run", (folder / "run").string()};
    check_worked(
        Program(hidden + towers_command(train + small_data()), {.environment = {{"OMP_PROC_BIND", "true"}}})
            .end());
    CHECK(fs::exists(checkpoint(folder / "run", 2)));
}

TEST_CASE("a limit on threads leaves room for those of a tower, or the program says that it is too low" *
          doctest::test_suite("timed")) { // alone: who comes first to the last threads depends on the load
    // Root gets threads beyond the limit, so another user runs the program, who has no other processes.
    const std::string user = std::to_string(1'000'000 + getpid());
    const Arguments other{"setpriv", "--reuid", user, "--regid", user, "--clear-groups"};
    const bool root = geteuid() == 0;
    // prlimit already lacks root's right to enter folders; setpriv may still have it.
    const Arguments limited{"prlimit", "--nproc=100"};
    if (root && Program(other + limited + towers_command({"--version"})).end().code != 0) {
        MESSAGE("SKIPPED: another user cannot run the program");
        return;
    }
    const TemporaryFolder folder;
    fs::permissions(folder.path(), fs::perms::all);
    const auto train = [&](const std::string& towers, int most) {
        const std::string run = (folder / fmt::format("{} {}", towers, most)).string();
        // Without the validation layer, which has a thread of its own
        const Arguments command = (root ? other : Arguments{}) +
                                  Arguments{"prlimit", fmt::format("--nproc={}", most), TOWERS_PROGRAM};
        const Arguments flags{"train",   "--data", "shapes",  "--towers", towers,  "--threads", "8",
                              "--batch", "8",      "--steps", "1",        "--run", run};
        return Program(command + flags).end();
    };
    // 16: the first tower gets its threads, the second does not.
    std::vector<std::pair<std::string, int>> trials{{"cpu", 1}, {"cpu", 6}, {"cpu,cpu", 8}, {"cpu,cpu", 16}};
    if (!root) trials = {{"cpu", 1}, {"cpu,cpu", 1}};
    if (!quick_device().empty()) trials.emplace_back(quick_device(), 1);
    for (const auto& trial : trials) {
        CAPTURE(trial.first);
        CAPTURE(trial.second);
        const Outcome outcome = train(trial.first, trial.second);
        // Where the first tower works, OpenMP's library may come first: it ends threads of a team that have
        // no part in some work of oneDNN, and starts them again, perhaps when the second tower has the last
        // ones.
        if (trial.first == "cpu,cpu" && contains(outcome.err, "libgomp: Thread creation failed")) {
            CHECK(outcome.code == 1);
            CHECK(contains(lines_of(outcome.err).back(), "towers: a library ended the program"));
        } else {
            check_failed(outcome, 1, "no more threads can be had (ulimit -u");
        }
    }
    if (root)
        check_worked(train("cpu", 8 + 3)); // the tower's threads and the few of the program's other work
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // which map terabytes
TEST_CASE("where memory for threads is lacking, the program does not blame the limit on threads") {
    const TemporaryFolder folder;
    for (const std::size_t kib : {300'000, 500'000, 700'000}) {
        CAPTURE(kib);
        const Arguments train{"train",
                              "--data",
                              "shapes",
                              "--towers",
                              "cpu",
                              "--threads",
                              "64",
                              "--batch",
                              "8",
                              "--steps",
                              "1",
                              "--run",
                              (folder / "run").string()};
        check_failed(run_towers(train, {.address_space = kib << 10}), 1, "(ulimit -v)");
    }
}
#endif

TEST_CASE("the program says what to do when OpenMP's library ends it for want of a thread") {
    const TemporaryFolder folder;
    std::string sanitizer = "verify_asan_link_order=0"; // the library is not built with the sanitizer
    if (const char* const options = std::getenv("ASAN_OPTIONS")) sanitizer.append(":").append(options);
    bool ended = false, worked = false;
    for (int first = 1; first < 12 && !worked; ++first) {
        CAPTURE(first);
        const std::string run = (folder / std::to_string(first)).string();
        const Outcome outcome = run_towers(Arguments{"train", "--towers", "cpu", "--threads", "2", "--batch",
                                                     "2", "--steps", "1", "--run", run} +
                                               small_data(),
                                           {.environment = {{"LD_PRELOAD", TOWERS_FEW_THREADS},
                                                            {"NO_THREADS_FROM", std::to_string(first)},
                                                            {"ASAN_OPTIONS", sanitizer}}});
        worked = outcome.code == 0;
        if (worked) continue;
        CHECK(outcome.code == 1);
        CHECK(contains(lines_of(outcome.err).back(), "no more threads can be had (ulimit -u"));
        ended = ended || contains(outcome.err, "libgomp: ");
    }
    CHECK(ended);
    CHECK(worked);
}

#ifndef __SANITIZE_THREAD__ // which does not let the library end the program
TEST_CASE("the program does not blame threads when a library ends it that could have had some") {
    const TemporaryFolder folder;
    // More than any address space, for each thread of OpenMP's
    const RunOptions options{.environment = {{"OMP_STACKSIZE", "1000000G"}}};
    const Outcome outcome = run_towers(Arguments{"train", "--towers", "cpu", "--threads", "2", "--batch", "2",
                                                 "--steps", "1", "--run", (folder / "run").string()} +
                                           small_data(),
                                       options);
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.err, "libgomp: "));
    CHECK(lines_of(outcome.err).back() == "towers: a library ended the program, as it says above");
}
#endif
