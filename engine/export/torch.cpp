#include "engine/export/torch.h"

#include "engine/export/torch_forward.h"
#include "engine/export/torch_layers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace towers {
namespace {

/// As text within """
std::string quoted(const std::string& text) {
    std::string safe;
    for (const char c : text) {
        if (c == '\\' || c == '"') safe += '\\';
        safe += c;
    }
    return safe;
}

std::string list_of(const std::array<float, 3>& values, unsigned channels, const auto& number) {
    std::string list;
    for (unsigned c = 0; c < channels; ++c) list += (c > 0 ? ", " : "") + number(values[c]);
    return '[' + list + ']';
}

std::string prepare_function(const InferenceGraph& graph) {
    const Preparation& p = graph.preparation;
    const auto [height, width, channels] = p.picture;
    std::string text = fmt::format(
        "def prepare(pictures):\n"
        "    \"\"\"Pictures [N, {}, {}, {}], 0 to 255, as the network takes them: [N, {}, {}, {}].\"\"\"\n"
        "    x = pictures.float()\n",
        channels, height, width, channels, graph.input.height, graph.input.width);
    if (p.crops())
        text += fmt::format("    x = x[:, :, {}:{}, {}:{}]  # the middle\n", p.top, p.top + p.height, p.left,
                            p.left + p.width);
    if (p.height != graph.input.height || p.width != graph.input.width)
        text += fmt::format("    x = F.interpolate(x, ({}, {}), mode=\"bilinear\", align_corners=False)\n",
                            graph.input.height, graph.input.width);
    if (p.standardizes)
        return text +
               fmt::format(
                   "    variance, mean = torch.var_mean(x, dim=(1, 2, 3), correction=0, keepdim=True)\n"
                   "    return (x - mean) / variance.sqrt().clamp(min={})\n",
                   python_number(p.least_deviation));
    const auto channel_values = [&](const char* name, const std::array<float, 3>& values) {
        text += fmt::format("    {} = torch.tensor({}, device=x.device).view({}, 1, 1)\n", name,
                            list_of(values, channels, python_number), channels);
    };
    std::string value = "x";
    if (p.shifts()) {
        channel_values("centre", p.centre);
        value = "(x - centre)";
    }
    if (p.scales()) {
        channel_values("scale", p.scale);
        value += " * scale";
    }
    return text + fmt::format("    return {}\n", value);
}

constexpr const char* load_method = R"(
    def load(self, path, averages={averages}):
        """Reads a checkpoint of towers: the moving averages of its variables, if it has some and `averages`."""
        file = load_file(path)

        def variable(name):
            average = name + "/ExponentialMovingAverage"
            return file[average if averages and average in file else name]

        names = {{"weight": "weights", "bias": "biases"}}
        norm_names = {{"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}}
        with torch.no_grad():
            for layer, attribute in LAYERS.items():
                module = getattr(self, attribute)
                weighted = isinstance(module, (nn.Conv2d, nn.Linear))
                for its, name in (names if weighted else norm_names).items():
                    tensor = getattr(module, its, None)
                    if tensor is None or its in getattr(module, "fixed", ()):
                        continue
                    value = variable(layer + "/" + name)
                    if its == "weight" and isinstance(module, nn.Conv2d):
                        value = value.permute(3, 2, 0, 1)  # from [height, width, in, out]
                    if its == "weight" and isinstance(module, nn.Linear):
                        value = value.T  # from [in, out]
                    tensor.copy_(value)
        return self
)";

} // namespace

std::string torch_source(const InferenceGraph& graph, bool averages, const std::string& checkpoint,
                         const std::string& version) {
    const TorchNames names(graph);
    const std::string forward = torch_forward(graph, names);
    const bool sigmoid = graph.kind == LossKind::sigmoid;
    std::string text = fmt::format(
        "\"\"\"{}\n\nRecipe {}; written by towers {}.\n\n"
        "    model = Model().load(\"{}\").eval()\n"
        "    logits = model(prepare(pictures))\n"
        "    probabilities = {}\n\n"
        "`pictures`: [N, {}, {}, {}], rows from the top, 0 to 255, bytes or floats{}. Layers have the "
        "recipe's names.\n"
        "\"\"\"\n"
        "import torch\nimport torch.nn.functional as F\nfrom safetensors.torch import load_file\nfrom torch "
        "import nn\n\n\n",
        quoted(graph.description), quoted(graph.recipe), version, quoted(checkpoint),
        sigmoid
            ? "logits.sigmoid()  # a picture has the classes with probabilities >= torch.tensor(THRESHOLDS)"
            : "logits.softmax(1)",
        graph.preparation.picture.channels, graph.preparation.picture.height, graph.preparation.picture.width,
        graph.preparation.picture.channels == 3 ? ": the planes red, green and blue" : "");
    if (sigmoid) text += fmt::format("THRESHOLDS = {}\n\n\n", nlohmann::json(graph.thresholds).dump());
    text += prepare_function(graph) + "\n\n";
    text += torch_helpers(graph);
    text += "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n";
    text += torch_modules(graph, names);
    text += "\n" + forward;
    text += fmt::format(fmt::runtime(load_method), fmt::arg("averages", averages ? "True" : "False"));
    text += "\n\nLAYERS = {  # of the checkpoint: the module's\n";
    for (const GraphLayer& layer : graph.layers)
        if (has_variables(layer))
            text += fmt::format("    {}: \"{}\",\n", nlohmann::json(layer.name).dump(),
                                names.attribute(layer.name));
    return text + "}\n";
}

} // namespace towers
