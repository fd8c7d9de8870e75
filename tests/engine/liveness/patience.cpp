#include "engine/liveness/patience.h"

#include <cmath>
#include <doctest/doctest.h>

namespace towers {
namespace {

const DeviceInfo gpu{.id = "gpu", .kind = DeviceKind::discrete_gpu};
const DeviceInfo cpu{.id = "cpu", .kind = DeviceKind::cpu};

} // namespace

TEST_CASE("before a tower's speed is known, its work at the least rate of its kind is expected") {
    const StepTime time;
    CHECK(time.expect(8, 2e10, gpu).seconds == doctest::Approx(2));
    CHECK(time.expect(8, 2e10, cpu).seconds == doctest::Approx(20));
    CHECK_FALSE(time.expect(8, 2e10, gpu).known);
}

TEST_CASE("a tower's slowest step with its share is expected, and more for a larger share") {
    StepTime time;
    time.observe(10, 100); // compiles
    CHECK_FALSE(time.expect(10, 0, gpu).known);
    time.observe(10, 2);
    time.observe(10, 3);
    time.observe(10, 2);
    CHECK(time.expect(10, 0, gpu).known);
    CHECK(time.expect(10, 0, gpu).seconds == 3);
    CHECK(time.expect(20, 0, gpu).seconds == 6);
    CHECK(time.expect(5, 0, gpu).seconds == 3); // part of it may be the same for every share
}

TEST_CASE("the first step with new recordings does not count") {
    StepTime time;
    for (const double seconds : {100.0, 2.0}) time.observe(10, seconds);
    time.renew();
    time.observe(20, 50);
    CHECK(time.expect(20, 0, gpu).seconds == 4);
    time.observe(20, 5);
    CHECK(time.expect(20, 0, gpu).seconds == 5);
}

TEST_CASE("a device may take the timeout longer than expected, or ten times as long if that is more") {
    const Patience patience(60);
    CHECK(patience.limit({1, true}).seconds() == 61);
    CHECK(patience.limit({20, true}).seconds() == 200); // as beside another program
    CHECK(patience.limit({20, false}).seconds() == 620);
    CHECK(patience.limit_of_copies().seconds() == 600);
    CHECK(std::isinf(Patience(INFINITY).limit({1, true}).seconds()));
}

TEST_CASE("several towers may work one after another, and one that is not known makes the step unknown") {
    ExpectedTime expected;
    expected += {2, true};
    expected += {3, true};
    CHECK(expected.seconds == 5);
    CHECK(expected.known);
    expected += {1, false};
    CHECK(expected.seconds == 6);
    CHECK_FALSE(expected.known);
}

TEST_CASE("the message about a device that does not answer names the seconds that it had") {
    CHECK(no_answer(gpu, {{0.5, true}, 60}) == "gpu: no answer for 60 s more than a step should take");
    CHECK(no_answer(gpu, {{20.0 / 3, true}, 60.0 + 1e-3}) ==
          "gpu: no answer for 60 s more than a step should take");
    CHECK(no_answer(gpu, {{0.5, false}, 600}) == "gpu: no answer for 600 s");
    CHECK(no_answer(gpu, {{0, false}, 1200}) == "gpu: no answer for 1200 s");
}

} // namespace towers
