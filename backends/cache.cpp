#include "backends/cache.h"

#include <cstdlib>

namespace towers {

std::filesystem::path cache_folder() {
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    const char* const home = std::getenv("HOME");
    if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "towers";
    if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "towers";
    return {};
}

} // namespace towers
