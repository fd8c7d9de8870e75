#pragma once

#include "engine/data/source.h"

#include <filesystem>
#include <string>
#include <vector>

namespace towers {

/// The folders of classes. A '/' becomes '_', and numbers get zeros in front, so that their folders have
/// their order. InputError if two classes would have one folder.
std::vector<std::string> folder_names(const std::vector<std::string>& classes);

/// Writes each example as FOLDER/CLASS/NUMBER.png, with the folder_names() of `classes`, of which the data
/// set may have the first ones only. Creates the folders that it needs. Throws InputError if a file is there
/// already or cannot be written. Returns once all are on the disk.
void write_picture_files(const DataSource& data, const std::vector<std::string>& classes,
                         const std::filesystem::path& folder);

} // namespace towers
