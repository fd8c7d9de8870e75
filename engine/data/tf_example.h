// tf.train.Example (tensorflow/core/example/example.proto): the message in which TensorFlow's programs store
// an example: lists of values by name.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

struct TfFeature {
    std::vector<std::string_view> bytes;
    std::vector<std::int64_t> whole;
    std::vector<float> real;
};
using TfExample = std::map<std::string, TfFeature, std::less<>>;

/// Reads a message; its bytes must outlive the result. Throws std::runtime_error for what is none.
TfExample read_tf_example(std::span<const std::uint8_t> message);

/// The message of features with one value each.
std::string write_tf_example(const std::map<std::string, std::string_view>& bytes,
                             const std::map<std::string, std::int64_t>& whole);

} // namespace towers
