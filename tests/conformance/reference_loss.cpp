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

namespace {

/// The smoothed target of each class of a row.
Values smoothed(const Head& head, const Values& targets, std::size_t row, std::size_t rows,
                std::size_t classes) {
    Values all;
    for (std::size_t c = 0; c < classes; ++c)
        all.push_back(targets[row * (targets.size() / rows) + c] * (1 - head.smoothing) +
                      head.smoothing / double(classes));
    return all;
}

double weight_of(const Head& head, std::size_t c) {
    return head.class_weights.empty() ? 1 : head.class_weights[c];
}

} // namespace

CrossEntropy soft_cross_entropy(const Head& head, const Values& logits, const Values& targets,
                                std::size_t rows) {
    const std::size_t classes = logits.size() / rows;
    CrossEntropy result;
    for (std::size_t row = 0; row < rows; ++row) {
        const Values t = smoothed(head, targets, row, rows, classes);
        const auto z = [&](std::size_t c) { return head.logit_scale * logits[row * classes + c]; };
        double top = z(0), sum = 0, loss = 0, all = 0;
        for (std::size_t c = 0; c < classes; ++c) top = std::max(top, z(c));
        for (std::size_t c = 0; c < classes; ++c) sum += std::exp(z(c) - top);
        for (std::size_t c = 0; c < classes; ++c) {
            loss -= weight_of(head, c) * t[c] * (z(c) - top - std::log(sum));
            all += weight_of(head, c) * t[c];
        }
        for (std::size_t c = 0; c < classes; ++c)
            result.gradient.push_back(head.weight * head.logit_scale *
                                      (std::exp(z(c) - top) / sum * all - weight_of(head, c) * t[c]));
        result.losses.push_back(head.weight * loss);
    }
    return result;
}

CrossEntropy sigmoid_cross_entropy(const Head& head, const Values& logits, const Values& targets,
                                   std::size_t rows) {
    const std::size_t classes = logits.size() / rows;
    CrossEntropy result;
    const auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
    for (std::size_t row = 0; row < rows; ++row) {
        const Values t = smoothed(head, targets, row, rows, classes);
        double loss = 0;
        for (std::size_t c = 0; c < classes; ++c) {
            const double z = head.logit_scale * logits[row * classes + c], w = weight_of(head, c) * t[c];
            loss += w * softplus(-z) + (1 - t[c]) * softplus(z);
            result.gradient.push_back(head.weight * head.logit_scale / double(classes) *
                                      ((1 - t[c]) / (1 + std::exp(-z)) - w / (1 + std::exp(z))));
        }
        result.losses.push_back(head.weight * loss / double(classes));
    }
    return result;
}

} // namespace towers::reference
