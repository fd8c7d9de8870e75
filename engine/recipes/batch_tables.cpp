#include "engine/recipes/batch_tables.h"

#include "backends/error.h"
#include "engine/files/text.h"
#include "engine/nearest.h"
#include "engine/recipes/recipe_data.h"
#include "engine/step/network.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

/// Examples / (classes * examples of the class); of a sigmoid head examples without the class / those with
/// it.
std::vector<double> balanced_weights(const LossHead& head, const DataSource& data) {
    const std::vector<std::string>& classes = data.info().classes;
    std::vector<double> weights;
    for (const std::size_t count : data.counts()) {
        const bool is_sigmoid = head.kind == LossKind::sigmoid;
        const std::size_t part = is_sigmoid ? data.size() - count : data.size();
        const std::string name = as_printable(classes[weights.size()]), of = as_printable(data.info().name);
        if (count == 0 || part == 0)
            throw InputError(fmt::format(
                "{}: '{}' is \"balanced\", but {}; give the weights by name, or data without that class",
                head.place, weights_key(head.kind),
                count == 0 ? fmt::format("class {} of {} has no training examples", name, of)
                           : fmt::format("all training examples of {} are of class {}", of, name)));
        weights.push_back(double(part) / ((is_sigmoid ? 1 : double(classes.size())) * double(count)));
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
                "{}: '{}' names class {}, which {} does not have{}; 'towers data describe' lists its classes",
                head.place, weights_key(head.kind), as_printable(named), name,
                near.empty() ? "" : fmt::format(", but it has {}", as_printable(near))));
        }
    std::vector<double> weights;
    for (const std::string& each : classes) {
        const auto found = by_name.find(each);
        if (found == by_name.end())
            throw InputError(fmt::format("{}: '{}' has {} of the {} classes of {}, but not {}; "
                                         "give each a weight, such as 1",
                                         head.place, weights_key(head.kind), by_name.size(), classes.size(),
                                         name, as_printable(each)));
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

TableMaker::TableMaker(const Recipe& recipe, const DataSource& data, std::uint64_t seed, bool mixes)
    : image_(recipe.model.input), classes_(recipe.model.classes), label_offset_(recipe.model.label_offset),
      mixing_(mixes ? recipe.mixing : Mixing{}), seed_(seed),
      takes_targets_(takes_targets(recipe.model, mixing_.mixes())), label_sets_(data.label_sets()) {
    check_data(recipe, data.info());
    check_labels(recipe, data);
    for (const LossHead& head : recipe.model.heads)
        if (head.is_weighted()) heads_.push_back({head.kind, class_weights_of(head, recipe.model, data)});
}

BatchTables TableMaker::operator()(std::uint64_t first, std::span<const Example> examples) const {
    BatchTables tables;
    if (mixing_.mixes())
        tables.mixes = mixes_of(mixing_, seed_, first, std::uint32_t(examples.size()), image_);
    if (takes_targets_) tables.targets = targets(examples, tables.mixes);
    tables.class_weights = class_weights(examples, tables.targets);
    return tables;
}

std::size_t TableMaker::bytes(std::size_t examples) const {
    const std::size_t of_targets = takes_targets_ ? class_stride(classes_) * sizeof(float) : 0;
    return examples * (of_targets + (mixes() ? sizeof(Mix) : 0));
}

std::vector<float> TableMaker::targets(std::span<const Example> examples, std::span<const Mix> mixes) const {
    const std::size_t stride = class_stride(classes_);
    std::vector<float> targets(examples.size() * stride);
    const auto add = [&](std::size_t row, const Example& example, double part) {
        const auto at = [&](std::uint32_t label) -> float& {
            return targets[row * stride + label + label_offset_];
        };
        if (!label_sets_) {
            at(example.label) += float(part);
            return;
        }
        for (const std::uint32_t label : label_sets_->of(example.record)) at(label) += float(part);
    };
    for (std::size_t i = 0; i < examples.size(); ++i) {
        const double of_partner = mixes.empty() ? 0 : mixes[i].partner_target(image_);
        add(i, examples[i], 1 - of_partner);
        if (of_partner > 0) add(i, examples[mixes[i].partner], of_partner);
    }
    return targets;
}

std::vector<float> TableMaker::class_weights(std::span<const Example> examples,
                                             std::span<const float> targets) const {
    const std::size_t stride = class_stride(classes_);
    std::vector<float> all;
    for (const auto& [kind, weights] : heads_) {
        double sum = 0; // of the examples' weights
        for (std::size_t i = 0; i < examples.size() && kind == LossKind::softmax; ++i) {
            if (targets.empty()) sum += weights[examples[i].label + label_offset_];
            for (std::size_t c = 0; c < classes_ && !targets.empty(); ++c)
                sum += weights[c] * double(targets[i * stride + c]);
        }
        const double by = kind == LossKind::softmax ? double(examples.size()) / sum : 1;
        const std::size_t end = all.size() + stride;
        for (const double weight : weights) all.push_back(float(weight * by));
        all.resize(end);
    }
    return all;
}

} // namespace towers
