// Softmax in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace towers {

/// What turns an example's scores, times a factor, into probabilities. The scores, of all classes, must be
/// finite.
class Softmax {
public:
    explicit Softmax(std::span<const float> logits, double scale = 1)
        : scale_(scale), highest_(double(*std::ranges::max_element(logits))) {
        for (const float each : logits) sum_ += std::exp(scale * (double(each) - highest_));
    }

    /// Of the class with this score.
    double probability(float logit) const { return std::exp(scale_ * (double(logit) - highest_)) / sum_; }
    double highest_probability() const { return 1 / sum_; }

private:
    double scale_, highest_, sum_ = 0;
};

} // namespace towers
