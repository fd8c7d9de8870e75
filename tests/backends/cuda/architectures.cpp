// A program that was built for one card must leave out the others, and say so, rather than fail on them.
#include "backends/cuda/architectures.h"

#include <doctest/doctest.h>

using towers::cuda::architecture_for;
using towers::cuda::runs_on;

TEST_CASE("a card runs machine code of its own generation and PTX of earlier ones") {
    CHECK(runs_on("86-real", 8, 6));
    CHECK(runs_on("86-real", 8, 9));
    CHECK_FALSE(runs_on("86-real", 8, 0));
    CHECK_FALSE(runs_on("86-real", 9, 0));
    CHECK(runs_on("86", 12, 0));
    CHECK_FALSE(runs_on("86", 7, 5));
    CHECK(runs_on("90-virtual", 9, 0));
    CHECK(runs_on("90-virtual", 10, 3));
    CHECK_FALSE(runs_on("90-virtual", 8, 9));
    CHECK(runs_on("90a", 9, 0));
    CHECK_FALSE(runs_on("90a", 10, 0));
    CHECK(runs_on("90a,100", 10, 0));
    CHECK(runs_on("all-major", 7, 5));
}

TEST_CASE("a build for all cards runs on all from compute capability 7.5 on") {
    constexpr const char* all = "75-real,80-real,86-real,89-real,90";
    for (const int capability : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121}) {
        CAPTURE(capability);
        CHECK(runs_on(all, capability / 10, capability % 10));
    }
    CHECK_FALSE(runs_on(all, 7, 0));
}

TEST_CASE("what runs on a card was compiled for the latest architecture that fits it") {
    constexpr const char* all = "75-real,80-real,86-real,89-real,90";
    CHECK(architecture_for(all, 7, 5) == 75);
    CHECK(architecture_for(all, 8, 7) == 86);
    CHECK(architecture_for(all, 9, 0) == 90);
    CHECK(architecture_for(all, 12, 0) == 90);
    CHECK(architecture_for("75", 9, 0) == 75); // PTX without what later cards have
    CHECK(architecture_for("86-real", 8, 0) == 0);
    CHECK(architecture_for("90a", 9, 0) == 90);
    CHECK(architecture_for("all-major", 8, 6) == 86);
}
