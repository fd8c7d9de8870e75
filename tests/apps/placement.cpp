// train --log-placement: where and how each operation runs, and how long it took.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <regex>
#include <string>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

using Table = std::map<std::string, std::string>; // the rest of a line by operation

/// The tables of the output by the towers that they are about, of those whose header begins so.
std::map<std::string, Table> tables_in(const std::string& out, const std::string& header) {
    std::map<std::string, Table> tables;
    const std::vector<std::string> lines = lines_of(out);
    for (std::size_t i = 1; i < lines.size(); ++i) {
        if (!std::regex_search(lines[i], std::regex("^operation +" + header))) continue;
        Table& table = tables[lines[i - 1].substr(0, lines[i - 1].find(':'))];
        for (++i; i < lines.size() && !lines[i].empty() && lines[i].find("  ") != std::string::npos; ++i)
            CHECK(table.emplace(lines[i].substr(0, lines[i].find("  ")), lines[i]).second);
    }
    return tables;
}

std::map<std::string, Table> placed(const std::string& out) { return tables_in(out, "kernel"); }
std::map<std::string, Table> timed(const std::string& out) { return tables_in(out, "us a step"); }

std::string train_logged(const fs::path& run, const Arguments& flags) {
    return train_small(run, Arguments{"--log-placement", "--threads", "1"} + flags);
}

} // namespace

TEST_CASE("--log-placement names each operation's kernel and variant, and times all of them") {
    const TemporaryFolder folder;
    const Arguments steps{"--steps", "4", "--batch", "8"};
    const std::string out = train_logged(folder / "with", steps);
    CHECK(contains(out, "\ntower_0: cpu ("));
    CHECK(contains(out, "), 8 examples a step\noperation "));
    const auto tables = placed(out), times = timed(out);
    REQUIRE(tables.size() == 1);
    REQUIRE(times.size() == 1);
    const Table& table = tables.at("tower_0");
    const Table& took = times.at("tower_0");
    CHECK(table.size() > 30);
    for (const char* operation : {"images", "conv1 forward", "conv2 weights gradient", "averages"})
        CHECK(table.contains(operation));
    CHECK(std::regex_search(
        table.at("conv2 forward"),
        std::regex("conv2 forward +conv2d_forward +[A-Z\\w].* \\d+x\\d+x\\d+ +1 +[\\d.]+ [kM]B")));
    CHECK(contains(out, "\nmeasured in steps 0 to 3, each operation alone\n"));
    double sum = 0;
    for (const auto& [operation, line] : took) {
        CAPTURE(line);
        CHECK(table.contains(operation));
        std::smatch match;
        REQUIRE(std::regex_search(line, match, std::regex(R"( +([\d.]+) +([\d.]+) %  \w)")));
        sum += std::stod(match[2]);
    }
    CHECK(took.size() == table.size());
    CHECK(sum == doctest::Approx(100).epsilon(0.03)); // of many rounded ones
    // The run is the same.
    train_small(folder / "without", Arguments{"--threads", "1"} + steps);
    check_same(folder / "with", folder / "without", 4);
}

TEST_CASE("--log-placement shows towers that do the same once, their copies, and micro-batches") {
    const TemporaryFolder folder;
    const std::string out = train_logged(
        folder / "run", {"--towers", "cpu,cpu,cpu", "--shares", "1:1:2", "--batch", "4", "--steps", "2"});
    const auto tables = placed(out), times = timed(out);
    REQUIRE(tables.size() == 2);
    CHECK(contains(out, "\ntower_0, tower_1: cpu, cpu ("));
    CHECK(contains(out, " of operations a step on each\n"));
    for (const char* towers : {"tower_0, tower_1", "tower_2"}) {
        CAPTURE(towers);
        const Table& table = tables.at(towers);
        CHECK(table.contains("gradients 0"));
        CHECK(table.contains("parameters 0"));
        CHECK(contains(times.at(towers).at("gradients 0"), " beside "));
        CHECK(times.at(towers).size() == table.size());
    }

    const std::string split = train_logged(folder / "split", {"--batch", "9", "--micro-batch", "4", "--steps",
                                                              "2", "--trace", (folder / "trace").string()});
    CHECK(contains(split, "), 9 examples a step in 3 micro-batches of "));
    CHECK(fs::exists(folder / "trace"));
    CHECK(contains(split, "trace of steps 0 to 1: "));
    const auto split_tables = placed(split), split_times = timed(split);
    CHECK(std::regex_search(split_tables.at("tower_0").at("conv1 forward"), std::regex(" 3 +[\\d.]+ [kM]B")));
    CHECK(split_times.at("tower_0").size() == split_tables.at("tower_0").size());
}

TEST_SUITE("slow") {
    TEST_CASE("every device tells how it runs each launch") {
        for (const std::string& id : other_devices()) {
            CAPTURE(id);
            const TemporaryFolder folder;
            const std::string out =
                train_logged(folder / "run", {"--towers", id, "--steps", "2", "--batch", "4"});
            const auto tables = placed(out), times = timed(out);
            CHECK(contains(out, "tower_0: " + id + " ("));
            CHECK(contains(tables.at("tower_0").at("pool1 forward"), "shared text"));
            CHECK(times.at("tower_0").size() == tables.at("tower_0").size());
        }
    }
}
