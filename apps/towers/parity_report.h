// What `towers parity` prints and writes.
#pragma once

#include "backends/device.h"
#include "engine/parity/drift.h"
#include "engine/parity/lockstep.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace towers {

/// Prints the table of all tensors, and a line for each tensor that differs.
void print_comparisons(std::FILE* text, const std::vector<TensorComparison>& comparisons,
                       const std::array<DeviceInfo, 2>& devices);

/// Where the tensor differs, by how much and what is allowed: one line without a newline.
std::string describe_difference(const TensorComparison& comparison, const std::array<DeviceInfo, 2>& devices);

/// Where the tensor is NaN, or was never written, on both devices, likewise.
std::string describe_unexplained(const TensorComparison& comparison);

void print_drift_header(std::FILE* text, const std::array<DeviceInfo, 2>& devices);
void print_drift(std::FILE* text, const DriftStep& step);

/// Infinities and NaNs become null.
nlohmann::json to_json(const TensorComparison& comparison);
nlohmann::json to_json(const Drift& drift);

} // namespace towers
