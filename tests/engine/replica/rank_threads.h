// Several ranks that train together, here threads of one process.
#pragma once

#include "engine/train/trainer.h"
#include "tests/support/scripted_device.h"
#include "tests/support/thread_transport.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace towers::test {

using Counts = std::vector<std::size_t>; ///< each rank's towers

inline const std::vector<Counts> layouts = {{1, 1}, {1, 1, 1}, {1, 1, 1, 1}, {2, 2}, {2, 1, 2}, {2, 2, 2, 2}};
constexpr unsigned global = 24; ///< the examples of a batch, for all these layouts

/// The towers' names on so many ranks; on one process, they mean the same devices.
std::vector<std::string> names_of(const Counts& counts);

TrainerOptions options_of(const Counts& counts, unsigned global_batch);

/// Even and uneven shares of `global`, later none for the last rank, none for the first, and all for one
/// tower.
std::vector<SharesFrom> changing_shares(const Counts& counts);

/// A network without kinks, so that rounding errors stay small. `layers`, `training`: more of each, TOML.
Recipe silu_recipe(const std::string& layers, const std::string& training);

/// One bucket, with a slice for every rank; Adam, moving averages, and a batch norm over the whole batch.
Recipe averaged_recipe();

/// Changes the options of a rank.
using Adjust = std::function<void(TrainerOptions& options, unsigned rank)>;

/// Has some towers, by number, follow scripts.
Adjust with_scripts(const Counts& counts, const std::vector<std::pair<std::size_t, Script>>& scripts);

/// Ranks share hosts.
Adjust on_hosts(const std::vector<unsigned>& hosts, Wire wire = Wire::fp32);

/// One after the other.
Adjust both(const Adjust& first, const Adjust& second);

/// What all ranks train.
struct Job {
    Recipe recipe;
    TrainerOptions options;
    const DataSource& data;
    std::shared_ptr<const DataSource> tests = {};
    Adjust adjust = {};                ///< may be empty
    std::shared_ptr<Wires> wires = {}; ///< null: others
    double silence = 10;               ///< seconds, after which a rank is lost
};

/// Has rank 0's trainer do `drive`, and the others follow. Throws what any of them throws.
void on_ranks(const Counts& counts, const Job& job, const std::function<void(Trainer&)>& drive);

/// What a training leaves.
struct Left {
    std::vector<StepReport> reports;
    std::vector<TowerUse> use;
    TrainingState state;
    std::vector<float> gradients;
    std::optional<TestReport> test;
    std::string notices;
};

/// Goes on to this step. `tests`: with a test pass in the end.
Left go_on(Trainer& trainer, std::uint64_t steps, bool tests = false);

/// Goes on to this step on ranks. `from`: null: from the beginning.
Left train_on(const Counts& counts, const Job& job, std::uint64_t steps, bool tests = false,
              const TrainingState* from = nullptr);

} // namespace towers::test
