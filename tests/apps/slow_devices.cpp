// GPU drivers take work that lasts seconds for a hang and end it, and the device is lost. A slow card must
// train nevertheless. The layer in tests/slow_vulkan simulates one with an installed driver.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>

using namespace towers::test;

namespace {

struct SlowCard {
    TemporaryFolder folder;
    std::filesystem::path recipe = folder / "tiny.toml", log = folder / "log";

    SlowCard() { write_text(recipe, tiny_recipe("4", "kind = \"momentum\"\nlearning_rate = 0.01")); }

    /// `milliseconds`: added to each dispatch
    Outcome train(const std::string& towers, const std::string& run, const std::string& milliseconds,
                  const Arguments& flags = {}) const {
        return work(Arguments{"train", "--data", "shapes", "--recipe", recipe.string(), "--towers", towers,
                              "--batch", "16", "--seed", "7", "--log-every", "1", "--summary-every", "0",
                              "--run", (folder / run).string()} +
                        flags,
                    milliseconds);
    }

    Outcome work(const Arguments& arguments, const std::string& milliseconds) const {
        return run_towers(arguments, {.folder = folder.path(),
                                      .environment = {{"VK_ADD_LAYER_PATH", TOWERS_SLOW_VULKAN},
                                                      {"VK_INSTANCE_LAYERS", "VK_LAYER_TOWERS_slow"},
                                                      {"TOWERS_SLOW_MS", milliseconds},
                                                      {"TOWERS_SLOW_LIMIT", "300"},
                                                      {"TOWERS_SLOW_LOG", log.string()}}});
    }

    /// The dispatches of each submission since the last call.
    std::vector<unsigned> submissions() const {
        std::vector<unsigned> all;
        for (const std::string& line : lines_of(read_text(log))) all.push_back(unsigned(std::stoul(line)));
        std::filesystem::remove(log);
        return all;
    }
};

} // namespace

TEST_SUITE("timed") {
    TEST_CASE("no submission is long enough for a driver to end it, not even in the first step") {
        const std::string id = quick_device();
        if (!id.starts_with("vulkan:")) return;
        const SlowCard card;
        // A tower on its own has two recordings in turn. If nothing is slow, each becomes one submission
        // after one or two timed steps (two if the driver compiles in the first). A busy machine may need a
        // few attempts.
        constexpr unsigned steps = 6, timed_at_most = 4;
        const Arguments six_steps{"--steps", std::to_string(steps)};
        std::vector<unsigned> all;
        unsigned step = 0, whole = 0;
        for (int attempt = 0; attempt < 10 && whole < steps - timed_at_most; ++attempt) {
            std::filesystem::remove_all(card.folder / "quick");
            check_worked(card.train(id, "quick", "0", six_steps));
            all = card.submissions();
            step = std::accumulate(all.begin(), all.end(), 0u) / steps;
            const auto not_whole = [&](unsigned dispatches) { return dispatches != step; };
            whole = unsigned(std::find_if(all.rbegin(), all.rend(), not_whole) - all.rbegin());
        }
        REQUIRE(whole >= steps - timed_at_most);
        CHECK(all.size() == whole + (steps - whole) * step);

        // 20 ms each: together far above the limit of 300 ms
        REQUIRE(step > 15);
        check_worked(card.train(id, "slow", "20", six_steps));
        all = card.submissions();
        CHECK(std::accumulate(all.begin(), all.end(), 0u) == steps * step);
        CHECK(std::ranges::max(all) > 1);
        CHECK(std::ranges::max(all) <= 12);
        check_same(card.folder / "quick", card.folder / "slow", steps);

        // In micro-batches, and as one of two towers
        check_worked(card.train(id, "pieces", "20", {"--steps", "1", "--micro-batch", "8"}));
        check_worked(card.train(id + ",cpu", "pair", "20", {"--steps", "3", "--shares", "even"}));
        CHECK(std::ranges::max(card.submissions()) <= 12);
    }

    TEST_CASE("bench measures cut recordings, as in training, not the runs that show where to cut") {
        const std::string id = quick_device();
        if (!id.starts_with("vulkan:")) return;
        const SlowCard card;
        check_worked(card.work({"bench", "--recipe", card.recipe.string(), "--towers", id, "--batch", "16",
                                "--repetitions", "1", "--steps", "1", "--warm-up", "2"},
                               "20"));
        const std::vector<unsigned> all = card.submissions(); // the profile's are the last
        REQUIRE(all.size() > 2);
        CHECK(*(all.end() - 2) > 1);
        CHECK(std::ranges::max(all) <= 12);
    }

    TEST_CASE("if a single kernel is too long, the message says what may help") {
        const std::string id = quick_device();
        if (!id.starts_with("vulkan:")) return;
        const SlowCard card;
        check_failed(card.train(id, "alone", "400", {"--steps", "1"}), 1,
                     "go on from it with --resume; if it is lost again, try a smaller --micro-batch");
        const Outcome pair = card.train("cpu," + id, "pair", "400", {"--steps", "1", "--shares", "even"});
        check_worked(pair);
        CHECK(contains(pair.out, "ErrorDeviceLost; if it is lost again, try a smaller --micro-batch"));
    }
}
