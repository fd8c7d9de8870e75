// Statistics of a driver's compiler about the kernels. Nothing runs, so the hardware need not be present.
#pragma once

#include "backends/device.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace towers::vulkan {

/// A compiled program; a pipeline may have several.
struct Executable {
    std::string name;
    unsigned subgroup_size = 0;
    std::map<std::string, double> statistics; ///< by the driver's own names; empty if it provides none
};

class Compiler {
public:
    /// Throws DeviceError.
    explicit Compiler(unsigned device_index);
    ~Compiler();

    const DeviceInfo& device() const;
    /// Every pipeline that the device may be asked to run, by kernel and tile: `conv2d_forward 64x16`.
    std::vector<std::string> pipelines() const;
    /// Throws DeviceError.
    std::vector<Executable> compile(const std::string& pipeline);

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace towers::vulkan
