// What the runtime's functions begin with, and the handles that they give.
#pragma once

#include "tests/emulated_cuda/cards.h"
#include "tests/emulated_cuda/faults.h"
#include "tests/emulated_cuda/streams.h"

#include <cuda_runtime_api.h>
#include <set>

namespace emulated {

inline thread_local int current = 0;
inline thread_local cudaError_t last_error = cudaSuccess;

inline cudaError_t refuse(cudaError_t error) {
    last_error = error;
    return error;
}

/// The state behind a handle that is live, else null.
inline std::set<const void*>& handles = *new std::set<const void*>;
template<class State>
State* state_of(const void* handle) {
    return handles.contains(handle) ? static_cast<State*>(const_cast<void*>(handle)) : nullptr;
}
template<class Handle, class State>
Handle handle_of(State* state) {
    handles.insert(state);
    return reinterpret_cast<Handle>(state);
}

} // namespace emulated

// Every function first fails as asked, then keeps the cards out.
#define BEGIN_FOR(device)                                                                                    \
    if (const cudaError_t asked = asked_error(__func__, device); asked != cudaSuccess) return refuse(asked); \
    [[maybe_unused]] auto held = lock()
#define BEGIN BEGIN_FOR(current)
#define BEGIN_FOR_NONE BEGIN_FOR(-1)
#define NEED(condition, error)                                                                               \
    if (!(condition)) return refuse(error)
