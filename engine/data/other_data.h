// Data that is not what `towers` reads, so that a message can say what it is.
#pragma once

#include <filesystem>
#include <string>

namespace towers {

/// What lies at `path` in place of a folder of CIFAR-10's binary files, and what to do: `is a gzip archive;
/// unpack it
/// ...`. "" if it is nothing known. Never throws for what cannot be read.
std::string describe_other_data(const std::filesystem::path& path);

} // namespace towers
