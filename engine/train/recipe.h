// Model, data pipeline, optimizer and schedule under one name.
#pragma once

#include "engine/model/model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace towers {

/// Defects of the published systems that are fixed here; `--quirks` brings each one back.
struct Quirks {
    bool last_tower_loss = false;    ///< report the last tower's loss, not the mean over all
    bool step_schedule = false;      ///< decay the learning rate by steps, however many towers share them
    bool unordered_average = false;  ///< average the parameters from before the update
    bool delete_run = false;         ///< delete an earlier run in the run directory at start
    bool padded_evaluation = false;  ///< fill the last evaluation batch with repeated images, and count them
    bool divided_batch_time = false; ///< log seconds a batch divided by the number of towers

    bool operator==(const Quirks&) const = default;
};

/// Reads `last-tower-loss,step-schedule`, `all` or `none`. Throws UsageError that lists the names.
Quirks parse_quirks(const std::string& text);
/// Text that parse_quirks() reads.
std::string format_quirks(const Quirks& quirks);

struct Recipe {
    std::string name;
    Model model;
    unsigned batch;       ///< mean examples per tower and step
    double learning_rate; ///< at the start
    double decay_factor;  ///< of the learning rate, in a staircase
    unsigned epochs_per_decay;
    double average_decay; ///< the largest decay of the moving averages
    std::uint64_t steps;
};

/// Throws UsageError that lists the names when there is no such recipe.
Recipe find_recipe(const std::string& name);

/// The learning rate of the step that begins after `examples` examples and `step` steps.
double learning_rate_at(const Recipe& recipe, double initial, std::uint64_t step, std::uint64_t examples,
                        std::uint64_t records, unsigned batch, bool by_steps);

/// The moving averages' decay at update `n`, counted from 1: min(decay, (1 + n) / (10 + n)).
double average_decay_at(const Recipe& recipe, std::uint64_t n);

} // namespace towers
