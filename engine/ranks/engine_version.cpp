#include "engine/ranks/engine_version.h"

namespace towers {

std::string_view engine_version() {
    return
#include "engine_version.inc"
        ;
}

} // namespace towers
