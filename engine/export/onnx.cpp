#include "engine/export/onnx.h"

#include "engine/export/onnx_file.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <numbers>
#include <set>
#include <stdexcept>

namespace towers {
namespace {

using Wholes = std::vector<std::int64_t>;
using Element = OnnxFile::Element;

/// An activation. ONNX has images as [batch, channels, height, width], and what has neither height nor width
/// also as rows, [batch, channels].
struct Value {
    std::string name;
    Shape shape;
    bool is_row = false;
};

/// [height, width, in, out] to [out, in, height, width]
std::vector<float> filters_first(std::span<const float> values, std::size_t window, std::size_t in,
                                 std::size_t out) {
    std::vector<float> moved(values.size());
    for (std::size_t place = 0; place < window; ++place)
        for (std::size_t i = 0; i < in; ++i)
            for (std::size_t o = 0; o < out; ++o)
                moved[(o * in + i) * window + place] = values[(place * in + i) * out + o];
    return moved;
}

Wholes both(const std::array<unsigned, 2>& pair) { return {pair[0], pair[1]}; }

OnnxFile::Attributes attributes_of(const PlacedWindow& window) {
    return {{"kernel_shape", both(window.size)},
            {"strides", both(window.stride)},
            {"pads", Wholes{window.before[0], window.before[1], window.after[0], window.after[1]}}};
}

class Lowering {
public:
    explicit Lowering(const InferenceGraph& graph)
        : graph_(graph), taken_{"images", "logits", "probabilities"} {
        for (const GraphVariable& each : graph.variables) taken_.insert(each.name);
    }

    OnnxFile run() {
        std::vector<Value> values;
        const Value image = prepare();
        for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
            const GraphLayer& layer = graph_.layers[i];
            std::vector<Value> inputs;
            for (const int from : layer.inputs)
                inputs.push_back(from < 0 ? image : values[std::size_t(from)]);
            layer_ = &layer;
            output_ = names_logits(i) ? "logits" : unique(layer.name);
            values.push_back(std::visit([&](const auto& computation) { return lower(computation, inputs); },
                                        layer.computation));
        }
        finish(values[graph_.logits]);
        return std::move(file_);
    }

private:
    // ---- names and constants
    std::string unique(const std::string& wanted) {
        std::string name = wanted;
        for (int number = 1; !taken_.insert(name).second; ++number)
            name = fmt::format("{}/{}", wanted, number);
        return name;
    }
    /// A constant that several nodes share
    std::string scalar(float value) {
        std::string& name = scalars_[value];
        if (!name.empty()) return name;
        name = unique(fmt::format("constant/{}", value));
        file_.add_constant(name, {}, {value});
        return name;
    }
    std::string wholes(const std::string& wanted, const Wholes& values) {
        const std::string name = unique(wanted);
        file_.add_constant(name, values);
        return name;
    }
    std::string per_channel(const std::string& wanted, const std::array<float, 3>& values) {
        const std::string name = unique(wanted);
        const unsigned channels = graph_.input.channels;
        file_.add_constant(name, {1, channels, 1, 1}, {values.begin(), values.begin() + channels});
        return name;
    }
    /// A variable in its own layout
    std::string variable(const std::string& its) {
        const GraphVariable& found = graph_.variable(layer_->name + '/' + its);
        file_.add_tensor(found.name, {found.shape.begin(), found.shape.end()}, found.values);
        return found.name;
    }
    /// The variable, or as many equal numbers
    std::string variable_or(const std::string& its, bool has, float otherwise) {
        if (has) return variable(its);
        const std::string name = unique(layer_->name + '/' + its);
        const unsigned channels = layer_->in[0].channels;
        file_.add_constant(name, {channels}, std::vector<float>(channels, otherwise));
        return name;
    }

    // ---- nodes
    std::string node(const std::string& kind, const std::string& name, const std::vector<std::string>& inputs,
                     const OnnxFile::Attributes& attributes = {}) {
        const std::string output = unique(name);
        file_.add_node(kind, output, inputs, output, attributes);
        return output;
    }
    /// The node with the layer's name, and its output with that name
    Value last(const std::string& kind, const std::vector<std::string>& inputs, bool is_row,
               const OnnxFile::Attributes& attributes = {}) {
        file_.add_node(kind, layer_->name, inputs, output_, attributes);
        return {output_, layer_->out, is_row};
    }
    std::string part(const char* what) const { return layer_->name + '/' + what; }

    Value as_image(const Value& value) {
        if (!value.is_row) return value;
        if (image_axes_.empty()) image_axes_ = wholes("constant/image_axes", {2, 3});
        return {node("Unsqueeze", part("image"), {value.name, image_axes_}), value.shape, false};
    }
    Value as_row(const Value& value) {
        if (value.is_row) return value;
        std::string name = value.name;
        if (value.shape.height * value.shape.width > 1) // channels come last in a dense layer's weights
            name = node("Transpose", part("channels_last"), {name}, {{"perm", Wholes{0, 2, 3, 1}}});
        return {node("Flatten", part("row"), {name}, {{"axis", std::int64_t(1)}}),
                Shape{1, 1, unsigned(value.shape.elements())}, true};
    }
    std::vector<std::string> names_of(std::vector<Value> values, bool as_rows) {
        std::vector<std::string> names;
        for (const Value& each : values) names.push_back(as_rows ? each.name : as_image(each).name);
        return names;
    }
    static bool all_rows(const std::vector<Value>& values) {
        return std::ranges::all_of(values, &Value::is_row);
    }

    // ---- layers
    using Values = std::vector<Value>;

    Value lower(const computation::Add&, const Values& in) {
        const bool rows = all_rows(in);
        std::vector<std::string> names = names_of(in, rows);
        for (std::size_t i = 1; i + 1 < names.size(); ++i)
            names[i] = node("Add", part("sum"), {names[i - 1], names[i]});
        return last("Add", {names[names.size() - 2], names.back()}, rows);
    }
    Value lower(const computation::Concatenate&, const Values& in) {
        const bool rows = all_rows(in);
        return last("Concat", names_of(in, rows), rows, {{"axis", std::int64_t(1)}});
    }
    Value lower(const computation::Multiply&, const Values& in) {
        const bool rows = all_rows(in);
        return last("Mul", names_of(in, rows), rows);
    }
    Value lower(const computation::Dropout&, const Values& in) { return in[0]; }
    Value lower(const computation::Flatten&, const Values& in) { return as_row(in[0]); }

    Value lower(const computation::Convolution& o, const Values& in) {
        const GraphVariable& weights = graph_.variable(part("weights"));
        const std::size_t window = weights.shape[0] * weights.shape[1], each = weights.shape[2],
                          filters = weights.shape[3];
        file_.add_tensor(weights.name,
                         {std::int64_t(filters), std::int64_t(each), std::int64_t(weights.shape[0]),
                          std::int64_t(weights.shape[1])},
                         weights.values, [=](std::span<const float> values) {
                             return filters_first(values, window, each, filters);
                         });
        std::vector<std::string> inputs{as_image(in[0]).name, weights.name};
        if (o.biases) inputs.push_back(variable("biases"));
        OnnxFile::Attributes attributes = attributes_of(o.window);
        attributes.emplace_back("dilations", both(o.window.dilation));
        attributes.emplace_back("group", std::int64_t(o.groups));
        return last("Conv", inputs, false, attributes);
    }
    Value lower(const computation::Dense& o, const Values& in) {
        std::vector<std::string> inputs{as_row(in[0]).name, variable("weights")};
        if (o.biases) inputs.push_back(variable("biases"));
        return last(o.biases ? "Gemm" : "MatMul", inputs, true);
    }
    Value lower(const computation::MaxPool& o, const Values& in) {
        return last("MaxPool", {as_image(in[0]).name}, false, attributes_of(o.window));
    }
    Value lower(const computation::AveragePool& o, const Values& in) {
        OnnxFile::Attributes attributes = attributes_of(o.window);
        attributes.emplace_back("count_include_pad", std::int64_t(o.counts_padding));
        return last("AveragePool", {as_image(in[0]).name}, false, attributes);
    }
    Value lower(const computation::GlobalAveragePool&, const Values& in) {
        return last("GlobalAveragePool", {as_image(in[0]).name}, false);
    }
    Value lower(const computation::BatchNorm& o, const Values& in) {
        return last("BatchNormalization",
                    {in[0].name, variable_or("gamma", o.gamma, 1), variable_or("beta", o.beta, 0),
                     variable("moving_mean"), variable("moving_variance")},
                    in[0].is_row, {{"epsilon", o.epsilon}});
    }
    /// ONNX normalizes the last axes.
    Value lower(const computation::LayerNorm& o, const Values& in) {
        const bool row = in[0].is_row;
        const std::string x =
            row ? in[0].name
                : node("Transpose", part("channels_last"), {in[0].name}, {{"perm", Wholes{0, 2, 3, 1}}});
        std::vector<std::string> inputs{x, variable_or("gamma", o.gamma, 1)};
        if (o.beta) inputs.push_back(variable("beta"));
        const OnnxFile::Attributes attributes{{"axis", std::int64_t(-1)}, {"epsilon", o.epsilon}};
        if (row) return last("LayerNormalization", inputs, true, attributes);
        const std::string y = unique(part("normalized"));
        file_.add_node("LayerNormalization", layer_->name, inputs, y, attributes);
        file_.add_node("Transpose", part("channels_first"), {y}, output_, {{"perm", Wholes{0, 3, 1, 2}}});
        return {output_, layer_->out, false};
    }
    /// ONNX divides alpha by the size.
    Value lower(const computation::LocalResponseNorm& o, const Values& in) {
        const std::int64_t size = 2 * std::int64_t(o.radius) + 1;
        return last("LRN", {as_image(in[0]).name}, false,
                    {{"size", size},
                     {"alpha", float(double(o.alpha) * double(size))},
                     {"beta", o.beta},
                     {"bias", o.bias}});
    }
    Value lower(const computation::Activation& o, const Values& in) {
        using computation::Function;
        const std::string& x = in[0].name;
        const bool row = in[0].is_row;
        switch (o.function) {
        case Function::relu:
            return last("Relu", {x}, row);
        case Function::relu6:
            return last("Clip", {x, scalar(0), scalar(6)}, row);
        case Function::leaky_relu:
            return last("LeakyRelu", {x}, row, {{"alpha", o.slope}});
        case Function::hard_swish:
            return last("HardSwish", {x}, row);
        case Function::sigmoid:
            return last("Sigmoid", {x}, row);
        case Function::silu:
            return last("Mul", {x, node("Sigmoid", part("sigmoid"), {x})}, row);
        case Function::softplus:
            return last("Softplus", {x}, row);
        case Function::gelu:
            return gelu(x, row, false);
        case Function::gelu_tanh:
            return gelu(x, row, true);
        }
        throw std::logic_error("ONNX is not told of this activation");
    }
    /// This operator set has no Gelu: x / 2 (1 + erf(x / sqrt 2)), or x / 2 (1 + tanh(sqrt(2 / pi) (x +
    /// 0.044715 x^3)))
    Value gelu(const std::string& x, bool row, bool by_tanh) {
        std::string bent;
        if (by_tanh) {
            const std::string square = node("Mul", part("square"), {x, x});
            const std::string cube = node("Mul", part("cube"), {square, x});
            const std::string small = node("Mul", part("small"), {cube, scalar(0.044715f)});
            const std::string sum = node("Add", part("sum"), {x, small});
            const float factor = float(std::sqrt(2 / std::numbers::pi));
            bent = node("Tanh", part("tanh"), {node("Mul", part("scaled"), {sum, scalar(factor)})});
        } else {
            const float factor = float(std::numbers::sqrt2 / 2);
            bent = node("Erf", part("erf"), {node("Mul", part("scaled"), {x, scalar(factor)})});
        }
        const std::string twice = node("Add", part("twice"), {bent, scalar(1)});
        return last("Mul", {node("Mul", part("half"), {x, scalar(0.5f)}), twice}, row);
    }

    // ---- before and after the network
    Value prepare() {
        const Preparation& p = graph_.preparation;
        const auto [height, width, channels] = p.picture;
        file_.add_input("images", Element::uint8, {-1, channels, height, width});
        std::string x = node("Cast", "prepare/cast", {"images"}, {{"to", std::int64_t(Element::float32)}});
        if (p.crops())
            x = node("Slice", "prepare/crop",
                     {x, wholes("prepare/crop/first", {p.top, p.left}),
                      wholes("prepare/crop/end", {p.top + p.height, p.left + p.width}),
                      wholes("prepare/crop/axes", {2, 3})});
        x = resize(x);
        if (p.standardizes) x = standardize(x);
        if (p.shifts()) x = node("Sub", "prepare/shift", {x, per_channel("prepare/centre", p.centre)});
        if (p.scales()) x = node("Mul", "prepare/scale", {x, per_channel("prepare/factor", p.scale)});
        return {x, graph_.input, false};
    }
    std::string resize(const std::string& x) {
        const Preparation& p = graph_.preparation;
        const Shape& input = graph_.input;
        if (p.height == input.height && p.width == input.width) return x;
        return node("Resize", "prepare/resize",
                    {x, "", "", wholes("prepare/resize/sizes", {input.height, input.width})},
                    {{"axes", Wholes{2, 3}},
                     {"mode", std::string("linear")},
                     {"coordinate_transformation_mode", std::string("half_pixel")}});
    }
    std::string standardize(const std::string& x) {
        const std::string axes = wholes("prepare/axes", {1, 2, 3});
        const std::string mean = node("ReduceMean", "prepare/mean", {x, axes});
        const std::string centred = node("Sub", "prepare/centred", {x, mean});
        const std::string squares = node("Mul", "prepare/squares", {centred, centred});
        const std::string variance = node("ReduceMean", "prepare/variance", {squares, axes});
        const std::string least = unique("prepare/least_deviation");
        file_.add_constant(least, {}, {graph_.preparation.least_deviation});
        const std::string deviation =
            node("Max", "prepare/deviation", {node("Sqrt", "prepare/root", {variance}), least});
        return node("Div", "prepare/standardized", {centred, deviation});
    }

    /// Whether this layer's own output has the logits' name
    bool names_logits(std::size_t layer) const {
        return layer == graph_.logits && graph_.logit_scale == 1 &&
               std::holds_alternative<computation::Dense>(graph_.layers[layer].computation);
    }
    void finish(const Value& value) {
        const std::string x = as_row(value).name;
        if (graph_.logit_scale != 1)
            file_.add_node("Mul", "logits/scale", {x, scalar(graph_.logit_scale)}, "logits");
        else if (x != "logits")
            file_.add_node("Identity", "logits", {x}, "logits");
        if (graph_.kind == LossKind::sigmoid)
            file_.add_node("Sigmoid", "probabilities", {"logits"}, "probabilities");
        else
            file_.add_node("Softmax", "probabilities", {"logits"}, "probabilities",
                           {{"axis", std::int64_t(1)}});
        for (const char* name : {"logits", "probabilities"})
            file_.add_output(name, Element::float32, {-1, graph_.classes});
    }

    const InferenceGraph& graph_;
    OnnxFile file_;
    std::set<std::string> taken_; ///< names of values
    std::map<float, std::string> scalars_;
    std::string image_axes_;
    const GraphLayer* layer_ = nullptr;
    std::string output_; ///< the layer's
};

std::string text_of(const InferenceGraph& graph) {
    const auto [height, width, channels] = graph.preparation.picture;
    return fmt::format(
        "{}\n\nTakes `images`, uint8 [batch, {}, {}, {}]: {}, rows from the top, values 0 to 255. All that "
        "the "
        "network needs to be done with them is in the model. Gives `logits` and `probabilities`, float32 "
        "[batch, {}]: their {}.",
        graph.description, channels, height, width,
        channels == 3 ? "the planes red, green, blue of each picture" : "grey pictures", graph.classes,
        graph.kind == LossKind::sigmoid
            ? "sigmoid; a picture has the classes whose probability is at least the threshold in the metadata"
            : "softmax");
}

} // namespace

void export_onnx(const InferenceGraph& graph, const std::filesystem::path& path, const std::string& version) {
    Lowering(graph).run().write(
        path, {.graph_name = graph.recipe, .text = text_of(graph), .version = version, .facts = graph.facts});
}

} // namespace towers
