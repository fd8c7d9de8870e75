// A run that is killed repeatedly, at any moment of the program's life, must end as if nothing had happened.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <thread>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

constexpr unsigned kills = 50;
constexpr unsigned steps_of_a_life = 20; // of a program that is not killed

/// A run of two towers in a folder with data and a recipe.
class Killing {
public:
    Killing() {
        write_records(folder_ / "data", 8);
        write_text(folder_ / "mine.toml",
                   tiny_recipe("\"batch\"", "kind = \"adam\"\nlearning_rate = 1e-3\n"));
    }

    fs::path run(const char* name) const { return folder_ / name; }

    /// The flags of a new run.
    Arguments flags() const {
        return {"--towers",     "cpu,cpu",
                "--threads",    "1",
                "--batch",      "8",
                "--recipe",     (folder_ / "mine.toml").string(),
                "--data",       (folder_ / "data").string(),
                "--save-every", "2"};
    }

    /// Kills the run at random moments between the program's start and end, resumes it each time with the
    /// flags that `more` returns, and at last lets it finish. Returns the number of its steps.
    unsigned kill(const fs::path& run, const std::function<Arguments()>& more) {
        std::mt19937 random(11);
        Duration life_time = std::chrono::milliseconds(25); // first of the start alone
        for (unsigned life = 1, killed = 0; killed < kills; ++life) {
            REQUIRE(life < 20 * kills);
            if (life % 10 != 0) {
                killed += live(run, more(), life_time * std::uniform_real_distribution<double>()(random));
                continue;
            }
            const Clock::time_point begin = Clock::now();
            live(run, more());
            life_time = Clock::now() - begin;
        }
        live(run, more());
        return latest(run).value();
    }

private:
    using Clock = std::chrono::steady_clock;

    using Duration = std::chrono::duration<double>;

    /// Resumes the run for some steps. Returns true if it was killed, false if it ended first.
    bool live(const fs::path& run, const Arguments& more, std::optional<Duration> moment = {}) const {
        const std::optional<unsigned> before = latest(run);
        Arguments all = Arguments{"train", "--run", run.string(), "--steps",
                                  std::to_string(before.value_or(0) + steps_of_a_life)} +
                        flags() + more;
        if (before) all.push_back("--resume");
        Program program(towers_command(all));
        if (moment) {
            // Does not wait for output, which would always kill the run just after a line.
            std::this_thread::sleep_for(*moment);
            program.send(SIGKILL);
        }
        const Outcome outcome = program.end();
        if (moment && outcome.code == -SIGKILL) return true;
        check_worked(outcome);
        return false;
    }

    static std::optional<unsigned> latest(const fs::path& run) {
        std::optional<unsigned> latest;
        if (!fs::exists(run)) return latest;
        for (const std::string& name : names_in(run))
            if (name.starts_with("model.ckpt-") && name.ends_with(".safetensors"))
                latest = std::max(latest, std::optional(unsigned(std::stoul(name.substr(11)))));
        return latest;
    }

    TemporaryFolder folder_;
};

/// Checks for the same bytes in all tensors.
void check_same_tensors(const fs::path& checkpoint, const fs::path& other) {
    RawTensors one = RawTensors::read(checkpoint), two = RawTensors::read(other);
    for (RawTensors* each : {&one, &two}) each->header.erase("__metadata__"); // it has the run's flags
    CHECK(one.header == two.header);
    const bool same = one.data == two.data;
    CHECK(same);
}

} // namespace

TEST_CASE("a run of two towers, killed 50 times, ends with the bits of a run that nobody killed") {
    Killing killing;
    const fs::path run = killing.run("run"), whole = killing.run("whole");
    const Arguments flags{"--shares", "5:3", "--log-every", "1"};
    const unsigned steps = killing.kill(run, [&] { return flags; });
    train(whole, killing.flags() + flags + Arguments{"--steps", std::to_string(steps)});
    check_same(whole, run, steps); // and each step is logged once
}

TEST_CASE("a run whose shares change, killed 50 times, is repeated to the bit from its metrics") {
    Killing killing;
    const fs::path run = killing.run("run"), repeated = killing.run("repeated");
    std::mt19937 random(5);
    const Arguments log{"--log-every", "3"};
    const unsigned steps = killing.kill(run, [&] {
        const char* const shares[] = {"auto", "5:3", "1:7", "even"};
        return log + Arguments{"--shares", shares[random() % 4]};
    });
    train(repeated, killing.flags() + log +
                        Arguments{"--steps", std::to_string(steps), "--shares",
                                  fmt::format("@{}", (run / "metrics.jsonl").string())});
    check_same_tensors(checkpoint(repeated, steps), checkpoint(run, steps));
    CHECK(read_text(repeated / "metrics.jsonl") == read_text(run / "metrics.jsonl"));
    // Shares have changed, and the log has every third step and each change once.
    std::set<std::vector<unsigned>> shares;
    std::vector<unsigned> logged;
    for (const auto& line : metrics(run)) {
        shares.insert(line.at("shares").get<std::vector<unsigned>>());
        logged.push_back(line.at("step"));
    }
    CHECK(shares.size() > 1);
    CHECK(std::ranges::adjacent_find(logged, std::greater_equal()) == logged.end());
    for (unsigned step = 0; step < steps; step += 3) CHECK(std::ranges::binary_search(logged, step));
}
