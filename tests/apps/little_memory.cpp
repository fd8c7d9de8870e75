// If a limit on memory (ulimit -v) ends a run, one line must say so. Drivers crash when they are refused
// memory.
#include "engine/files/png_file.h"
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <filesystem>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // which map terabytes

TEST_CASE("under a memory limit the program works or says that the limit is too low") {
    const TemporaryFolder folder;
    const nlohmann::json all = nlohmann::json::parse(run_towers({"devices", "--json"}).out);
    for (const nlohmann::json& device : all.at("devices")) {
        // Only devices that run on the host use this process's memory. How a card's driver behaves is up to
        // its vendor.
        const std::string id = device.at("id"), kind = device.at("kind");
        if (kind != "CPU" && kind != "software") continue;
        CAPTURE(id);
        CAPTURE(device.at("name").get<std::string>());
        bool said = false;
        for (const std::size_t kib : {150'000, 200'000, 300'000, 400'000, 500'000, 600'000}) {
            CAPTURE(kib);
            // Without the validation layer, which needs memory of its own
            const Arguments command{TOWERS_PROGRAM, "train", "--data",  "shapes", "--towers", id,
                                    "--steps",      "1",     "--batch", "2"};
            const RunOptions options{.folder = folder.path(), .address_space = kib << 10};
            const Outcome outcome = Program(command, options).end();
            if (outcome.code == 0) continue;
            check_failed(outcome, outcome.code == 2 ? 2 : 1, "");
            said = said || contains(outcome.err, "(ulimit -v)");
        }
        CHECK(said);
    }
}

TEST_CASE("pictures that are too large to be decoded at once are decoded one after the other") {
    const TemporaryFolder folder;
    constexpr std::uint32_t side = 13'000; // 169 million pixels: 1 GB while they are decoded
    for (const char* name : {"a", "b"}) {
        fs::create_directory(folder / name);
        const std::vector<std::uint8_t> pixels(std::size_t(side) * side, 200);
        towers::write_png(folder.path() / name / "1.png", {.width = side, .height = side, .channels = 1},
                          pixels);
    }
    const Outcome outcome = run_towers({"data", "describe", folder.path().string() + "?size=512"},
                                       {.address_space = std::size_t(1900) << 20});
    check_worked(outcome);
    CHECK(contains(outcome.out, "mean = [0.7843], deviation = [0.0000]"));
}

#endif
