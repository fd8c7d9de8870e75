// Fuses operations with their neighbours, which saves passes over memory.
#pragma once

#include "engine/plan/plan.h"

namespace towers {

/// - The operation that makes a ReLU's input also does the ReLU, if nothing else reads that input.
/// - A batch norm's backward also masks the gradient of its ReLU, if nothing else reads the masked gradient.
/// - Otherwise the operation that makes a gradient masks it, if it can. A max pool between the two passes the
///   masked gradient on: a gradient goes to the largest of a window's ReLU outputs only.
/// - A batch norm also adds a residual, if nothing but the sum reads its output.
///
/// Changes no result, to the bit.
void fuse(Plan& plan);

} // namespace towers
