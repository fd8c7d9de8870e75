#include "engine/layers/computation.h"

#include <fmt/format.h>

namespace towers {
namespace {

using Pair = std::array<unsigned, 2>;

void append(std::string& text, const std::string& more) { text += (text.empty() ? "" : ", ") + more; }

std::string to_string(const Pair& pair) {
    return pair[0] == pair[1] ? std::to_string(pair[0]) : fmt::format("{}x{}", pair[0], pair[1]);
}

std::string to_string(const PlacedWindow& window) {
    std::string text = fmt::format("{}x{}", window.size[0], window.size[1]);
    if (window.stride != Pair{1, 1}) append(text, "stride " + to_string(window.stride));
    if (window.dilation != Pair{1, 1}) append(text, "dilation " + to_string(window.dilation));
    const auto& [top, left] = window.before;
    const auto& [bottom, right] = window.after;
    if (top == bottom && left == right && top == left) {
        if (top != 0) append(text, fmt::format("pad {}", top));
    } else
        append(text, fmt::format("pad {} {} {} {}", top, bottom, left, right));
    return text;
}

/// Of a layer that usually has all of them
std::string without(std::initializer_list<std::pair<const char*, bool>> parts) {
    std::string text;
    for (const auto& [name, has] : parts)
        if (!has) append(text, fmt::format("no {}", name));
    return text;
}

std::string of_norm(float epsilon, bool gamma, bool beta) {
    std::string text = fmt::format("epsilon {:g}", epsilon);
    if (const std::string missing = without({{"gamma", gamma}, {"beta", beta}}); !missing.empty())
        append(text, missing);
    return text;
}

} // namespace

PlacedWindow placed_window(const Window& window, const Shape& in) {
    const auto placed = window.place(in);
    PlacedWindow result{.size = window.size, .stride = window.stride, .dilation = window.dilation};
    const Pair sizes{in.height, in.width};
    for (const std::size_t axis : {0, 1}) {
        const auto [out, before] = placed[axis];
        const unsigned reached = (out - 1) * window.stride[axis] + window.reach(axis);
        result.before[axis] = before;
        const bool given = window.padding == Window::Padding::given;
        const unsigned covered = sizes[axis] + before;
        result.after[axis] = given ? window.after[axis] : reached > covered ? reached - covered : 0;
    }
    return result;
}

std::string to_string(const Computation& of) {
    using namespace computation;
    return std::visit(Cases{[](const Convolution& o) {
                                std::string text = to_string(o.window);
                                if (o.groups > 1) append(text, fmt::format("{} groups", o.groups));
                                if (!o.biases) append(text, "no biases");
                                return text;
                            },
                            [](const Dense& o) {
                                return without({{"biases", o.biases}});
                            },
                            [](const Dropout& o) { return fmt::format("keep {:g}", o.keep); },
                            [](const MaxPool& o) { return to_string(o.window); },
                            [](const AveragePool& o) {
                                return to_string(o.window) + (o.counts_padding ? ", counts padding" : "");
                            },
                            [](const BatchNorm& o) { return of_norm(o.epsilon, o.gamma, o.beta); },
                            [](const LayerNorm& o) { return of_norm(o.epsilon, o.gamma, o.beta); },
                            [](const LocalResponseNorm& o) {
                                return fmt::format("radius {}, bias {:g}, alpha {:g}, beta {:g}", o.radius,
                                                   o.bias, o.alpha, o.beta);
                            },
                            [](const computation::Activation& o) -> std::string {
                                if (o.function == Function::leaky_relu)
                                    return fmt::format("slope {:g}", o.slope);
                                return o.function == Function::gelu_tanh ? "by tanh" : "";
                            },
                            [](const auto&) { return std::string(); }},
                      of);
}

} // namespace towers
