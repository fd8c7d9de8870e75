// Named tensors in a file: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace towers {

template<class T>
struct TensorOf {
    std::vector<std::size_t> shape; ///< outermost first; empty for a scalar
    std::vector<T> values;          ///< row-major, as many as the product of `shape`
};
using Tensor = TensorOf<float>;

/// No two tensors have the same name, whatever their types.
struct TensorFile {
    std::map<std::string, Tensor> tensors; ///< float32, by name, UTF-8
    std::map<std::string, std::string> metadata;
    std::map<std::string, TensorOf<std::uint32_t>> words;
    std::map<std::string, TensorOf<std::uint8_t>> bytes;
};

/// Chooses tensors by their names.
using TensorFilter = std::function<bool(const std::string&)>;

/// Reads a file's tensors: those that `wanted` chooses, or all. The others may be of any type.
/// InputError when the file cannot be read, a tensor to read is of none of TensorFile's types, the file
/// breaks the format in any way, or write_safetensors() wrote other tensors than it has. No header can make
/// it read or allocate more than a small multiple of the file's size.
TensorFile read_safetensors(const std::filesystem::path& path, const TensorFilter& wanted = {});

/// Writes the file atomically: on an InputError (full disk, no permission, more names than read_safetensors()
/// takes) an earlier file of that name is unchanged. The file's metadata get a `tensors_checksum`, see
/// Checksum: of each tensor's bytes, in the order of the file. read_safetensors() takes it out again.
/// std::invalid_argument when a tensor's shape and number of values disagree or its name is taken,
/// such as `__metadata__`.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

} // namespace towers
