#include "engine/bench/scale_model.h"

#include "engine/plan/state.h"
#include "engine/reduce/slices.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace towers {
namespace {

/// Of a model of so many bytes.
BucketBytes bucket_bytes(double bytes) {
    StateLayout layout;
    layout.variable_bytes = std::size_t(bytes);
    return towers::bucket_bytes(layout);
}

/// Its buckets, if most of it are large layers.
std::vector<ArenaRange> buckets_of(double bytes) {
    const std::size_t most = bucket_bytes(bytes).most, all = std::size_t(bytes);
    std::vector<ArenaRange> buckets;
    for (std::size_t begin = 0; begin < all; begin += most)
        buckets.push_back({begin, std::min(most, all - begin)});
    return buckets;
}

/// What backward does not hide of the exchange. The last bucket is ready when backward ends, and its
/// parameters come when its gradients have been added up.
double exposed_seconds(const NetworkCosts& costs, const RankLayout& layout) {
    const double exchange = exchange_seconds(costs, layout.ranks, layout.bytes);
    const double last = std::min(1., double(bucket_bytes(layout.bytes).least) / layout.bytes);
    return std::max(0., exchange - layout.hideable) + last * exchange;
}

/// The seconds per step with which costs without them fit best.
double best_seconds_per_step(const NetworkCosts& without, std::span<const MeasuredLayout> measured) {
    double sum = 0, weights = 0;
    for (const auto& [layout, seconds] : measured) {
        const double weight = 1 / (seconds * seconds);
        sum += weight * (seconds - predicted_step(without, layout));
        weights += weight;
    }
    return std::max(0., sum / weights);
}

double error(const NetworkCosts& costs, std::span<const MeasuredLayout> measured) {
    double error = 0;
    for (const auto& [layout, seconds] : measured)
        error += std::pow(predicted_step(costs, layout) / seconds - 1, 2);
    return error;
}

} // namespace

NetworkCosts tcp_costs(double bits_per_second) {
    constexpr double payload = 0.955;     // of what passes through a link
    constexpr double processor = 1.15e-9; // seconds per byte of a rank that sends and receives, on any link
    return {.seconds_per_byte = std::max(8 / (payload * bits_per_second), processor),
            .seconds_per_message = tcp_seconds_per_message,
            .seconds_per_step = 0.5e-3};
}

Traffic busiest_rank(unsigned ranks, double bytes) {
    Traffic traffic;
    if (ranks < 2) return traffic;
    // Slices are dealt from rank 0 on, so no rank has more of them.
    for (const Slice& message : messages_of(deal_slices(buckets_of(bytes), ranks, false))) {
        const unsigned times = message.owner == 0 ? ranks - 1 : 1; // parameters to all, gradients to one
        traffic.bytes += double(message.range.bytes) * times;
        traffic.messages += times;
    }
    return traffic;
}

double exchange_seconds(const NetworkCosts& costs, unsigned ranks, double bytes) {
    const Traffic traffic = busiest_rank(ranks, bytes);
    return traffic.bytes * costs.seconds_per_byte + double(traffic.messages) * costs.seconds_per_message;
}

double predicted_step(const NetworkCosts& costs, const RankLayout& layout) {
    if (layout.ranks < 2) return layout.step;
    // Rank 0 orders the step; at its end each rank tells all others its vote.
    const double votes = 2 * (layout.ranks - 1) * costs.seconds_per_message;
    return layout.step + costs.seconds_per_step + votes + exposed_seconds(costs, layout);
}

NetworkCosts fit_network(std::span<const MeasuredLayout> measured, double seconds_per_message) {
    NetworkCosts best{.seconds_per_message = seconds_per_message};
    double least = INFINITY;
    // The error is not smooth where backward begins to hide everything, so all values are tried, between
    // those of 800 Gbit/s and 8 Mbit/s.
    for (double seconds_per_byte = 1e-11; seconds_per_byte < 1e-6; seconds_per_byte *= 1.003) {
        NetworkCosts costs{seconds_per_byte, seconds_per_message, 0};
        if (measured.size() > 1) costs.seconds_per_step = best_seconds_per_step(costs, measured);
        if (const double its = error(costs, measured); its < least) {
            least = its;
            best = costs;
        }
    }
    return best;
}

} // namespace towers
