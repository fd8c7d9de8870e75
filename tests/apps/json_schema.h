// Checks JSON files against the schemas that describe them.
#pragma once

#include <filesystem>
#include <string>

namespace towers::test {

/// The errors that a JSON schema validator finds in the file; "" if there are none or there is no such
/// validator. `schema`: a file in apps/towers.
std::string schema_errors(const std::string& schema, const std::filesystem::path& file);

} // namespace towers::test
