// Lets operations do what their neighbours would do in a pass of their own over memory.
#pragma once

#include "engine/plan/plan.h"

namespace towers {

/// A ReLU is done by the operation that makes its input, if nothing else reads that. Its gradient's mask is
/// done by a batch norm's backward, if that made the ReLU's input and is all that reads the masked gradient.
/// Otherwise the operation that makes the gradient does it if it can (moved before a max pool's, which then
/// passes on the masked gradient: only a window's winner gets any, and the largest of a ReLU's outputs is one
/// of them).
///
/// A sum of two tensors is done by the batch norm that makes one of them, if nothing else reads that.
///
/// Changes no result, to the bit.
void fuse(Plan& plan);

} // namespace towers
