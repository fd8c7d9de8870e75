// Parts of torch.cpp: the modules of a network's layers, and names and numbers in Python.
#pragma once

#include "engine/export/graph.h"

#include <array>
#include <map>
#include <optional>
#include <string>

namespace towers {

/// A number that Python reads back as the same float32.
std::string python_number(float value);

/// Names of the layers' modules and values: `stage1_1_conv` for stage1/1/conv.
class TorchNames {
public:
    explicit TorchNames(const InferenceGraph& graph);
    const std::string& attribute(const std::string& layer) const { return names_.at(layer); }

private:
    std::map<std::string, std::string> names_;
};

/// Whether the layer's module has values of the checkpoint.
bool has_variables(const GraphLayer& layer);
/// Whether the layer is a module and not a function.
bool is_module(const GraphLayer& layer);

/// A window's padding as torch's one number for each axis, if it has such: (height, width).
std::optional<std::array<unsigned, 2>> symmetric_padding(const GraphLayer& layer, const PlacedWindow& window);

/// `3`, or `(3, 1)`
std::string python_pair(const std::array<unsigned, 2>& pair);

/// The lines of __init__ that make the modules.
std::string torch_modules(const InferenceGraph& graph, const TorchNames& names);

/// Functions that the graph needs besides those of PyTorch.
std::string torch_helpers(const InferenceGraph& graph);

} // namespace towers
