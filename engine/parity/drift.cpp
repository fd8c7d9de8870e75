#include "engine/parity/drift.h"

#include "engine/parity/difference.h"

#include <memory>

namespace towers {

Drift measure_drift(const std::array<std::string, 2>& devices, const Recipe& recipe,
                    const TrainerOptions& options, const DataSource& data, std::uint64_t steps,
                    const std::function<void(const DriftStep&)>& observe) {
    std::array<std::unique_ptr<Trainer>, 2> trainers;
    for (const std::size_t side : {0, 1}) {
        TrainerOptions alone = options;
        alone.towers = {devices[side]};
        trainers[side] = std::make_unique<Trainer>(recipe, alone, data);
    }
    Drift drift;
    std::array<TrainingState, 2> states;
    const auto save = [&] {
        for (const std::size_t side : {0, 1}) states[side] = trainers[side]->save();
    };
    const auto compare = [&](const ArenaRange& range) {
        return compare_numbers(part(std::span<const float>(states[0].state), range),
                               part(std::span<const float>(states[1].state), range))
            .relative_norm;
    };
    save();
    for (std::uint64_t step = 0; step < steps; ++step) {
        std::array<float, 2> losses{};
        for (const std::size_t side : {0, 1}) {
            try {
                losses[side] = trainers[side]->step().loss;
            } catch (const Diverged& diverged) {
                drift.diverged[side] = diverged.what();
            }
        }
        if (!drift.diverged[0].empty() || !drift.diverged[1].empty()) break;
        save();
        drift.steps.push_back({step, losses, relative_difference(losses[0], losses[1]),
                               compare(trainers[0]->layout().trained())});
        observe(drift.steps.back());
    }
    if (const StateSection* averages = trainers[0]->layout().averages())
        drift.relative_averages = compare(averages->range);
    return drift;
}

} // namespace towers
