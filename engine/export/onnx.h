// A trained network as an ONNX model; docs/exporting.md describes it.
#pragma once

#include "engine/export/graph.h"

#include <filesystem>

namespace towers {

/// Writes the file as OutputFile does; `version`: of this program. Throws InputError if that fails.
void export_onnx(const InferenceGraph& graph, const std::filesystem::path& path, const std::string& version);

} // namespace towers
