// The devices on which a resumed run goes on, and those that recorded shares go to.
#include "backends/error.h"
#include "tests/apps/resolved_rows.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace towers {

using namespace rows;

TEST_CASE("a resumed run goes on with its own devices, which may have other ids now") {
    const auto devices = [](const char* a, const char* b) {
        return fmt::format(R"([{{"device":"a","name":"{}","driver":"1","micro_batches":2,"share":6}},)"
                           R"({{"device":"b","name":"{}","driver":"1","micro_batches":1,"share":2}}])",
                           a, b);
    };
    const std::string trained = "towers = 'a,b'\nshares = '3:1'\nbatch = 4\n";
    const Before moved{.trained = trained, .towers = devices("B", "A")};
    const Before gone{.trained = trained, .towers = devices("D", "A")};
    const Before all_gone{.trained = trained, .towers = devices("D", "E")};
    // It was at b when the run started last, and made no checkpoint then.
    const Before again{.trained = "towers = 'c'\nbatch = 4\n",
                       .config = "towers = 'b'\nsteps = 10\n",
                       .towers = R"([{"device":"c","name":"A","driver":"1","micro_batches":2,"share":4}])",
                       .times = "{\"event\":\"resume\",\"step\":4,\"time\":1.5,\"towers\":[{\"device\":\"b\","
                                "\"name\":\"A\"}]}\n{\"event\":\"failed\",\"step\":5,\"time\":2.5}\n"};
    Before edited = again;
    edited.config = "towers = 'c'\nsteps = 10\n"; // as in the checkpoint
    Before other = again;
    other.config = "towers = 'c'\nsteps = 10\n";
    other.times = "{\"event\":\"resume\",\"step\":4,\"time\":1.5,\"towers\":[{\"device\":\"c\","
                  "\"name\":\"B\"}]}\n";
    Before earlier = other; // the checkpoint is later
    earlier.times.replace(earlier.times.find("4"), 1, "3");
    Before damaged = other;
    damaged.times += "{\"event\":1}\n";
    Before named = again;
    named.config = "towers = 'b,c'\nsteps = 10\n"; // by a user
    const std::string resume = "--resume --run HERE/run";
    const Row rows[] = {
        {.flags = resume,
         .before = moved,
         .has = {"towers = 'b,a'", "[towers b a]", "shares = '3:1'", "batch = 4\n",
                 "[fixed, weights 3:1, recorded 6:2 in 2:1 from step 4]"}},
        // Named, they are the same towers too; the ids that they had are others.
        {.flags = resume + " --towers b,a",
         .before = moved,
         .has = {"shares = '3:1'", "recorded 6:2 in 2:1 from step 4]"}},
        {.flags = resume + " --towers a,b",
         .before = moved,
         .has = {"towers = 'a,b'", "shares = 'auto'", "[automatic, weights , recorded ]"}},
        {.flags = resume,
         .before = gone,
         .error = "--resume: D is not there; give --towers a to go on without it, or other devices"},
        {.flags = resume,
         .before = all_gone,
         .error = "--resume: D is not thereE is not there; give --towers to go on with other devices"},
        {.flags = resume + " --towers a",
         .before = gone,
         .has = {"towers = 'a'", "global-batch = 8\n", "!shares", "recorded ]"}},
        // The ids are those of the settings, but what is there now is another device.
        {.flags = resume + " --towers a,b",
         .before = gone,
         .has = {"towers = 'a,b'", "shares = 'auto'", "[automatic, weights , recorded ]"}},
        {.flags = resume, .config = "towers = 'c,b'\n", .before = gone, .has = {"towers = 'c,b'"}},
        {.flags = resume + " --backend gpu", .before = gone, .has = {"towers = 'a,b,c'"}},
        {.flags = resume, .before = again, .has = {"towers = 'a'", "recorded 4 in 2 from step 4]"}},
        {.flags = resume, .before = edited, .has = {"towers = 'a'", "recorded 4 in 2 from step 4]"}},
        {.flags = resume, .before = named, .has = {"towers = 'b,c'", "recorded ]"}},
        // By its id the run went on with another device, and made no checkpoint then.
        {.flags = resume, .before = other, .has = {"towers = 'b'", "recorded ]"}},
        {.flags = resume, .before = earlier, .has = {"towers = 'a'", "recorded 4 in 2 from step 4]"}},
        // A damaged times.jsonl is as none.
        {.flags = resume, .before = damaged, .has = {"towers = 'a'", "recorded 4 in 2 from step 4]"}},
    };
    for (const Row& row : rows) check(row);
}

TEST_CASE("only where something needs the devices are they looked for") {
    const std::string towers = R"([{"device":"a","name":"D","driver":"1","micro_batches":2,"share":4},)"
                               R"({"device":"cpu","name":"E","driver":"1","micro_batches":2,"share":4}])";
    const Before before{.trained = "towers = 'a,cpu'\nbatch = 4\n", .towers = towers};
    const std::string recorded =
        R"({"event":"start","step":0,"time":1.5,"towers":[{"device":"a","name":"D"},)"
        R"({"device":"cpu","name":"E"}]})"
        "\n";
    const Machine blind{select, [](std::span<const DeviceRecord>, const OpenOptions&) -> FoundAgain {
                            throw InputError("looked for devices");
                        }};
    const std::string resume = "--resume --run HERE/run";
    const Row rows[] = {
        {.flags = resume + " --towers cpu",
         .before = before,
         .has = {"towers = 'cpu'", "global-batch = 8\n"}},
        {.flags = resume + " --towers cpu,cpu", .before = before, .has = {"towers = 'cpu,cpu'"}},
        {.flags = resume + " --backend cpu", .before = before, .has = {"towers = 'cpu'"}},
        {.flags = resume, .config = "towers = 'cpu'\n", .before = before, .has = {"towers = 'cpu'"}},
        {.flags = resume, .before = before, .error = "looked for devices", .usage = false},
        {.flags = resume + " --towers a", .before = before, .error = "looked for devices", .usage = false},
        {.flags = "--towers cpu,cpu --batch 4 --shares @HERE/recorded",
         .recorded = {.metrics = "{\"step\":0,\"shares\":[6,2]}\n", .times = recorded},
         .has = {"recorded 2:6 from step 0", "[notes tower_1 (cpu) takes the shares of a (D)"}},
    };
    for (const Row& row : rows) check(row, blind);
}

TEST_CASE("recorded shares go to the towers with the devices of the run that recorded them") {
    const std::string one = R"({"event":"start","step":0,"time":1.5,"towers":[{"device":"a","name":"B"},)"
                            R"({"device":"b","name":"A"}]})"
                            "\n",
                      two = R"({"event":"resume","step":3,"time":2.5,"towers":[{"device":"a","name":"A"},)"
                            R"({"device":"b","name":"D"}]})"
                            "\n",
                      three = R"({"event":"start","step":0,"time":1.5,"towers":[{"device":"a","name":"B"}]})"
                              "\n",
                      twice = R"({"event":"start","step":0,"time":1.5,"towers":[{"device":"a","name":"B"},)"
                              R"({"device":"a","name":"B"}]})"
                              "\n";
    const std::string metrics = "{\"step\":0,\"shares\":[6,2],\"micro_batches\":[2,1]}\n"
                                "{\"step\":4,\"shares\":[1,7]}\n";
    const auto row = [&](const char* towers, const std::string& times, std::vector<std::string> has) {
        return Row{.flags = std::string("--shares @HERE/recorded --batch 4 --towers ") + towers,
                   .recorded = {.metrics = metrics, .times = times},
                   .has = std::move(has)};
    };
    const Row rows[] = {
        row("b,a", one, {"recorded 6:2 in 2:1 from step 0, 1:7 from step 4]", "[notes ]"}),
        row("a,b", one,
            {"recorded 2:6 in 1:2 from step 0, 7:1 from step 4]",
             "[notes the shares follow the devices of HERE/recorded, whose order is --towers b,a; the last "
             "bits of "
             "the results depend on it]"}),
        // The other device takes the other share.
        row("c,b", one,
            {"recorded 2:6 in 1:2 from step 0, 7:1 from step 4]",
             "[notes tower_0 (c) takes the shares of b (A) in HERE/recorded]"}),
        row("b,b", one,
            {"recorded 6:2 in 2:1 from step 0", "[notes tower_1 (b) takes the shares of b (A) in"}),
        row("b,b", twice, {"recorded 6:2 in 2:1 from step 0", "[notes ]"}),
        // From step 3 on it had others.
        row("b,a", one + two,
            {"recorded 6:2 in 2:1 from step 0, 7:1 from step 4]",
             "[notes tower_0 (b) takes the shares of b (D) in HERE/recorded]"}),
        row("b,a", three, {"recorded 6:2 in 2:1 from step 0, 1:7 from step 4]", "[notes ]"}),
        row("a,b", "", {"recorded 6:2 in 2:1 from step 0, 1:7 from step 4]", "[notes ]"}),
    };
    for (const Row& each : rows) check(each);
    // A damaged file is as none.
    check(row("a,b", one + "{\"event\":1}\n",
              {"recorded 6:2 in 2:1 from step 0, 1:7 from step 4]", "[notes ]"}));
}
} // namespace towers
