// The user's cache: shared by programs that run at once, damaged, or not to be had.
#include "backends/cache.h"

#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// Steps of a network with few kernels.
class Training {
public:
    explicit Training(Arguments flags) : flags_(std::move(flags)) {
        write_text(folder_ / "small.toml", R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [{ kind = "global_average_pool" }, { name = "logits", kind = "dense", units = 10 }]
[pipeline]
kind = "tutorial"
[optimizer]
kind = "sgd"
learning_rate = 0.1
[training]
batch = 4
steps = 1
)");
        flags_ = Arguments{"train", "--recipe", (folder_ / "small.toml").string()} + small_data() + flags_;
    }

    Arguments command(std::string_view run) const {
        return flags_ + Arguments{"--run", (folder_ / run).string()};
    }
    /// What the driver keeps by itself stays where all tests share it.
    RunOptions with_cache(const std::string& cache) const {
        const char* const drivers = std::getenv("XDG_CACHE_HOME");
        return {.environment = {{"XDG_CACHE_HOME", cache},
                                {"HOME", cache},
                                {"MESA_SHADER_CACHE_DIR", drivers != nullptr ? drivers : ""}}};
    }
    void check_works(const std::string& cache) {
        INFO("with the cache ", cache);
        const Outcome outcome = run_towers(command(std::to_string(++runs_)), with_cache(cache));
        check_worked(outcome);
        CHECK(outcome.err.empty());
    }
    fs::path operator/(const char* name) const { return folder_ / name; }

private:
    TemporaryFolder folder_;
    Arguments flags_;
    int runs_ = 0;
};

/// Two programs begin without a cache at once; later ones find a wrong file.
void check_cache(Training& training) {
    const fs::path cache = training / "cache", folder = cache / "towers";
    {
        Program one(towers_command(training.command("one")), training.with_cache(cache));
        Program two(towers_command(training.command("two")), training.with_cache(cache));
        for (Program* program : {&one, &two}) check_worked(program->end());
    }
    const std::vector<std::string> names = names_in(folder);
    REQUIRE(names.size() == 1);
    const fs::path file = folder / names[0];
    const std::optional<std::string> kept = towers::read_cached(file);
    REQUIRE(kept);

    std::string changed = read_text(file);
    changed.back() = char(changed.back() ^ 1);
    for (const std::string& wrong : {*kept, changed}) {
        write_text(file, wrong);
        training.check_works(cache);
        CHECK(towers::read_cached(file));
        CHECK(names_in(folder) == names);
    }
}

} // namespace

TEST_CASE("programs that share a cache, or find a damaged one, leave it whole: a driver's pipelines") {
    if (quick_device().empty() || quick_device().starts_with("cuda:")) return;
    Training training({"--towers", quick_device()});
    check_cache(training);
    write_text(training / "a file", "");
    training.check_works(training / "a file"); // only the next start is slower
    training.check_works("");
}

TEST_CASE("programs that share a cache, or find a damaged one, leave it whole: measured choices") {
    Training training({"--towers", "cpu", "--tune", "quick"});
    check_cache(training);
    training.check_works("");
    const fs::path file = training / "a file";
    write_text(file, "");
    const Outcome unkept = run_towers(training.command("unkept"), training.with_cache(file));
    CHECK(unkept.code == 0);
    CHECK(contains(unkept.err, "cannot write " + (file / "towers").string()));
    CHECK(contains(unkept.err, "; what was measured is not kept for other runs"));
}
