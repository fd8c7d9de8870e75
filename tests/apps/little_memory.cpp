// A limit on memory (ulimit -v) must end a run in one line that says so: drivers crash where they are refused
// some.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace towers::test;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // which map terabytes

TEST_CASE("under a limit on memory the program works or says that the limit is too low") {
    const TemporaryFolder folder;
    const nlohmann::json all = nlohmann::json::parse(run_towers({"devices", "--json"}).out);
    for (const nlohmann::json& device : all.at("devices")) {
        // A card's driver is the vendor's affair; what runs on the host takes its memory from this process.
        const std::string id = device.at("id"), kind = device.at("kind");
        if (kind != "CPU" && kind != "software") continue;
        CAPTURE(id);
        CAPTURE(device.at("name").get<std::string>());
        bool said = false;
        for (const std::size_t kib : {150'000, 200'000, 300'000, 400'000, 500'000, 600'000}) {
            CAPTURE(kib);
            // Not under the validation layer, which has needs of its own
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
