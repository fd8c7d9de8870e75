// Where the program keeps what it would only compute again.
#pragma once

#include <filesystem>

namespace towers {

/// The program's folder in the user's cache, which may not exist yet; empty: the user has none.
std::filesystem::path cache_folder();

} // namespace towers
