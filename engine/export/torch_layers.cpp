#include "engine/export/torch_layers.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <set>
#include <string_view>

namespace towers {
namespace {

using Pair = std::array<unsigned, 2>;

/// Words that may not be names here: Python's, those of nn.Module, and those that the file uses.
constexpr std::string_view reserved =
    " False None True and as assert async await break class continue def del elif else except finally for "
    "from "
    "global if import in is lambda nonlocal not or pass raise return try while with yield "
    "add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval "
    "extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu "
    "load_state_dict "
    "modules mtia named_buffers named_children named_modules named_parameters parameters register_buffer "
    "register_module register_parameter requires_grad_ set_extra_state set_submodule share_memory state_dict "
    "to "
    "to_empty train training type xpu zero_grad "
    "F average_pool images load nn self torch x ";

std::string identifier(const std::string& layer) {
    std::string name;
    for (const char c : layer) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    const bool starts_well = std::isalpha(static_cast<unsigned char>(name[0])) != 0;
    return starts_well && reserved.find(' ' + name + ' ') == std::string_view::npos ? name : "layer_" + name;
}

void append(std::string& arguments, const std::string& more) { arguments += ", " + more; }

std::string conv2d(const GraphLayer& layer, const computation::Convolution& o) {
    std::string arguments =
        fmt::format("{}, {}, {}", layer.in[0].channels, layer.out.channels, python_pair(o.window.size));
    if (o.window.stride != Pair{1, 1}) append(arguments, "stride=" + python_pair(o.window.stride));
    const Pair padding = symmetric_padding(layer, o.window).value_or(Pair{0, 0});
    if (padding != Pair{0, 0}) append(arguments, "padding=" + python_pair(padding));
    if (o.window.dilation != Pair{1, 1}) append(arguments, "dilation=" + python_pair(o.window.dilation));
    if (o.groups > 1) append(arguments, fmt::format("groups={}", o.groups));
    if (!o.biases) append(arguments, "bias=False");
    return fmt::format("nn.Conv2d({})", arguments);
}

/// A norm's module. PyTorch's always have gamma and beta.
std::string norm(const std::string& module, bool gamma, bool beta) {
    if (gamma && beta) return module;
    return fmt::format("norm({}{}{})", module, gamma ? "" : ", gamma=False", beta ? "" : ", beta=False");
}

/// Whether torch_modules() calls the helper
bool lacks_gamma_or_beta(const GraphLayer& layer) {
    return std::visit(Cases{[](const computation::BatchNorm& o) { return !o.gamma || !o.beta; },
                            [](const computation::LayerNorm& o) { return !o.gamma || !o.beta; },
                            [](const auto&) { return false; }},
                      layer.computation);
}

std::string module_of(const GraphLayer& layer) {
    return std::visit(Cases{[&](const computation::Convolution& o) { return conv2d(layer, o); },
                            [&](const computation::Dense& o) {
                                return fmt::format("nn.Linear({}, {}{})", layer.in[0].elements(),
                                                   layer.out.elements(), o.biases ? "" : ", bias=False");
                            },
                            [&](const computation::BatchNorm& o) {
                                return norm(fmt::format("nn.BatchNorm2d({}, eps={}, momentum={})",
                                                        layer.in[0].channels, python_number(o.epsilon),
                                                        python_number(o.blend)),
                                            o.gamma, o.beta);
                            },
                            [&](const computation::LayerNorm& o) {
                                return norm(fmt::format("nn.LayerNorm({}, eps={})", layer.in[0].channels,
                                                        python_number(o.epsilon)),
                                            o.gamma, o.beta);
                            },
                            [&](const computation::Dropout& o) {
                                return fmt::format("nn.Dropout({})", python_number(1 - o.keep));
                            },
                            [](const auto&) { return std::string(); }},
                      layer.computation);
}

} // namespace

std::string python_number(float value) { return fmt::format("{}", value); }

std::string python_pair(const Pair& pair) {
    return pair[0] == pair[1] ? std::to_string(pair[0]) : fmt::format("({}, {})", pair[0], pair[1]);
}

TorchNames::TorchNames(const InferenceGraph& graph) {
    std::set<std::string> taken;
    for (const GraphLayer& layer : graph.layers) {
        std::string name = identifier(layer.name);
        while (!taken.insert(name).second) name += '_';
        names_.emplace(layer.name, name);
    }
}

bool has_variables(const GraphLayer& layer) {
    return is_module(layer) && !std::holds_alternative<computation::Dropout>(layer.computation);
}

bool is_module(const GraphLayer& layer) { return !module_of(layer).empty(); }

std::optional<Pair> symmetric_padding(const GraphLayer& layer, const PlacedWindow& window) {
    const Pair in{layer.in[0].height, layer.in[0].width}, out{layer.out.height, layer.out.width};
    for (const std::size_t axis : {0, 1}) {
        const unsigned reach = (window.size[axis] - 1) * window.dilation[axis] + 1;
        if ((in[axis] + 2 * window.before[axis] - reach) / window.stride[axis] + 1 != out[axis] ||
            in[axis] + 2 * window.before[axis] < reach)
            return {};
    }
    return window.before;
}

std::string torch_modules(const InferenceGraph& graph, const TorchNames& names) {
    std::string lines;
    for (const GraphLayer& layer : graph.layers)
        if (const std::string module = module_of(layer); !module.empty())
            lines += fmt::format("        self.{} = {}\n", names.attribute(layer.name), module);
    return lines;
}

std::string torch_helpers(const InferenceGraph& graph) {
    const auto any = [&](const auto& holds) { return std::ranges::any_of(graph.layers, holds); };
    std::string text;
    if (any(lacks_gamma_or_beta))
        text += R"(def norm(module, gamma=True, beta=True):
    """Without gamma its factor stays 1, without beta its summand stays 0."""
    module.fixed = [name for name, has in (("weight", gamma), ("bias", beta)) if not has]
    for name in module.fixed:
        getattr(module, name).requires_grad = False
    return module


)";
    if (any([](const GraphLayer& layer) {
            const auto* const pool = std::get_if<computation::AveragePool>(&layer.computation);
            return pool != nullptr && !pool->counts_padding && !symmetric_padding(layer, pool->window);
        }))
        text += R"(def average_pool(x, window, stride, pad):
    """The mean of each window without its padding: left, right, top, bottom."""
    inside = F.pad(torch.ones_like(x[:1, :1]), pad)
    return F.avg_pool2d(F.pad(x, pad), window, stride) / F.avg_pool2d(inside, window, stride)


)";
    return text;
}

} // namespace towers
