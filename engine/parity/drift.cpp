#include "engine/parity/drift.h"

#include "engine/parity/difference.h"

#include <memory>

namespace towers {

Drift measure_drift(const std::array<std::string, 2>& devices, const Recipe& recipe,
                    const TrainerOptions& options, const Dataset& data, std::uint64_t steps,
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
                               compare_numbers(states[0].parameters, states[1].parameters).relative_norm});
        observe(drift.steps.back());
    }
    drift.relative_averages = compare_numbers(states[0].averages, states[1].averages).relative_norm;
    return drift;
}

} // namespace towers
