#include "engine/inference/predict.h"

#include "backends/headroom.h"
#include "engine/execution/softmax.h"
#include "engine/inference/multilabel_report.h"

#include <algorithm>
#include <future>
#include <numeric>

namespace towers {

std::vector<ClassProbability> most_probable(std::span<const float> logits, std::size_t count) {
    std::vector<std::uint32_t> labels(logits.size());
    std::iota(labels.begin(), labels.end(), 0u);
    count = std::min(count, labels.size());
    std::ranges::partial_sort(labels, labels.begin() + std::ptrdiff_t(count),
                              [&](std::uint32_t a, std::uint32_t b) {
                                  return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
                              });
    const Softmax softmax(logits);
    std::vector<ClassProbability> classes(count);
    for (std::size_t i = 0; i < count; ++i) classes[i] = {labels[i], softmax.probability(logits[labels[i]])};
    return classes;
}

std::vector<ClassProbability> labels_above(std::span<const float> logits,
                                           std::span<const double> thresholds) {
    std::vector<ClassProbability> labels;
    for (std::uint32_t i = 0; i < logits.size(); ++i)
        if (const double probability = sigmoid(logits[i]); probability >= thresholds[i])
            labels.push_back({i, probability});
    std::ranges::stable_sort(labels, [&](const ClassProbability& a, const ClassProbability& b) {
        return logits[a.label] > logits[b.label];
    });
    return labels;
}

unsigned batch_for(std::uint64_t records, unsigned most, std::size_t devices) {
    constexpr std::uint64_t step = 8;        // other sizes are slower
    constexpr std::uint64_t rounds_each = 4; // so that pictures are decoded beside the work on others
    const std::uint64_t rounds =
        std::max({(records + most - 1) / most, std::min<std::uint64_t>(devices, records),
                  std::min<std::uint64_t>(devices * rounds_each, (records + step - 1) / step)});
    const std::uint64_t even = (records + rounds - 1) / rounds;
    return unsigned(std::min({std::uint64_t(most), (even + step - 1) / step * step, records}));
}

void predict(std::span<ForwardPass> passes, std::span<const float> variables, const DataSource& data,
             unsigned readers, const SeeScores& see) {
    BatchQueue queue(data, passes[0].batch(), readers);
    std::vector<std::future<void>> parts;
    for (ForwardPass& pass : passes)
        parts.push_back(start_task([&] {
            try {
                pass.load(variables);
                pass.run(queue, see);
            } catch (...) {
                queue.close();
                throw;
            }
        }));
    for (std::future<void>& each : parts) each.get();
}

} // namespace towers
