// A part of torch.cpp: the method forward().
#pragma once

#include "engine/export/torch_layers.h"

namespace towers {

/// From its `def` on.
std::string torch_forward(const InferenceGraph& graph, const TorchNames& names);

} // namespace towers
