// Which TFRecord files a source names.
#pragma once

#include "engine/data/formats.h"

#include <filesystem>
#include <string>
#include <vector>

namespace towers {

/// The source's files of the request's split, by the words in their names; all files if the source is for
/// this split alone and no name tells them apart, or if it is a single file to train on. Sorted. Never
/// throws.
std::vector<std::filesystem::path> tf_record_files(const DataRequest& request);

/// Whether a file is called like one of records.
bool is_named_tfrecord(const std::string& name);

} // namespace towers
