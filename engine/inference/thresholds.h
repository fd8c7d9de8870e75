// From which probability on a network with sigmoids gives an example a label: one for all classes, or a file
// of them, which people may edit.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// Of each class: `text` is a number from 0 to 1, or a file that write_thresholds() has written; empty:
/// usual_threshold. UsageError for a number out of range, InputError for a file that is none, lacks one of
/// the classes or names others.
std::vector<double> read_thresholds(const std::string& text, const std::vector<std::string>& classes);

/// Writes a JSON object with the threshold of each class by its name; `-` is standard output. InputError if
/// that fails.
void write_thresholds(const std::filesystem::path& path, std::span<const double> thresholds,
                      const std::vector<std::string>& classes);

} // namespace towers
