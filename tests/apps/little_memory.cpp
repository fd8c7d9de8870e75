// If a limit on memory (ulimit -v) ends a run, one line must say so. Drivers crash when they are refused
// memory.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace towers::test;

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

#endif
