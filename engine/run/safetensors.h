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

/// Names are unique across all types.
struct TensorFile {
    std::map<std::string, Tensor> tensors; ///< float32, by name, UTF-8
    std::map<std::string, std::string> metadata;
    std::map<std::string, TensorOf<std::uint32_t>> words;
    std::map<std::string, TensorOf<std::uint8_t>> bytes;
};

/// Chooses tensors by name.
using TensorFilter = std::function<bool(const std::string&)>;

/// Reads the tensors that `wanted` chooses, or all. The others may have any type. Throws InputError if the
/// file cannot be read or breaks the format, a wanted tensor has none of TensorFile's types, or the tensors'
/// checksum, if the file has one, is wrong. Whatever the header says, reads and allocates at most a small
/// multiple of the file's size.
TensorFile read_safetensors(const std::filesystem::path& path, const TensorFilter& wanted = {});

/// Writes the file atomically. After an InputError (full disk, no permission, more names than
/// read_safetensors() accepts) an earlier file of this name is unchanged. Adds `tensors_checksum` to the
/// metadata, the Checksum of all tensors' bytes in the order of the file; read_safetensors() removes it
/// again. Throws std::invalid_argument if a tensor's shape and number of values disagree or its name is
/// taken, such as `__metadata__`.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

} // namespace towers
