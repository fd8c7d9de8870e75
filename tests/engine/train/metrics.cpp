#include "engine/train/metrics.h"

#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace towers {
namespace {

Progress progress_at(std::uint64_t step, bool log, std::vector<unsigned> shares) {
    Progress progress{};
    progress.report.step = step;
    progress.report.examples = 8 * step;
    progress.report.loss = 0.5F;
    progress.report.tower_losses.resize(shares.size());
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

TEST_CASE("the metrics have a line for each step that is due, and for each change of shares") {
    const test::TemporaryFolder folder;
    {
        RunDirectory run(folder.path(), Existing::refuse);
        Metrics metrics(run, 20, true);
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
        Metrics metrics(run, 20, false);
        CHECK(metrics.observe(progress_at(0, true, {8})));
        CHECK_FALSE(metrics.observe(progress_at(1, false, {8})));
        CHECK(lines_of(folder.path() / "one").size() == 1);
        CHECK(read_shares(run.metrics_path()).empty());
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

    // A run that goes on knows the shares that the file ends with.
    write_safetensors(folder.path() / "model.ckpt-5.safetensors", {});
    RunDirectory run(folder.path(), Existing::resume);
    Metrics metrics(run, 20, true);
    CHECK_FALSE(metrics.observe(progress_at(5, false, {6, 2})));
    CHECK(metrics.observe(progress_at(6, false, {4, 4})));
}

} // namespace towers
