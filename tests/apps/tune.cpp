// train --tune: measured choices are kept, recorded and given back.
#include "tests/apps/helpers.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

/// A user's cache of the test's own.
struct Cache {
    TemporaryFolder folder;
    Environment environment;
    Cache() { environment.set("XDG_CACHE_HOME", folder.path().c_str()); }
};

std::string line_of_tuning(const std::string& out) {
    for (const std::string& line : lines_of(out))
        if (line.starts_with("tuned: ")) return line;
    return "";
}

void check_given_back(const std::string& device) {
    const Cache cache;
    const TemporaryFolder folder;
    const fs::path first = folder / "first", second = folder / "second", parts = folder / "parts",
                   given = folder / "given";
    const Arguments flags{"--towers", device, "--batch", "4", "--shares", "even"};
    const auto steps = [](const char* n) { return Arguments{"--steps", n}; };
    const std::string line =
        line_of_tuning(train_small(first, flags + steps("4") + Arguments{"--tune", "quick"}));
    CHECK(line.find("0 launches measured") == std::string::npos);
    CHECK(contains(line, " ms a step instead of "));

    const Json choices = Json::parse(read_text(first / "choices.json"));
    CHECK(choices.at("devices").at(0).at("backend") == device.substr(0, device.find_first_of(":,")));
    CHECK(choices.at("devices").at(0).at("launches").size() > 5);

    const std::string known =
        line_of_tuning(train_small(second, flags + steps("4") + Arguments{"--tune", "quick"}));
    CHECK(known.starts_with("tuned: 0 launches measured in 0.0 s; "));
    CHECK(contains(known, " known already"));
    check_same(first, second, 4);

    fs::remove_all(cache.folder.path());
    train_small(given, flags + steps("4") + Arguments{"--tune", (first / "choices.json").string()});
    check_same(first, given, 4);
    CHECK(Json::parse(read_text(given / "choices.json")) == choices);

    train_small(parts, flags + steps("2") + Arguments{"--tune", (first / "choices.json").string()});
    fs::remove_all(given);
    fs::rename(first, folder / "elsewhere"); // a run has its own choices
    train_small(parts, flags + steps("4") + Arguments{"--resume"});
    check_same(folder / "elsewhere", parts, 4);
}

} // namespace

TEST_CASE("measured choices are found again, recorded with the run, and give the same bits back: CPU") {
    check_given_back("cpu");
}

TEST_CASE("measured choices give the same bits back: two towers") { check_given_back("cpu,cpu"); }

TEST_SUITE("slow") { // software drivers take a while to compile
    TEST_CASE("measured choices give the same bits back: another device") {
        if (!quick_device().empty()) check_given_back(quick_device());
    }
}

TEST_CASE("choices that the device does not have give way to the estimate, with one warning") {
    const Cache cache;
    const TemporaryFolder folder;
    const fs::path first = folder / "first", given = folder / "given", plain = folder / "plain",
                   file = folder / "choices";
    const Arguments flags{"--batch", "4"};
    train_small(first, flags + Arguments{"--steps", "2", "--tune", "quick"});
    train_small(plain, flags + Arguments{"--steps", "4"});
    Json choices = Json::parse(read_text(first / "choices.json"));
    Json& launches = choices["devices"][0]["launches"];
    const std::string count = std::to_string(launches.size());
    const auto check_told = [&](const fs::path& run, const fs::path& source, const Arguments& more,
                                const std::string& what) {
        write_text(source, choices.dump());
        const Outcome outcome = run_towers(Arguments{"train", "--run", run.string()} + more);
        CHECK(outcome.code == 0);
        CHECK(lines_of(outcome.err).size() == 1);
        CAPTURE(outcome.err);
        CHECK(contains(outcome.err, source.string() + ": " + what));
        CHECK(contains(outcome.err, "; the estimate decides instead, which may change the last bits"));
    };
    const Arguments anew =
        Arguments{"--towers", "cpu", "--log-every", "1", "--steps", "4", "--tune", file.string()} + flags +
        small_data();
    for (auto& [key, chosen] : launches.items()) chosen["variant"] = "sorcery";
    check_told(given, file, anew, count + " launches cannot run as chosen there, the first of them '");
    check_same(plain, given, 4);
    // Its own choices are what it used.
    const Json own = Json::parse(read_text(given / "choices.json"));
    CHECK(own.at("devices").at(0).at("launches").size() == launches.size());
    CHECK_FALSE(contains(own.dump(), "sorcery"));

    // Known ways with parts, tiles or a method that the launch does not have
    for (auto& [key, chosen] : launches.items())
        chosen = {{"variant", "oneDNN"}, {"groups", {1, 1, 1}}, {"parts", 77}};
    check_told(folder / "parts", file, anew, count + " launches ");
    check_same(plain, folder / "parts", 4);
    for (auto& [key, chosen] : launches.items()) chosen = own.at("devices").at(0).at("launches").at(key);
    launches.begin().value()["winograd_tile"] = 9;
    check_told(folder / "one", file, anew, "1 launch cannot run as chosen there, the first of them '");
    check_same(plain, folder / "one", 4);

    // A resumed run's own choices, also of a version before this one
    check_told(first, first / "choices.json", {"--resume", "--steps", "4"}, "1 launch ");
    CHECK(metrics(first).size() == 4);
    check_worked(run_towers({"train", "--run", first.string(), "--resume", "--steps", "5"})); // told once
}

TEST_CASE("a file without choices for the device ends the run before its first step, in one line") {
    const Cache cache;
    const TemporaryFolder folder;
    const Arguments flags =
        Arguments{"train", "--towers", "cpu", "--batch", "4", "--steps", "1"} + small_data();
    const auto with = [&](const fs::path& choices) {
        return run_towers(flags + Arguments{"--run", (folder / "run").string(), "--tune", choices.string()});
    };
    train_small(folder / "first", {"--batch", "4", "--steps", "1", "--tune", "quick"});
    Json choices = Json::parse(read_text(folder / "first" / "choices.json"));
    choices["devices"][0]["name"] = "another";
    write_text(folder / "other", choices.dump());
    check_failed(with(folder / "other"), 1, "other: has no choices for cpu (");
    write_text(folder / "broken", "{");
    check_failed(with(folder / "broken"), 1, "broken: is damaged, or has no choices: ");
    check_failed(with(folder / "absent"), 2,
                 "--tune '" + (folder / "absent").string() + "': give auto, off, quick");
    CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("a terminal shows what is being measured, unless only the log is wanted") {
    const Cache cache;
    const TemporaryFolder folder;
    const auto shown = [&](const char* progress) {
        const Arguments flags{"train", "--towers",        "cpu",    "--batch", "4",          "--steps", "1",
                              "--run", folder / progress, "--tune", "full",    "--progress", progress};
        const Outcome outcome = run_towers(
            flags + small_data(), {.environment = {{"XDG_CACHE_HOME", folder / "cache"}}, .columns = 80});
        CHECK(outcome.code == 0);
        fs::remove_all(folder / "cache");
        return contains(outcome.out, "\rtuning cpu: 1 of ") ||
               contains(outcome.out, "\r\033[Ktuning cpu: 1 of ");
    };
    CHECK(shown("live"));
    CHECK(shown("auto"));
    CHECK_FALSE(shown("log"));
}

TEST_CASE("with --exact-products no measured choice is Winograd's method") {
    const Cache cache;
    const TemporaryFolder folder;
    const Arguments flags{"--batch", "4", "--steps", "1", "--tune", "full"};
    train_small(folder / "run", flags + Arguments{"--exact-products", "on"});
    CHECK_FALSE(contains(read_text(folder / "run" / "choices.json"), "Winograd"));
}

TEST_CASE("processors and software drivers measure nothing by default, and record no choices") {
    const TemporaryFolder folder;
    std::vector<std::string> devices{"cpu"};
    for (const nlohmann::json& device : vulkan_devices(list_devices()))
        if (device.at("kind") == "software" && device.at("id") == quick_device())
            devices.push_back(device.at("id"));
    for (const std::string& id : devices) {
        const fs::path run = folder / id;
        const std::string out =
            train_small(run, {"--towers", id, "--batch", "4", "--steps", "1", "--tune", "auto"});
        CHECK(line_of_tuning(out).empty());
        CHECK_FALSE(fs::exists(run / "choices.json"));
        CHECK(contains(read_text(run / "config.toml"), "tune = 'auto'"));
    }
}

TEST_CASE("bench --variants shows all ways to run a kernel, side by side") {
    const auto bench = [](const char* pattern) {
        return run_towers({"bench", "--towers", "cpu", "--batch", "4", "--variants", pattern});
    };
    const Outcome conv = bench("conv2 forward");
    check_worked(conv);
    CHECK(contains(conv.out, "cifar10-tutorial, batch 4, on cpu; "));
    CHECK(contains(conv.out, "\nconv2 forward: conv2d_forward 4 12 12 64 12 12 64 5 5 1 1 1 1 2 2 1 "));
    CHECK(contains(conv.out, "  oneDNN "));
    CHECK(contains(conv.out, "  products of matrices "));
    CHECK_FALSE(contains(conv.out, "wrong"));
    std::size_t used = 0;
    for (const std::string& line : lines_of(conv.out)) used += line.starts_with("* ");
    CHECK(used == 1);
    const Outcome all = bench("conv2d_*");
    check_worked(all);
    for (const char* const name : {"conv1 forward", "conv2 weights gradient", "conv2 data gradient"})
        CHECK(contains(all.out, name));
    check_failed(bench("nothing"), 2,
                 "--variants 'nothing': cifar10-tutorial has no such kernel or operation");
    check_failed(run_towers({"bench", "--variants", "lrn*", "--json", "-"}), 2, "--variants prints a table");
}
