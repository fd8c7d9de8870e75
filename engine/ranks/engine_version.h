// What tells programs apart whose ranks would not compute the same run.
#pragma once

#include <string_view>

namespace towers {

/// The same for all builds from the same sources of the engine; kernels_version() is that of the kernels.
std::string_view engine_version();

} // namespace towers
