#include "tests/conformance/reference_loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace towers::reference {

CrossEntropy head_loss(const Head& head, const Values& logits, const Words& labels) {
    const std::size_t classes = logits.size() / labels.size();
    CrossEntropy result;
    for (std::size_t row = 0; row < labels.size(); ++row) {
        const auto first = logits.begin() + std::ptrdiff_t(row * classes);
        const Values z(first, first + std::ptrdiff_t(classes));
        const std::size_t label = labels[row] + head.label_offset;
        const double top = *std::max_element(z.begin(), z.end());
        double sum = 0;
        for (const double value : z) sum += std::exp(head.logit_scale * (value - top));
        Values targets;
        for (std::size_t c = 0; c < classes; ++c) {
            const double target = head.smoothing / double(classes) + (c == label ? 1 - head.smoothing : 0.0);
            targets.push_back(target * (head.class_weights.empty() ? 1 : head.class_weights[c]));
        }
        const double all = std::accumulate(targets.begin(), targets.end(), 0.0);
        double loss = 0;
        for (std::size_t c = 0; c < classes; ++c) {
            const double log_probability = head.logit_scale * (z[c] - top) - std::log(sum);
            loss -= targets[c] * log_probability;
            result.gradient.push_back(head.weight * head.logit_scale *
                                      (std::exp(log_probability) * all - targets[c]));
        }
        result.losses.push_back(head.weight * loss);
        result.correct.push_back(z[label] == top && !std::isnan(sum));
    }
    return result;
}

} // namespace towers::reference
