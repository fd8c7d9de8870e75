#include "engine/shares/load.h"

#include "backends/error.h"
#include "engine/shares/tuning.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>

namespace towers {

namespace {

// How many groups, at most `most`, a tower finishes within `seconds`.
unsigned groups_within(const LoadModel& model, double seconds, unsigned group, unsigned most) {
    unsigned within = 0;
    while (within < most) {
        const unsigned middle = most - (most - within) / 2;
        if (model.seconds(middle * group) <= seconds)
            within = middle;
        else
            most = middle - 1;
    }
    return within;
}

bool has_changed(const std::vector<double>& times, const tuning::SpeedChange& change) {
    if (times.size() < 2 * change.steps) return false;
    const auto first = times.end() - std::ptrdiff_t(change.steps);
    std::vector<double> before(times.begin(), first);
    std::ranges::sort(before);
    const std::size_t quarter = (before.size() - 1) / 4;
    const auto [least, most] = std::minmax_element(first, times.end());
    return *least > before[before.size() - 1 - quarter] * change.factor ||
           *most < before[quarter] / change.factor;
}

double misfit(std::span<const LoadPoint> points) {
    const LoadModel model = fit_load(points);
    double worst = 0;
    for (const LoadPoint& point : points)
        worst = std::max(worst, std::abs(std::log(model.seconds(point.examples) / point.seconds)));
    return worst;
}

} // namespace

LoadModel fit_load(std::span<const LoadPoint> points) {
    if (points.size() == 1) return {0, points[0].seconds / points[0].examples};
    // Least squares of relative errors.
    double aa = 0, ab = 0, bb = 0, a = 0, b = 0, shortest = points[0].seconds;
    for (const LoadPoint& point : points) {
        const double one = 1 / point.seconds, examples = point.examples / point.seconds;
        aa += one * one, ab += one * examples, bb += examples * examples, a += one, b += examples;
        shortest = std::min(shortest, point.seconds);
    }
    aa += tuning::load.doubt / (shortest * shortest);
    const double determinant = aa * bb - ab * ab;
    const double fixed = (a * bb - b * ab) / determinant;
    if (!(fixed > 0)) return {0, b / bb};
    const double least = 1e-3 * b / bb; // more examples never take less time
    const double per_example = std::max((b * aa - a * ab) / determinant, least);
    return {per_example > least ? fixed : (a - per_example * ab) / aa, per_example};
}

std::vector<unsigned> balanced_shares(std::span<const LoadModel> models, unsigned global, unsigned group,
                                      std::span<const unsigned> most) {
    const unsigned units = global / group;
    std::vector<unsigned> groups(models.size());
    const auto fill = [&](double seconds) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < models.size(); ++i)
            sum += groups[i] = groups_within(models[i], seconds, group, std::min(units, most[i] / group));
        return sum;
    };
    const std::uint64_t room = fill(INFINITY);
    if (room < units)
        throw UsageError(fmt::format("the towers can hold {} of a step's {} examples; use a smaller --batch",
                                     room * group, global));
    // The bits of positive floating-point numbers have the same order as the numbers, so bisecting the bits
    // finds exactly the least number of seconds in which the towers finish all groups.
    std::uint64_t below = 0, enough = std::bit_cast<std::uint64_t>(double(INFINITY));
    while (enough - below > 1) {
        const std::uint64_t middle = below + (enough - below) / 2;
        (fill(std::bit_cast<double>(middle)) >= units ? enough : below) = middle;
    }
    // If several towers finish at the same time, they may have too many groups; the last one to finish gives
    // some up.
    for (std::uint64_t sum = fill(std::bit_cast<double>(enough)); sum > units; --sum) {
        std::size_t last = 0;
        for (std::size_t i = 1; i < models.size(); ++i)
            if (models[i].seconds(groups[i] * group) >= models[last].seconds(groups[last] * group)) last = i;
        --groups[last];
    }
    for (unsigned& share : groups) share *= group;
    return groups;
}

double slowest_seconds(std::span<const LoadModel> models, std::span<const unsigned> shares) {
    double slowest = 0;
    for (std::size_t i = 0; i < models.size(); ++i) slowest = std::max(slowest, models[i].seconds(shares[i]));
    return slowest;
}

bool usable_seconds(double seconds) { return std::isfinite(seconds) && seconds > 0; }

double median_seconds(std::vector<double> times) {
    const auto middle = times.begin() + std::ptrdiff_t(times.size() - 1) / 2;
    std::ranges::nth_element(times, middle);
    return *middle;
}

void TowerLoad::give(unsigned share) {
    if (share == share_) return;
    if (!times_.empty()) {
        points_ = points();
        if (points_.size() == tuning::load.points) points_.erase(points_.begin());
    }
    times_.clear();
    count_ = 0;
    share_ = share;
}

bool TowerLoad::add(double seconds) {
    if (share_ == 0 || had_.insert(share_).second || !usable_seconds(seconds)) return false;
    times_.push_back(seconds);
    ++count_;
    const bool jumped = has_changed(times_, tuning::load.jump);
    if (jumped) {
        const double before = keep_last_times(tuning::load.jump.steps);
        scale_others(median_seconds(times_) / before);
    } else if (has_changed(times_, tuning::load.drift)) {
        keep_last_times(tuning::load.drift.steps);
        points_.clear(); // they may have been measured at another speed
    } else if (count_ >= 2) {
        if (misfit(points()) > tuning::load.largest_misfit) adopt_present_speed();
        while (!points_.empty() && misfit(points()) > tuning::load.largest_misfit)
            points_.erase(points_.begin());
    }
    if (times_.size() > tuning::load.times) times_.erase(times_.begin());
    return jumped;
}

double TowerLoad::keep_last_times(std::size_t count) {
    const auto first = times_.end() - std::ptrdiff_t(count);
    const double before = median_seconds({times_.begin(), first});
    times_.erase(times_.begin(), first);
    count_ = unsigned(times_.size());
    return before;
}

std::vector<LoadPoint> TowerLoad::points() const {
    std::vector<LoadPoint> all = points_;
    if (times_.empty()) return all;
    std::erase_if(all, [&](const LoadPoint& point) {
        return std::abs(point.examples / double(share_) - 1) <= tuning::load.near;
    });
    all.push_back({share_, median_seconds(times_)});
    return all;
}

std::optional<LoadModel> TowerLoad::model() const {
    const std::vector<LoadPoint> all = points();
    if (all.empty()) return std::nullopt;
    LoadModel model = fit_load(all);
    if (times_.empty()) return model;
    const double scale = all.back().seconds / model.seconds(share_);
    return LoadModel{model.fixed * scale, model.per_example * scale};
}

void TowerLoad::adopt_present_speed() {
    if (!points_.empty() && !times_.empty())
        scale_others(median_seconds(times_) / fit_load(points_).seconds(share_));
}

void TowerLoad::scale_others(double scale) {
    for (LoadPoint& point : points_) point.seconds *= scale;
}

} // namespace towers
