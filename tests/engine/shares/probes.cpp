#include "engine/shares/probes.h"

#include <doctest/doctest.h>

namespace towers {

namespace {

/// Both times of what is to be tried next, for towers of these models.
void try_next(Probes& probes, Standings& standings, const std::vector<LoadModel>& truth) {
    const Shares examples = probes.next(standings);
    std::vector<double> seconds;
    for (std::size_t i = 0; i < truth.size(); ++i) seconds.push_back(truth[i].seconds(examples[i]));
    CHECK_FALSE(probes.take(standings, std::vector<double>(truth.size(), 1000))); // which holds compilation
    CHECK(probes.take(standings, seconds));
    standings.give(probes.shares(standings));
}

} // namespace

TEST_CASE("probes grow with what the towers would get, and slow towers wait") {
    const std::vector<LoadModel> truth = {{0, 0.001}, {0, 0.002}, {0, 1}};
    Standings standings(768, 1, {256, 256, 256});
    Probes probes({256, 256, 256});
    CHECK(probes.next(standings) == Shares{1, 1, 1});
    try_next(probes, standings, truth);
    CHECK(standings.now.shares == Shares{511, 256, 1});
    CHECK(probes.next(standings) == Shares{127, 64, 0});
    try_next(probes, standings, truth);
    CHECK(probes.next(standings).empty()); // larger ones would tell little
}

TEST_CASE("a first time that another share interrupts is taken again") {
    Standings standings(64, 1, {32, 32});
    Probes probes({32, 32});
    CHECK_FALSE(probes.take(standings, std::vector<double>{1, 1}));
    probes.begin_size_again();
    CHECK_FALSE(probes.take(standings, std::vector<double>{1, 3}));
    CHECK(probes.take(standings, std::vector<double>{2, 2}));
    CHECK(standings.now.loads[0].model()->seconds(1) == 1);
    CHECK(standings.now.loads[1].model()->seconds(1) == 2);
}

TEST_CASE(
    "the start's shares stay unless a step promises to be far shorter, or a tower cannot hold its share") {
    const auto after = [](double slower, unsigned most) {
        Standings standings(64, 1, {32, 32});
        standings.most[1] = most;
        Probes probes({32, 32});
        try_next(probes, standings, {{0, 1}, {0, slower}});
        return standings.now.shares;
    };
    CHECK(after(1.2, 64) == Shares{32, 32});
    CHECK(after(3, 64) == Shares{48, 16});
    CHECK(after(1, 16) == Shares{48, 16});
}

} // namespace towers
