#include "engine/recipes/class_weights.h"

#include "backends/error.h"
#include "engine/files/text.h"
#include "engine/nearest.h"
#include "engine/step/network.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

/// Examples / (classes * examples of the class).
std::vector<double> balanced_weights(const LossHead& head, const DataSource& data) {
    const std::vector<std::string>& classes = data.info().classes;
    std::vector<double> weights;
    for (const std::size_t count : data.counts()) {
        if (count == 0)
            throw InputError(fmt::format(
                "{}: 'class_weights' is \"balanced\", but class {} of {} has no training examples; give the "
                "weights by name, or data without that class",
                head.place, as_printable(classes[weights.size()]), as_printable(data.info().name)));
        weights.push_back(double(data.size()) / (double(classes.size()) * double(count)));
    }
    return weights;
}

std::vector<double> named_weights(const LossHead& head, const std::map<std::string, double>& by_name,
                                  const DataSource& data) {
    const std::vector<std::string>& classes = data.info().classes;
    const auto name = as_printable(data.info().name);
    for (const auto& [named, weight] : by_name)
        if (std::ranges::find(classes, named) == classes.end()) {
            const std::string near = nearest(named, classes);
            throw InputError(fmt::format(
                "{}: 'class_weights' names class {}, which {} does not have{}; 'towers data describe' lists "
                "its classes",
                head.place, as_printable(named), name,
                near.empty() ? "" : fmt::format(", but it has {}", as_printable(near))));
        }
    std::vector<double> weights;
    for (const std::string& each : classes) {
        const auto found = by_name.find(each);
        if (found == by_name.end())
            throw InputError(fmt::format("{}: 'class_weights' has {} of the {} classes of {}, but not {}; "
                                         "give each a weight, such as 1",
                                         head.place, by_name.size(), classes.size(), name,
                                         as_printable(each)));
        weights.push_back(found->second);
    }
    return weights;
}

} // namespace

std::vector<double> class_weights_of(const LossHead& head, const Model& model, const DataSource& data) {
    if (const auto* const list = std::get_if<std::vector<double>>(&head.class_weights)) return *list;
    const auto* const by_name = std::get_if<std::map<std::string, double>>(&head.class_weights);
    const std::vector<double> of_data =
        by_name != nullptr ? named_weights(head, *by_name, data) : balanced_weights(head, data);
    std::vector<double> weights(model.classes, 1);
    std::ranges::copy(of_data, weights.begin() + model.label_offset);
    return weights;
}

BatchWeights::BatchWeights(const Model& model, const DataSource& data) : label_offset_(model.label_offset) {
    for (const LossHead& head : model.heads)
        if (head.is_weighted()) heads_.push_back(class_weights_of(head, model, data));
}

std::vector<float> BatchWeights::of(std::span<const Example> batch) const {
    std::vector<float> all;
    for (const std::vector<double>& weights : heads_) {
        double sum = 0;
        for (const Example& example : batch) sum += weights[example.label + label_offset_];
        const double of_mean = double(batch.size()) / sum;
        const std::size_t end = all.size() + class_weights_stride(unsigned(weights.size()));
        for (const double weight : weights) all.push_back(float(weight * of_mean));
        all.resize(end);
    }
    return all;
}

} // namespace towers
