#include "engine/observers/metrics.h"
#include "engine/run/read_metrics.h"

#include "backends/error.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace towers {
namespace {

Progress progress_at(std::uint64_t step, bool log, std::vector<unsigned> shares,
                     const std::vector<unsigned>& micro_batches = {}) {
    Progress progress{};
    progress.report.step = step;
    progress.report.examples = 8 * step;
    progress.report.loss = 0.5F;
    progress.report.tower_losses.resize(shares.size());
    progress.report.micro_batches = micro_batches.empty() ? std::vector(shares.size(), 1u) : micro_batches;
    progress.report.shares = std::move(shares);
    progress.log = log;
    return progress;
}

std::vector<nlohmann::json> lines_of(const std::filesystem::path& folder) {
    std::vector<nlohmann::json> lines;
    std::istringstream text(test::read_text(metrics_path_in(folder)));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
}

} // namespace

TEST_CASE(
    "the metrics have a line for each step that is due, and for each change of shares or micro-batches") {
    const test::TemporaryFolder folder;
    {
        RunDirectory run(folder.path(), Existing::refuse);
        Metrics metrics(run, 20);
        CHECK(metrics.place() == metrics_path_in(folder.path()).string());
        CHECK(metrics.observe(progress_at(0, true, {4, 4})));
        CHECK_FALSE(metrics.observe(progress_at(1, false, {4, 4})));
        CHECK(metrics.observe(progress_at(2, false, {6, 2})));
        CHECK_FALSE(metrics.observe(progress_at(3, false, {6, 2})));
        CHECK(metrics.observe(progress_at(4, true, {6, 2})));
        metrics.sync();
    }
    {
        RunDirectory run(folder.path() / "one", Existing::refuse);
        Metrics metrics(run, 20);
        CHECK(metrics.observe(progress_at(0, true, {8})));
        CHECK_FALSE(metrics.observe(progress_at(1, false, {8})));
        CHECK(metrics.observe(progress_at(2, false, {8}, {2})));
        CHECK(lines_of(folder.path() / "one").size() == 2);
        const std::vector<SharesFrom> shares = read_shares(run.metrics_path());
        REQUIRE(shares.size() == 2);
        CHECK(shares[1].shares == std::vector{8u});
        CHECK(shares[1].micro_batches == std::vector{2u});
    }
    const auto lines = lines_of(folder.path());
    REQUIRE(lines.size() == 3);
    CHECK(lines[1].at("step") == 2);
    CHECK(lines[1].at("epoch") == 0);
    CHECK(lines[2].at("epoch") == 1); // it begins after 32 of 20 examples
    CHECK(lines[2].at("loss") == 0.5);
    const std::vector<SharesFrom> shares = read_shares(metrics_path_in(folder.path()));
    REQUIRE(shares.size() == 2);
    CHECK(shares[1].step == 2);
    CHECK(shares[1].shares == std::vector{6u, 2u});
    CHECK(shares[1].micro_batches == std::vector{1u, 1u});

    // A run that goes on knows the shares that the file ends with.
    write_safetensors(folder.path() / "model.ckpt-5.safetensors", {});
    RunDirectory run(folder.path(), Existing::resume);
    Metrics metrics(run, 20);
    CHECK_FALSE(metrics.observe(progress_at(5, false, {6, 2})));
    CHECK(metrics.observe(progress_at(6, false, {6, 2}, {3, 1})));
    CHECK(metrics.observe(progress_at(7, false, {4, 4})));
}

TEST_CASE("shares that an early version recorded have no micro-batches, and damaged lines are refused") {
    const test::TemporaryFolder folder;
    const auto read = [&](const std::string& line) {
        test::write_text(folder / "metrics.jsonl", line + "\n");
        return read_shares(folder / "metrics.jsonl");
    };
    CHECK(read(R"({"step":3,"loss":1})").empty());
    CHECK(read(R"({"step":3,"shares":[6,2]})").at(0).micro_batches.empty());
    for (const char* const micro_batches : {"[1]", "[1,2,3]", "[1,-2]", "[1,\"2\"]", "2", "[1,9999999]"}) {
        CAPTURE(micro_batches);
        CHECK_THROWS_AS(read(fmt::format(R"({{"step":3,"shares":[6,2],"micro_batches":{}}})", micro_batches)),
                        InputError);
    }
}

} // namespace towers
