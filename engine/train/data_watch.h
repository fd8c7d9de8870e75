// Notices when the towers of a run wait for data.
#pragma once

#include <string>
#include <utility>

namespace towers {

class DataWatch {
public:
    /// `advice`: what would help.
    DataWatch(unsigned readers, std::string advice) : readers_(readers), advice_(std::move(advice)) {}

    /// Reports a step: its seconds, the part of them in which the towers waited for data, and its examples.
    /// Returns a line for the user, once a run, if they wait for more than a twentieth of some seconds.
    std::string observe(double seconds, double waited, unsigned examples);

private:
    unsigned readers_;
    std::string advice_;
    bool first_ = true, told_ = false; ///< the first step always waits
    double seconds_ = 0, waited_ = 0;  ///< since the last look
    double examples_ = 0;
};

} // namespace towers
