// Named tensors in a file: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace towers {

struct Tensor {
    std::vector<std::size_t> shape; ///< outermost first; empty for a scalar
    std::vector<float> values;      ///< row-major, as many as the product of `shape`
};

struct TensorFile {
    std::map<std::string, Tensor> tensors; ///< by name, UTF-8
    std::map<std::string, std::string> metadata;
};

/// Chooses tensors by their names.
using TensorFilter = std::function<bool(const std::string&)>;

/// Reads a file's float32 tensors: those that `wanted` chooses, or all. The others may be of any type.
/// InputError when the file cannot be read, a tensor to read holds another type of number, or the file breaks
/// the format in any way. No header can make it read or allocate more than a small multiple of the file's
/// size.
TensorFile read_safetensors(const std::filesystem::path& path, const TensorFilter& wanted = {});

/// Writes the file atomically: on an InputError (full disk, no permission) an earlier file of that name is
/// unchanged. std::invalid_argument when a tensor's shape and number of values disagree or its name is
/// `__metadata__`.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

} // namespace towers
