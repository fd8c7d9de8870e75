#include "backends/cuda/cuda_backend.h"

namespace towers {
namespace {

class AbsentBackend final : public Backend {
public:
    std::string_view name() const override { return "cuda"; }

    Listing list(const OpenOptions&) const override {
        return {{},
                "this program was built without CUDA; build it with -DTOWERS_CUDA=ON where nvcc 12 or newer "
                "is on PATH"};
    }

    std::unique_ptr<Device> open(unsigned, const OpenOptions& options) const override {
        throw DeviceError(list(options).absence);
    }
};

} // namespace

const Backend& cuda_backend() {
    static const AbsentBackend backend;
    return backend;
}

} // namespace towers
