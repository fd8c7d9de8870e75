// A model of what the exchange between ranks costs, fitted to measurements: it predicts steps of more ranks.
// It knows nothing of ranks that share a machine, of switches that are busy, and of ranks that are late.
#pragma once

#include <cstddef>
#include <span>

namespace towers {

/// What a network and the processors beside it cost each rank of an exchange.
struct NetworkCosts {
    double seconds_per_byte = 0;    ///< sent, while as many come
    double seconds_per_message = 0; ///< sent, with the one that comes
    double seconds_per_step = 0;    ///< that nothing hides
};

/// Of MPI over TCP, measured on loopback.
constexpr double tcp_seconds_per_message = 6e-6;

/// Of MPI over TCP on links of so many bits per second, as measured (docs/machines.md).
NetworkCosts tcp_costs(double bits_per_second);

/// A layout of ranks: each is alone on its machine, all machines and links are alike.
struct RankLayout {
    unsigned ranks = 1;
    double bytes = 0;    ///< of the gradients of the model
    double step = 0;     ///< seconds of a rank's own step: of its towers at the same examples, without ranks
    double hideable = 0; ///< of `step`, in seconds: what is left of it when the first gradients are ready
};

/// What a rank sends to its peers in the exchange of a step.
struct Traffic {
    double bytes = 0;
    std::size_t messages = 0;
};
/// Of the rank that sends the most.
Traffic busiest_rank(unsigned ranks, double bytes);

/// The seconds of an exchange that nothing hides; 0 for one rank.
double exchange_seconds(const NetworkCosts& costs, unsigned ranks, double bytes);

/// The seconds of a step.
double predicted_step(const NetworkCosts& costs, const RankLayout& layout);

/// A layout, and the seconds of its steps.
struct MeasuredLayout {
    RankLayout layout;
    double seconds;
};

/// Fits seconds per byte and per step to measurements on one network by least squares of relative errors;
/// with a single one, the seconds per step are 0. `seconds_per_message` is the processor's, and has to be
/// known.
NetworkCosts fit_network(std::span<const MeasuredLayout> measured, double seconds_per_message);

} // namespace towers
