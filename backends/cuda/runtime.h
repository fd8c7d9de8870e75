// The CUDA runtime as this backend uses it: errors become exceptions, handles free themselves.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <memory>
#include <stdexcept>

namespace towers::cuda {

/// The runtime refused a call or a kernel failed; the message is the runtime's.
class RuntimeError : public std::runtime_error {
public:
    explicit RuntimeError(cudaError_t error)
        : std::runtime_error(fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error))),
          code_(error) {}
    cudaError_t code() const { return code_; }

private:
    cudaError_t code_;
};

inline void check(cudaError_t result) {
    if (result == cudaSuccess) return;
    cudaGetLastError(); // clears the error, so that it is reported only once
    throw RuntimeError(result);
}

template<auto destroy>
struct Destroy {
    template<class T>
    void operator()(T* handle) const {
        destroy(handle);
    }
};
using Stream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using Event = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;
using Graph = std::unique_ptr<CUgraph_st, Destroy<cudaGraphDestroy>>;
using GraphExec = std::unique_ptr<CUgraphExec_st, Destroy<cudaGraphExecDestroy>>;

inline Event make_event(unsigned flags) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, flags));
    return Event(event);
}

} // namespace towers::cuda
