// Interrupted and repeated runs must end with the same bits; otherwise no experiment can be trusted.
#include "tests/apps/helpers.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

void check_resumes(const std::string& device, unsigned half, const std::string& batch) {
    const TemporaryFolder folder;
    const Arguments flags{"--towers", device, "--shares", "even", "--batch", batch};
    const auto steps = [](unsigned n) { return Arguments{"--steps", std::to_string(n)}; };
    train_small(folder / "whole", flags + steps(2 * half));
    train_small(folder / "parts", flags + steps(half));
    train_small(folder / "parts", flags + steps(2 * half) + Arguments{"--resume"});
    check_same(folder / "whole", folder / "parts", 2 * half);
    train_small(folder / "again", flags + steps(2 * half));
    check_same(folder / "whole", folder / "again", 2 * half);
}

} // namespace

TEST_CASE("two halves give the same run as a whole one, and so does a repetition: CPU") {
    check_resumes("cpu", 10, "8");
}

TEST_CASE("two halves give the same run as a whole one, and so does a repetition: two towers") {
    check_resumes("cpu,cpu", 4, "4");
}

TEST_SUITE("slow") {
    TEST_CASE("two halves give the same run as a whole one, and so does a repetition: another device") {
        if (quick_device().empty()) return;
        check_resumes(quick_device(), 3, "4");
    }
}

TEST_CASE("a resumed run may use other devices") {
    const TemporaryFolder folder;
    train_small(folder / "one", {"--steps", "4", "--batch", "8"});
    train_small(folder / "two", {"--steps", "2", "--batch", "8"});
    train_small(folder / "two", {"--steps", "4", "--batch", "4", "--towers", "cpu,cpu", "--resume"});
    // The bits differ, and a tie in a pooling window may be decided the other way.
    CHECK(relative_distance(variables(checkpoint(folder / "two", 4)),
                            variables(checkpoint(folder / "one", 4))) < 1e-3);
}

TEST_CASE("a resumed run goes on with as many threads as before, unless it is told otherwise") {
    const TemporaryFolder folder;
    Environment environment;
    environment.set("OMP_NUM_THREADS", nullptr);
    const auto steps = [](const char* n) { return Arguments{"--steps", n, "--batch", "32"}; };
    const Arguments one{"--threads", "1"}, resume{"--resume"};
    train_small(folder / "whole", steps("4") + one);
    environment.set("OMP_NUM_THREADS", "1"); // as if the process might use one processor
    train_small(folder / "parts", steps("2"));
    environment.set("OMP_NUM_THREADS", nullptr);
    fs::copy(folder / "parts", folder / "others", fs::copy_options::recursive);
    const std::string out = train_small(folder / "parts", steps("4") + resume);
    check_same(folder / "whole", folder / "parts", 4);
    CAPTURE(out);
    const std::string driver = list_devices().at("devices").back().at("driver"); // `oneDNN 2.6.3, 2 threads`
    CHECK(contains(out, "\ncpu goes on with 1 thread, as before; --threads ") ==
          driver.ends_with(" threads"));
    const std::string changed =
        train_small(folder / "others", steps("4") + resume + Arguments{"--threads", "3"});
    CHECK(contains(changed, ", 1 thread) to "));
    CHECK(contains(changed, ", 3 threads); the last bits of the results may change\n"));
    CHECK_FALSE(contains(changed, "goes on with"));
}

TEST_CASE("a run with automatic shares resumes with its last shares, and can be repeated") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run", again = folder / "again";
    const Arguments flags{"--towers", "cpu,cpu", "--batch", "8"};
    train_small(run, flags + Arguments{"--shares", "5:3", "--steps", "2"});
    write_text(run / "metrics.jsonl",
               read_text(run / "metrics.jsonl") + "{\"step\":"); // as a crash leaves it
    std::string out =
        run_towers({"train", "--run", run.string(), "--resume", "--shares", "auto", "--steps", "3"}).out;
    CAPTURE(out);
    CHECK(contains(out, "changed: shares from '5:3' to 'auto'"));
    CHECK(contains(out, "), 10 examples a step"));
    // They do not apply to other towers.
    out = run_towers({"train", "--run", run.string(), "--resume", "--towers", "cpu,cpu,cpu", "--steps", "4"})
              .out;
    CHECK(contains(out, "changed: towers from 'cpu,cpu' to 'cpu,cpu,cpu'"));
    CHECK(contains(out, "tower_2: cpu ("));
    CHECK(metrics(run).back().at("shares").size() == 3);

    const fs::path recorded = folder / "recorded.jsonl";
    write_text(
        recorded,
        "{\"step\":0,\"shares\":[9,7]}\n{\"step\":2,\"shares\":[16,0]}\n{\"step\":3,\"shares\":[2,14]}\n");
    const Arguments recording{"--shares", fmt::format("@{}", recorded.string())};
    train_small(again, flags + recording + Arguments{"--steps", "5"});
    const auto lines = metrics(again);
    REQUIRE(lines.size() == 5);
    CHECK(lines[1].at("shares").get<std::vector<unsigned>>() == std::vector{9u, 7u});
    CHECK(lines[2].at("shares").get<std::vector<unsigned>>() == std::vector{16u, 0u});
    CHECK(lines[2].at("tower_losses")[1].is_null());
    CHECK(lines[4].at("shares").get<std::vector<unsigned>>() == std::vector{2u, 14u});
    train_small(folder / "repeated",
                flags + Arguments{"--shares", fmt::format("@{}", (again / "metrics.jsonl").string()),
                                  "--steps", "5"});
    CHECK(read_text(folder / "repeated" / "metrics.jsonl") == read_text(again / "metrics.jsonl"));
    CHECK(variables(checkpoint(folder / "repeated", 5)) == variables(checkpoint(again, 5)));
    // A folder stands for its metrics; after their last step the shares stay.
    const fs::path longer = folder / "longer";
    train_small(longer, flags + Arguments{"--shares", fmt::format("@{}", again.string()), "--steps", "7"});
    CHECK(contains(read_text(longer / "config.toml"), (again / "metrics.jsonl").string()));
    CHECK(read_text(longer / "metrics.jsonl").starts_with(read_text(again / "metrics.jsonl")));
    CHECK(metrics(longer)[6].at("shares").get<std::vector<unsigned>>() == std::vector{2u, 14u});
    // resolved_run.cpp has what else is refused.
    check_failed(run_towers({"train", "--run", again.string(), "--resume", "--steps", "9", "--shares",
                             fmt::format("@{}", again.string())}),
                 2, "this run is going to change the file");
}

TEST_CASE("--config with a run's config.toml repeats the run") {
    const TemporaryFolder folder;
    const fs::path first = folder / "first", second = folder / "second", third = folder / "third";
    // A learning rate that prints as a whole number must still be read as one.
    train_small(first,
                {"--towers", "cpu,cpu", "--shares",        "3:1", "--batch",   "4",   "--lr",         "1",
                 "--seed",   "3",       "--steps",         "5",   "--distort", "off", "--save-every", "2",
                 "--keep",   "1",       "--summary-every", "0"}); // whose files have times
    const std::string config = (first / "config.toml").string();
    check_worked(run_towers({"train", "--config", config, "--run", second.string()}));
    check_same(first, second, 5);
    for (const fs::path& run : {first, second}) fs::remove(run / "times.jsonl");
    const bool same_folder = contents(first) == contents(second);
    CHECK(same_folder);

    check_worked(
        run_towers({"train", "--config", config, "--run", third.string(), "--seed", "4", "--steps", "2"}));
    CHECK(metrics(third).size() == 2);
    CHECK(metrics(third)[0].at("loss") != metrics(first)[0].at("loss"));
}

TEST_CASE("a run that was stopped before its first step and then killed logs each step once") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--steps", "0", "--batch", "2"});
    // A killed run may have metrics of steps after its last checkpoint.
    write_text(run / "metrics.jsonl", "{\"step\":0}\n{\"step\":1}\n{\"st");
    train_small(run, {"--steps", "2", "--batch", "2", "--resume"});
    train_small(folder / "whole", {"--steps", "2", "--batch", "2"});
    check_same(folder / "whole", run, 2);
}
