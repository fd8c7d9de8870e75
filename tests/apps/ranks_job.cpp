#include "tests/apps/ranks_job.h"

#include "tests/support/environment.h"

#include <charconv>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace towers::test {

namespace fs = std::filesystem;

namespace {

bool is_on_path(const std::string& program) {
    std::istringstream folders(std::getenv("PATH"));
    for (std::string folder; std::getline(folders, folder, ':');)
        if (fs::exists(fs::path(folder) / program)) return true;
    return false;
}

/// MPICH before 4.3 may end with 0 when a rank fails: https://github.com/pmodels/mpich/issues/7057
const Mpi mpich{"mpich", "PMI_RANK", {}, false};

} // namespace

RunOptions marked(const std::string& mark) {
    return {.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                            {"TOWERS_TEST_MARK", mark}},
            .seconds = 120};
}

Outcome run(const Arguments& command) { return Program(command, marked("none")).end(); }

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

Arguments train_command(const Arguments& flags) {
    Arguments rank = towers_command(Arguments{"train"} + flags);
    // mpirun of Open MPI has a flag --tune, too
    if (const auto tune = std::ranges::find(rank, "--tune"); tune != rank.end()) {
        *tune += "=" + tune[1];
        rank.erase(tune + 1);
    }
    return rank;
}

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

Arguments under(const Mpi& mpi, const std::vector<Arguments>& ranks) {
    std::vector<Arguments> commands;
    for (const Arguments& each : ranks) commands.push_back(train_command(each));
    return launch(mpi, commands);
}

Arguments in_pairs(const Mpi& mpi, std::size_t ranks, const Arguments& flags) {
    const std::string named = fmt::format("TOWERS_HOST=pair$((${} / 2)) exec \"$@\"", mpi.rank_variable);
    return launch(mpi,
                  std::vector<Arguments>(ranks, Arguments{"sh", "-c", named, "sh"} + train_command(flags)));
}

Arguments under(const Mpi& mpi, std::size_t ranks, const Arguments& flags) {
    return under(mpi, std::vector<Arguments>(ranks, flags));
}

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

pid_t process_of(const Mpi& mpi, const std::string& mark, unsigned rank) {
    for (int attempt = 0; attempt < 2000; ++attempt) {
        if (const pid_t process = find_process(mpi, mark, rank)) return process;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL(fmt::format("{} has started no rank {} of {}", mpi.name, rank, mark));
    return 0;
}

unsigned latest(const fs::path& run) {
    unsigned latest = 0;
    if (!fs::exists(run)) return latest;
    for (const std::string& name : names_in(run))
        if (name.starts_with("model.ckpt-") && name.ends_with(".safetensors"))
            latest = std::max(latest, unsigned(std::stoul(name.substr(11))));
    return latest;
}

std::vector<std::string> own_lines(const Outcome& outcome) {
    std::vector<std::string> lines = lines_of(outcome.err);
    std::erase_if(lines, [](const std::string& line) { return !line.starts_with("towers: "); });
    return lines;
}

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

} // namespace towers::test
