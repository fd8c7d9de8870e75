// The same training step on two devices in lockstep, every tensor compared.
#pragma once

#include "backends/device.h"
#include "engine/data/source.h"
#include "engine/execution/operands.h"
#include "engine/parity/difference.h"
#include "engine/recipes/recipe.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace towers {

struct LockstepOptions {
    unsigned batch;      ///< examples of the step
    std::uint64_t seed;  ///< of initial values, order of examples and distortions
    bool distort = true; ///< else the evaluation pipeline
    /// The largest relative norm that counts as equal where both devices round operands alike; words have no
    /// tolerance.
    double tolerance;
    /// A factor of the loss's gradient, as a training in fp16 has; none: the step has none.
    std::optional<float> loss_scale = {};
};

/// What a kernel or a copy wrote into one tensor on two devices, given the same inputs.
struct TensorComparison {
    std::string operation;          ///< layer and role, as the plan names it: `norm2 backward`
    std::string kernel;             ///< or `copy`
    std::string tensor;             ///< the plan's name: `d conv2`, `conv2/weights gradient`
    std::vector<std::size_t> shape; ///< [batch, height, width, channels] of an activation
    ElementType type;
    Difference difference;
    std::array<double, 2> worst_values; ///< of element difference.worst
    std::array<bool, 2> worst_written; ///< false: the device wrote nothing there, and the value means nothing
    std::array<Precision, 2> operands{}; ///< that the devices have rounded a product's to
    double tolerance = 0; ///< the options', and where only one device rounds, or more than the other, what
                          ///< that changes: rounding_of() its operands
    bool same;            ///< within the tolerance
    std::size_t never_written = 0; ///< elements that no operation wrote on either device
    bool overflowed = false;       ///< an input of the operation has an infinity or NaN, so a NaN may follow

    /// Both devices have a NaN from finite numbers (an overflow of float32, or a fault of the kernel) or
    /// wrote nothing, so that their agreement proves nothing.
    bool unexplained() const { return never_written > 0 || (difference.both_nan > 0 && !overflowed); }
    std::vector<std::size_t> worst_index() const; ///< difference.worst in terms of `shape`
};

struct StepComparison {
    std::vector<TensorComparison> tensors; ///< in the order of the plan
    std::array<OperandParts, 2> operands;  ///< of the products of the step on each device
};

/// Runs the first step of a single tower's training level by level on both devices. After each level it
/// compares what the level wrote and continues with a's values on both, so that each kernel is judged alone
/// and no later kernel is blamed for its errors. Throws DeviceError.
StepComparison compare_step(Device& a, Device& b, const Recipe& recipe, const DataSource& data,
                            const LockstepOptions& options);

} // namespace towers
