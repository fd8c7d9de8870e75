#include "backends/checksum.h"
#include "tests/engine/shares/simulated_run.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

namespace towers {

using test::even_start;
using Run = test::SimulatedRun;

namespace {

/// Every change of the shares in so many steps, `step shares`, with a `?` while they are on trial.
std::string decisions(Run& run, unsigned steps) {
    std::string all;
    const auto note = [&](unsigned step) {
        all += fmt::format("{} {}{}; ", step, fmt::join(run.balancer.shares(), ":"),
                           run.balancer.trying() ? "?" : "");
    };
    for (unsigned step = 1; step <= steps; ++step) {
        const Shares before = run.balancer.shares();
        run.steps(1);
        if (run.balancer.shares() != before) note(step);
    }
    return all;
}

struct Case {
    const char* name;
    std::string (*decide)(unsigned seed);
    const char* first;      ///< the decisions of seed 1
    std::uint64_t checksum; ///< of those of seeds 1 to 10
};

std::string fast_and_slow(unsigned seed) {
    Run run = even_start({3, 1}, 0.3, 0.02, seed);
    return decisions(run, 300);
}

std::string probed(unsigned seed) {
    Run run = even_start({30, 10, 1}, 0.3, 0.02, seed);
    const Shares tried = run.probe();
    const std::string all =
        fmt::format("tried {}, {}; ", fmt::join(tried, ":"), fmt::join(run.balancer.shares(), ":"));
    return all + decisions(run, 500);
}

std::string slow_steps_among_many(unsigned seed) {
    Run run({{0.1, 0.01}, {0.2, 0.02}, {0, 0.005}, {3, 0.01}, {0, 0.04}, {0.1, 0.013}, {0, 0.3}, {9, 0.01}},
            1024, 16, 0.03, seed);
    run.outliers = 0.01;
    return decisions(run, 220);
}

std::string stairs(unsigned seed) {
    Run run = even_start({3, 2}, 0.3, 0.02, seed);
    run.times = [&](const Shares& shares) {
        return std::vector{run.truth[0].seconds((shares[0] + 31) / 32 * 32),
                           run.truth[1].seconds((shares[1] + 31) / 32 * 32)};
    };
    return decisions(run, 1000);
}

std::string changes_of_speed(unsigned seed) {
    Run run = even_start({8, 4, 2, 1}, 0.3, 0.02, seed);
    std::string all = decisions(run, 100);
    for (LoadModel& model : run.truth) {
        model = {3 * model.fixed, 3 * model.per_example};
        all += "| " + decisions(run, 60);
    }
    for (double factor = 1; factor < 1.2; factor += 0.01) { // drifts
        run.truth[0].per_example *= 1.01;
        all += decisions(run, 10);
    }
    return all;
}

std::string limits(unsigned seed) {
    Run run({{0, 0.01}, {0, 0.03}, {4, 0.01}}, 384, 8, 0.02, seed);
    std::string all;
    for (const auto& [tower, most] : {std::pair(0u, 300u), {1u, 200u}, {0u, 190u}, {2u, 100u}}) {
        all += decisions(run, 38); // a trial is on
        if (run.balancer.trying()) all += "in a trial ";
        run.balancer.limit(tower, most);
        all += fmt::format("| {}; ", fmt::join(run.balancer.shares(), ":"));
    }
    return all + decisions(run, 300);
}

std::string idle_and_back(unsigned seed) {
    Run run({{0, 0.01}, {3, 0.01}}, 256, 1, 0.02, seed);
    const std::string all = decisions(run, 1500);
    run.truth[1].fixed = 0;
    return all + "| " + decisions(run, 500);
}

/// The first tower takes longer while the second works; from the middle on it does not.
std::string contention(unsigned seed) {
    Run run({{0, 0.01}, {0, 0.1}}, 256, 1, 0.02, seed);
    double factor = 1.3;
    run.times = [&](const Shares& shares) {
        return std::vector{run.truth[0].seconds(shares[0]) * (shares[1] > 0 ? factor : 1),
                           run.truth[1].seconds(shares[1])};
    };
    const std::string all = decisions(run, 1000);
    factor = 1;
    return all + "| " + decisions(run, 2000);
}

std::string unusable_times(unsigned seed) {
    Run run({{0, 0.01}, {0, 0.03}, {2.5, 0.01}}, 384, 1, 0.02, seed);
    run.times = [&](const Shares& shares) {
        std::vector<double> all;
        for (std::size_t i = 0; i < shares.size(); ++i) all.push_back(run.truth[i].seconds(shares[i]));
        if (run.random() % 4 == 0) all[run.random() % 3] = run.random() % 2 == 0 ? 0 : double(INFINITY);
        return all;
    };
    return decisions(run, 1500);
}

const std::vector<Case> cases = {
    {"fast and slow", fast_and_slow, "3 190:66; 6 221:35; 37 256:0?; 41 221:35; ", 0x0ee45fc30064788c},
    {"probed", probed, "tried 69:24:1, 319:65:0; 31 384:0:0?; 35 319:65:0; ", 0x9e84cb4d68b50330},
    {"slow steps among many", slow_steps_among_many,
     "3 208:96:448:64:48:144:0:16; 6 224:112:464:0:48:176:0:0; 35 224:96:480:0:48:176:0:0; 66 "
     "240:112:496:0:0:176:0:0?; 71 224:96:480:0:48:176:0:0; 72 240:0:528:0:64:192:0:0?; 76 "
     "224:96:480:0:48:176:0:0; 77 272:128:560:0:64:0:0:0?; 81 224:96:480:0:48:176:0:0; 82 "
     "0:128:592:16:64:224:0:0?; 86 224:96:480:0:48:176:0:0; 206 224:96:464:16:48:176:0:0?; 208 "
     "224:96:480:0:48:176:0:0; 212 224:96:464:0:48:176:16:0?; 214 224:96:480:0:48:176:0:0; ",
     0xe07c8862afcf50ed},
    {"stairs", stairs,
     "3 151:105; 6 184:72; 10 174:82; 15 165:91; 20 158:98; 23 176:80; 54 256:0?; 58 176:80; 66 171:85; 155 "
     "166:90; 256 161:95; 445 156:100; 486 171:85; 558 256:0?; 562 171:85; 914 166:90; ",
     0x1895e8b82c07be2e},
    {"changes of speed", changes_of_speed,
     "3 268:140:70:34; 6 331:140:41:0; 37 363:149:0:0?; 41 331:140:41:0; 42 438:0:70:4?; 46 331:140:41:0; | "
     "3 157:226:107:22; 6 145:253:95:19; 23 148:246:97:21; 54 0:334:141:37?; 58 148:246:97:21; | 3 "
     "225:88:156:43; 26 224:85:155:48; 57 247:95:170:0?; | 1 224:85:155:48; 4 286:116:37:73; 8 "
     "288:117:32:75; | 3 332:138:42:0; 4 326:142:44:0; 5 320:147:45:0; 5 314:151:47:0; 6 313:151:47:1?; 8 "
     "314:151:47:0; 1 308:154:50:0; ",
     0x689c93ff0b47da70},
    {"limits", limits,
     "3 248:80:56; 6 288:96:0; 37 384:0:0?; in a trial | 288:96:0; | 288:96:0; | 184:144:56; 31 0:184:200?; "
     "35 184:144:56; 36 184:0:200?; in a trial | 184:144:56; 54 184:200:0?; 58 184:144:56; ",
     0xd212d8f01ff41b69},
    {"idle and back", idle_and_back,
     "3 195:61; 6 256:0; 206 255:1?; 208 256:0; 408 255:1?; 409 256:0; 609 255:1?; 610 256:0; 810 255:1?; "
     "811 256:0; 1011 255:1?; 1012 256:0; 1212 255:1?; 1213 256:0; 1413 255:1?; 1414 256:0; | 114 255:1?; "
     "116 0:256; 119 178:78; 122 93:163; 125 144:112; 128 116:140; 135 133:123; 145 125:131; 400 0:256?; 403 "
     "125:131; ",
     0x8a74c356ab786216},
    {"contention", contention, "3 226:30; 34 256:0?; 538 233:23?; 542 256:0; | 542 233:23?; ",
     0xfe33bef324ccb5b1},
    {"unusable times", unusable_times,
     "5 230:77:77; 8 264:89:31; 14 277:89:18; 50 289:95:0?; 55 277:89:18; 56 318:0:66?; 61 277:89:18; 67 "
     "272:90:22; 555 288:96:0?; 559 272:90:22; 561 317:0:67?; 565 272:90:22; ",
     0xbc0682f03d7fba2e},
};

} // namespace

TEST_CASE("the same times lead to the decisions that were recorded") {
    for (const Case& each : cases) {
        CAPTURE(std::string(each.name));
        CHECK(each.decide(1) == each.first);
        Checksum sum;
        for (unsigned seed = 1; seed <= 10; ++seed) {
            const std::string all = each.decide(seed);
            sum.add(std::as_bytes(std::span(all)));
        }
        CHECK(sum.value() == each.checksum);
    }
}

} // namespace towers
