// A trained network as source code of a PyTorch module, which reads the checkpoint itself; docs/exporting.md
// describes it.
#pragma once

#include "engine/export/graph.h"

#include <string>

namespace towers {

/// The text of a Python file that needs torch and safetensors. `averages`: whether its load() takes the
/// moving averages by default. `checkpoint`: the file's name, for its example; `version`: of this program.
std::string torch_source(const InferenceGraph& graph, bool averages, const std::string& checkpoint,
                         const std::string& version);

} // namespace towers
