// Lets operations do what their neighbours would do in a pass of their own over memory.
#pragma once

#include "engine/plan/plan.h"

namespace towers {

/// A ReLU is done by the operation that makes its input, if nothing else reads that. Its gradient's mask is
/// done by the operation that makes the gradient (moved before a max pool's, which then passes on the masked
/// gradient: only a window's winner gets any, and the largest of a ReLU's outputs is one of them), or by
/// those that read it. Changes no result, to the bit.
void fuse_relus(Plan& plan);

} // namespace towers
