#include "engine/model/model.h"

#include <cmath>
#include <fmt/format.h>
#include <numbers>
#include <random>
#include <stdexcept>

namespace towers {

SamePadding same_padding(unsigned in, unsigned window, unsigned stride) {
    const unsigned out = (in + stride - 1) / stride;
    const unsigned covered = (out - 1) * stride + window;
    return {out, covered > in ? (covered - in) / 2 : 0};
}

unsigned Model::classes() const { return output_shapes().back().channels; }

int Model::producer(const std::string& input_name) const {
    if (input_name == "images") return -1;
    for (std::size_t i = 0; i < layers.size(); ++i)
        if (layers[i].name == input_name) return int(i);
    throw std::logic_error(fmt::format("model {}: no layer makes '{}'", name, input_name));
}

std::vector<Shape> Model::output_shapes() const {
    std::vector<Shape> shapes;
    for (const Layer& layer : layers) {
        if (layer.inputs.size() != 1)
            throw std::logic_error(fmt::format("model {}: layer {} needs one input", name, layer.name));
        const int from = producer(layer.inputs[0]);
        if (from >= int(shapes.size()))
            throw std::logic_error(
                fmt::format("model {}: layer {} comes before its input", name, layer.name));
        const Shape in = from < 0 ? input : shapes[std::size_t(from)];
        const auto shape = [&](const auto& operation) -> Shape {
            using Operation = std::decay_t<decltype(operation)>;
            if constexpr (std::is_same_v<Operation, Conv2d>)
                return {same_padding(in.height, operation.kernel, operation.stride).out,
                        same_padding(in.width, operation.kernel, operation.stride).out, operation.filters};
            else if constexpr (std::is_same_v<Operation, Dense>)
                return {1, 1, operation.units};
            else if constexpr (std::is_same_v<Operation, MaxPool>)
                return {same_padding(in.height, operation.window, operation.stride).out,
                        same_padding(in.width, operation.window, operation.stride).out, in.channels};
            else
                return in;
        };
        shapes.push_back(std::visit(shape, layer.operation));
    }
    return shapes;
}

std::size_t Variable::elements() const {
    std::size_t product = 1;
    for (const std::size_t size : shape) product *= size;
    return product;
}

std::vector<Variable> variables_of(const Model& model) {
    const std::vector<Shape> shapes = model.output_shapes();
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
        const Layer& layer = model.layers[i];
        const int from = model.producer(layer.inputs[0]);
        const Shape in = from < 0 ? model.input : shapes[std::size_t(from)];
        const auto add = [&](std::vector<std::size_t> weights, const Initial& initial) {
            const std::size_t outputs = weights.back();
            variables.push_back({layer.name + "/weights", std::move(weights), initial.stddev, 0,
                                 initial.weight_decay, int(i)});
            variables.push_back({layer.name + "/biases", {outputs}, 0, initial.bias, 0, int(i)});
        };
        if (const auto* conv = std::get_if<Conv2d>(&layer.operation))
            add({conv->kernel, conv->kernel, in.channels, conv->filters}, conv->initial);
        else if (const auto* dense = std::get_if<Dense>(&layer.operation))
            add({in.elements(), dense->units}, dense->initial);
    }
    return variables;
}

std::vector<float> initial_values(const Variable& variable, std::uint64_t seed) {
    std::vector<float> values(variable.elements(), variable.bias);
    if (variable.stddev == 0) return values;
    // FNV-1a of the name: each variable has a stream of its own, whatever else the model holds.
    std::uint64_t stream = 0xcbf29ce484222325u;
    for (const char c : variable.name) stream = (stream ^ std::uint8_t(c)) * 0x100000001b3u;
    std::mt19937_64 words(seed ^ stream);
    // The standard fixes the words but not the distributions; Box and Muller's method makes these normal.
    const auto unit = [&] { return (double(words() >> 11) + 0.5) * 0x1p-53; };
    for (float& value : values) {
        double normal;
        do {
            // A statement of its own: within one, compilers may draw the two in either order.
            const double radius = std::sqrt(-2 * std::log(unit()));
            normal = radius * std::cos(2 * std::numbers::pi * unit());
        } while (std::abs(normal) > 2);
        value = variable.bias + float(variable.stddev * normal);
    }
    return values;
}

} // namespace towers
