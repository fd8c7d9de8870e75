// Ways to divide a step of 12 examples, or of more, which all train alike.
#pragma once

#include "engine/train/trainer.h"
#include "tests/support/networks.h"

#include <string>
#include <vector>

namespace towers::test {

struct Way {
    std::string name;
    std::vector<std::string> towers;
    std::vector<double> shares = {};
    unsigned micro_batch = 0;
    Feeding feeding = Feeding::resident;
};

inline std::vector<Way> ways_on(const std::string& id) {
    return {{"one tower", {id}},
            {"micro-batches", {id}, {}, 5},
            {"streamed", {id}, {}, 0, Feeding::streamed},
            {"three uneven towers", {id, "cpu", id}, {7, 3, 2}},
            {"uneven towers in micro-batches, streamed", {id, "cpu", id}, {7, 3, 2}, 2, Feeding::streamed},
            {"one tower that has all", {id, id}, {1, 0}}};
}

inline TrainerOptions options_of(const Way& way, bool shuffle, unsigned batch = 12) {
    TrainerOptions options = options_for(way.towers, batch);
    options.shares.weights = way.shares;
    options.micro_batch = way.micro_batch;
    options.feed = {way.feeding, way.feeding == Feeding::streamed ? 2u : 0u};
    options.shuffle = shuffle;
    return options;
}

} // namespace towers::test
