// Softmax in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace towers {

/// What turns an example's scores into probabilities. The scores, of all classes, must be finite.
class Softmax {
public:
    explicit Softmax(std::span<const float> logits) : highest_(double(*std::ranges::max_element(logits))) {
        for (const float each : logits) sum_ += std::exp(double(each) - highest_);
    }

    /// Of the class with this score.
    double probability(float logit) const { return std::exp(double(logit) - highest_) / sum_; }
    double highest_probability() const { return 1 / sum_; }

private:
    double highest_, sum_ = 0;
};

} // namespace towers
