#include "engine/export/torch_forward.h"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace towers {
namespace {

/// An activation as an expression. As in ONNX, what has neither height nor width may be a row, [N, channels],
/// and else is [N, channels, height, width].
struct Value {
    std::string text;
    bool is_row = false;
    bool is_sum = false; ///< has an operator outside of brackets
};

std::string operand(const Value& value) { return value.is_sum ? '(' + value.text + ')' : value.text; }

Value as_image(const Value& value) {
    return value.is_row ? Value{operand(value) + "[:, :, None, None]"} : value;
}

Value as_row(const Value& value, const Shape& shape) {
    if (value.is_row) return value;
    const bool has_places = shape.height * shape.width > 1; // towers flattens with the channels last
    return {operand(value) + (has_places ? ".permute(0, 2, 3, 1)" : "") + ".flatten(1)", true};
}

std::string padded(const std::string& x, const PlacedWindow& window, const char* more = "") {
    return fmt::format("F.pad({}, ({}, {}, {}, {}){})", x, window.before[1], window.after[1],
                       window.before[0], window.after[0], more);
}

std::string pool_arguments(const PlacedWindow& window) {
    return fmt::format("{}, {}", python_pair(window.size), python_pair(window.stride));
}

/// torch's pools pad by at most half a window.
std::optional<std::array<unsigned, 2>> pool_padding(const GraphLayer& layer, const PlacedWindow& window) {
    const auto padding = symmetric_padding(layer, window);
    for (const std::size_t axis : {0, 1})
        if (padding && (*padding)[axis] > window.size[axis] / 2) return {};
    return padding;
}

class Forward {
public:
    Forward(const InferenceGraph& graph, const TorchNames& names) : graph_(graph), names_(names) {}

    std::string run() {
        find_statements();
        lines_ = fmt::format("    def forward(self, {}):\n", image_name());
        std::vector<Value> values(graph_.layers.size());
        for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
            const GraphLayer& layer = graph_.layers[i];
            std::vector<Value> in;
            for (const int from : layer.inputs)
                in.push_back(from < 0 ? Value{image_name()} : values[std::size_t(from)]);
            values[i] =
                std::visit([&](const auto& computation) { return expression(layer, computation, in); },
                           layer.computation);
            if (!ends_statement_[i]) continue;
            const std::string target = target_of(i);
            if (i == graph_.logits) {
                finish(values[i]);
                break; // the last layer, since only what the logits depend on is in the graph
            }
            lines_ += fmt::format("        {} = {}\n", target, values[i].text);
            values[i] = {target, values[i].is_row};
        }
        return lines_;
    }

private:
    // ---- statements: a layer is part of its reader's if that is the next one and has no other input
    void find_statements() {
        const std::size_t count = graph_.layers.size();
        readers_.resize(count);
        for (std::size_t i = 0; i < count; ++i)
            for (const int from : graph_.layers[i].inputs)
                if (from >= 0)
                    readers_[std::size_t(from)].push_back(i);
                else
                    image_readers_.push_back(i);
        ends_statement_.resize(count);
        statement_.resize(count);
        for (std::size_t i = 0, statement = 0; i < count; ++i) {
            statement_[i] = statement;
            ends_statement_[i] = !(readers_[i].size() == 1 && readers_[i][0] == i + 1 && continues(i + 1));
            statement += ends_statement_[i];
        }
    }
    /// Whether the layer goes on with a statement that computes its input, which a reader sees as one thing:
    /// a convolution with its norm and activation.
    bool continues(std::size_t layer) const {
        const GraphLayer& it = graph_.layers[layer];
        return it.inputs.size() == 1 && std::visit(Cases{[](const computation::Activation&) { return true; },
                                                         [](const computation::BatchNorm&) { return true; },
                                                         [](const computation::Dropout&) { return true; },
                                                         [](const computation::Flatten&) { return true; },
                                                         [](const auto&) { return false; }},
                                                   it.computation);
    }

    /// `x` for what only the next statement reads, else the layer's name
    std::string target_of(std::size_t layer) const {
        const auto& readers = readers_[layer];
        const bool next_only = std::ranges::all_of(
            readers, [&](std::size_t reader) { return statement_[reader] == statement_[layer] + 1; });
        return next_only ? "x" : names_.attribute(graph_.layers[layer].name);
    }
    /// The same for the network's input
    std::string image_name() const {
        const bool first_only =
            std::ranges::all_of(image_readers_, [&](std::size_t reader) { return statement_[reader] == 0; });
        return first_only ? "x" : "images";
    }

    void finish(const Value& logits) {
        const GraphLayer& layer = graph_.layers[graph_.logits];
        std::string text = as_row(logits, layer.out).text;
        if (graph_.logit_scale != 1)
            text = fmt::format("{} * {}", operand({text, true, logits.is_sum}),
                               python_number(graph_.logit_scale));
        lines_ += fmt::format("        return {}\n", text);
    }

    // ---- expressions
    using Values = std::vector<Value>;

    std::string module(const GraphLayer& layer) const { return "self." + names_.attribute(layer.name); }
    static bool all_rows(const Values& in) { return std::ranges::all_of(in, &Value::is_row); }
    static std::string joined(Values in, const char* between) {
        const bool rows = all_rows(in);
        std::string text;
        for (const Value& each : in)
            text += (text.empty() ? "" : between) + operand(rows ? each : as_image(each));
        return text;
    }

    Value expression(const GraphLayer&, const computation::Add&, const Values& in) const {
        return {joined(in, " + "), all_rows(in), true};
    }
    Value expression(const GraphLayer&, const computation::Multiply&, const Values& in) const {
        return {joined(in, " * "), all_rows(in), true};
    }
    Value expression(const GraphLayer&, const computation::Concatenate&, const Values& in) const {
        return {fmt::format("torch.cat([{}], 1)", joined(in, ", ")), all_rows(in)};
    }
    Value expression(const GraphLayer& layer, const computation::Flatten&, const Values& in) const {
        return as_row(in[0], layer.in[0]);
    }
    Value expression(const GraphLayer& layer, const computation::Dropout&, const Values& in) const {
        return {fmt::format("{}({})", module(layer), in[0].text), in[0].is_row};
    }
    Value expression(const GraphLayer& layer, const computation::Convolution& o, const Values& in) const {
        const std::string x = as_image(in[0]).text;
        const bool pads = !symmetric_padding(layer, o.window);
        return {fmt::format("{}({})", module(layer), pads ? padded(x, o.window) : x)};
    }
    Value expression(const GraphLayer& layer, const computation::Dense&, const Values& in) const {
        return {fmt::format("{}({})", module(layer), as_row(in[0], layer.in[0]).text), true};
    }
    Value expression(const GraphLayer& layer, const computation::MaxPool& o, const Values& in) const {
        const std::string x = as_image(in[0]).text, arguments = pool_arguments(o.window);
        const auto padding = pool_padding(layer, o.window);
        if (!padding)
            return {
                fmt::format("F.max_pool2d({}, {})", padded(x, o.window, ", value=-torch.inf"), arguments)};
        const std::string pads =
            *padding == std::array{0u, 0u} ? "" : fmt::format(", padding={}", python_pair(*padding));
        return {fmt::format("F.max_pool2d({}, {}{})", x, arguments, pads)};
    }
    Value expression(const GraphLayer& layer, const computation::AveragePool& o, const Values& in) const {
        const std::string x = as_image(in[0]).text, arguments = pool_arguments(o.window);
        const auto padding = pool_padding(layer, o.window);
        if (padding && *padding == std::array{0u, 0u})
            return {fmt::format("F.avg_pool2d({}, {})", x, arguments)};
        if (padding)
            return {fmt::format("F.avg_pool2d({}, {}, padding={}{})", x, arguments, python_pair(*padding),
                                o.counts_padding ? "" : ", count_include_pad=False")};
        if (o.counts_padding) return {fmt::format("F.avg_pool2d({}, {})", padded(x, o.window), arguments)};
        return {fmt::format("average_pool({}, {}, ({}, {}, {}, {}))", x, arguments, o.window.before[1],
                            o.window.after[1], o.window.before[0], o.window.after[0])};
    }
    Value expression(const GraphLayer&, const computation::GlobalAveragePool&, const Values& in) const {
        return {fmt::format("{}.mean((2, 3), keepdim=True)", operand(as_image(in[0])))};
    }
    Value expression(const GraphLayer& layer, const computation::BatchNorm&, const Values& in) const {
        return {fmt::format("{}({})", module(layer), as_image(in[0]).text)};
    }
    /// It normalizes the last axis.
    Value expression(const GraphLayer& layer, const computation::LayerNorm&, const Values& in) const {
        if (in[0].is_row) return {fmt::format("{}({})", module(layer), in[0].text), true};
        return {fmt::format("{}({}.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)", module(layer), operand(in[0]))};
    }
    /// PyTorch divides alpha by the size.
    Value expression(const GraphLayer&, const computation::LocalResponseNorm& o, const Values& in) const {
        const double size = 2.0 * o.radius + 1;
        return {fmt::format("F.local_response_norm({}, {}, alpha={}, beta={}, k={})", as_image(in[0]).text,
                            size, python_number(float(double(o.alpha) * size)), python_number(o.beta),
                            python_number(o.bias))};
    }
    Value expression(const GraphLayer&, const computation::Activation& o, const Values& in) const {
        using computation::Function;
        const auto of = [&](const char* function, const std::string& more = "") {
            return Value{fmt::format("{}({}{})", function, in[0].text, more), in[0].is_row};
        };
        switch (o.function) {
        case Function::relu:
            return of("F.relu");
        case Function::relu6:
            return of("F.relu6");
        case Function::leaky_relu:
            return of("F.leaky_relu", ", " + python_number(o.slope));
        case Function::hard_swish:
            return of("F.hardswish");
        case Function::sigmoid:
            return of("torch.sigmoid");
        case Function::silu:
            return of("F.silu");
        case Function::softplus:
            return of("F.softplus");
        case Function::gelu:
            return of("F.gelu");
        case Function::gelu_tanh:
            return of("F.gelu", ", approximate=\"tanh\"");
        }
        throw std::logic_error("PyTorch's module is not told of this activation");
    }

    const InferenceGraph& graph_;
    const TorchNames& names_;
    std::vector<std::vector<std::size_t>> readers_; ///< of each layer's output
    std::vector<std::size_t> image_readers_, statement_;
    std::vector<bool> ends_statement_;
    std::string lines_;
};

} // namespace

std::string torch_forward(const InferenceGraph& graph, const TorchNames& names) {
    return Forward(graph, names).run();
}

} // namespace towers
