// Trainings of several ranks, under the launchers of real MPIs.
#include "backends/launch/choices.h"
#include "engine/ranks/engine_version.h"
#include "engine/ranks/world.h"
#include "tests/apps/helpers.h"
#include "tests/apps/ranks_job.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("ranks train as the same towers of one process") {
    const Job its;
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
            const std::string last = fmt::format("{}/cpu", towers.size() - 1), host = towers::host_name();
            CHECK(contains(outcome.out, fmt::format("tower_3: {} (", last)));
            CHECK(contains(outcome.out, fmt::format(" on {}), 6 examples a step", host)));
            CHECK(contains(outcome.out, fmt::format("\ntower_3   {} ({})  ", last, host)));
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
    const Job its;
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
    const Job its;
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

TEST_CASE("ranks that do not fit together are refused with one line") {
    const Job its;
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

TEST_CASE("devices says which rank it is, and why its MPI cannot be used") {
    const TemporaryFolder folder;
    const std::string copy = folder.path() / "towers";
    fs::copy_file(towers_command({}).front(), copy);
    const RunOptions as_rank{.environment = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}};
    const Outcome without = Program({copy, "devices"}, as_rank).end();
    check_worked(without);
    CHECK(without.out.starts_with("rank 1 of 2 on "));
    CHECK(
        contains(without.out, ", by mpirun of Open MPI\nmpi        absent: this program has no plugin for "));
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const Arguments devices = towers_command({"devices"});
        const Outcome with = run(launch(mpi, {devices, devices}));
        check_worked(with);
        CHECK(contains(with.out, "rank 0 of 2 on "));
        CHECK(contains(with.out, "rank 1 of 2 on "));
        CHECK_FALSE(contains(with.out, "mpi        absent"));
    }
}

TEST_CASE("a rank with other kernels or another engine is refused with one line") {
    const Job its;
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
    const Job its;
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
    const Job its;
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
