#include "engine/recipes/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace towers {

double Schedule::factor_at(const TrainingPosition& at) const {
    const double epoch = double(at.examples) / double(at.records);
    const double warm = warm_up > 0 ? std::min(1.0, epoch / warm_up) : 1;
    switch (kind) {
    case Kind::constant:
        return warm;
    case Kind::staircase: {
        const double length = double(at.records) * epochs; // in examples
        const double decays =
            at.by_steps ? std::floor(double(at.step) / std::max(1.0, std::floor(length / at.tower_batch)))
                        : std::floor(double(at.examples) / length);
        return warm * std::pow(factor, decays);
    }
    case Kind::exponential:
        return warm * std::pow(factor, epoch / epochs);
    case Kind::piecewise: {
        double value = 1;
        for (std::size_t i = 0; i < boundaries.size(); ++i)
            if (epoch >= boundaries[i]) value = factors[i];
        return warm * value;
    }
    case Kind::cosine: {
        const double done = std::min(1.0, epoch / epochs);
        return warm * (last + (1 - last) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
    }
    case Kind::one_cycle: {
        const double done = std::min(1.0, epoch / epochs);
        if (done < peak) return warm * (first + (1 - first) * done / peak);
        return warm * (1 + (last - 1) * (peak < 1 ? (done - peak) / (1 - peak) : 0));
    }
    case Kind::plateau:
        return warm * at.plateau;
    }
    return warm;
}

Plateau after_pass(const Schedule& schedule, Plateau before, std::uint64_t step, std::optional<double> value,
                   bool lower_is_better) {
    if (step <= before.step) return before;
    Plateau now = before;
    now.step = step;
    const auto is_better = [&](double best) {
        const double sign = lower_is_better ? -1 : 1;
        const double needed =
            schedule.absolute ? best + sign * schedule.threshold : best * (1 + sign * schedule.threshold);
        return lower_is_better ? *value < needed : *value > needed;
    };
    if (value && (!now.best || is_better(*now.best))) {
        now.best = value;
        now.bad = 0;
    } else
        ++now.bad;
    if (now.cooldown > 0) {
        --now.cooldown;
        now.bad = 0;
    }
    if (now.bad > schedule.patience) {
        now.factor = std::max(now.factor * schedule.factor, schedule.last);
        now.cooldown = schedule.cooldown;
        now.bad = 0;
    }
    return now;
}

Schedule read_schedule(Attributes attributes) {
    constexpr double most = 1e6;
    constexpr std::int64_t most_passes = 1'000'000;
    Schedule schedule;
    const std::string kind = attributes.choice(
        "kind", {"constant", "staircase", "exponential", "piecewise", "cosine", "one_cycle", "plateau"},
        "constant");
    if (kind == "staircase" || kind == "exponential") {
        schedule.kind = kind == "staircase" ? Schedule::Kind::staircase : Schedule::Kind::exponential;
        schedule.factor = attributes.number("factor", 0, most);
    } else if (kind == "piecewise") {
        schedule.kind = Schedule::Kind::piecewise;
        const Value* const list = attributes.find("boundaries");
        const std::size_t count =
            list != nullptr && list->as<Value::Array>() != nullptr ? list->as<Value::Array>()->size() : 1;
        if (count == 0) attributes.fail("boundaries", "is empty; give at least one epoch");
        schedule.boundaries = attributes.numbers("boundaries", count, 0, most);
        schedule.factors = attributes.numbers("factors", count, 0, most);
        if (!std::ranges::is_sorted(schedule.boundaries))
            attributes.fail("boundaries", "must grow; give epochs in order");
    } else if (kind == "cosine") {
        schedule.kind = Schedule::Kind::cosine;
        schedule.last = attributes.number("last", 0, most, 0);
    } else if (kind == "one_cycle") {
        schedule.kind = Schedule::Kind::one_cycle;
        schedule.first = attributes.number("first", 0, most, 0);
        schedule.last = attributes.number("last", 0, most, 0);
        schedule.peak = attributes.number("peak", 0, 1, 0.3);
    } else if (kind == "plateau") {
        schedule.kind = Schedule::Kind::plateau;
        schedule.factor = attributes.number("factor", 0, below_one, 0.1);
        schedule.patience = unsigned(attributes.whole("patience", 0, most_passes, 10));
        schedule.cooldown = unsigned(attributes.whole("cooldown", 0, most_passes, 0));
        schedule.threshold = attributes.number("threshold", 0, most, 1e-4);
        schedule.absolute = attributes.choice("threshold_mode", {"rel", "abs"}, "rel") == "abs";
        schedule.last = attributes.number("last", 0, 1, 0);
    }
    if (schedule.kind != Schedule::Kind::constant && schedule.kind != Schedule::Kind::piecewise &&
        schedule.kind != Schedule::Kind::plateau)
        schedule.epochs = attributes.number("epochs", 1e-6, most);
    schedule.warm_up = attributes.number("warm_up", 0, most, 0);
    attributes.done();
    return schedule;
}

} // namespace towers
