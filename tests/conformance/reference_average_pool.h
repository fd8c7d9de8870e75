// What average pooling should compute; see reference.h.
#pragma once

#include "tests/conformance/reference.h"

namespace towers::reference {

Values average_pool(const AveragePoolShape& shape, const Values& x);
Values average_pool_gradient(const AveragePoolShape& shape, const Values& dy);

} // namespace towers::reference
