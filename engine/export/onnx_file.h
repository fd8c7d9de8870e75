// An ONNX model as a file: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace towers {

/// Collects a graph's nodes and tensors, then writes the file. Tensors are not copied, so a large model needs
/// no second one in memory.
class OnnxFile {
public:
    using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>;
    using Attributes = std::vector<std::pair<std::string, Attribute>>;
    using Dimensions = std::vector<std::int64_t>; ///< -1: the batch, of any size
    enum class Element { float32 = 1, uint8 = 2, int64 = 7 };

    /// The operator set that nodes mean; the oldest whose Resize takes the sizes of some axes alone.
    static constexpr std::int64_t operator_set = 18;

    /// A node with one output. An empty input is one that is left out.
    void add_node(const std::string& kind, const std::string& name, const std::vector<std::string>& inputs,
                  const std::string& output, const Attributes& attributes = {});
    void add_input(const std::string& name, Element element, const Dimensions& shape);
    void add_output(const std::string& name, Element element, const Dimensions& shape);
    void add_constant(const std::string& name, const Dimensions& shape, std::vector<float> values);
    void add_constant(const std::string& name, const std::vector<std::int64_t>& values);
    /// `values` must outlive the file. `reordered`: makes the values in the order of `shape` when they are
    /// written.
    void add_tensor(const std::string& name, const Dimensions& shape, std::span<const float> values,
                    std::function<std::vector<float>(std::span<const float>)> reordered = {});

    struct Description {
        std::string graph_name, text, version; ///< version: of this program
        std::vector<std::pair<std::string, std::string>> facts;
    };
    /// Writes the file as OutputFile does. Throws InputError if that fails, or for more than the 2 GiB that
    /// ONNX files can have.
    void write(const std::filesystem::path& path, const Description& description) const;

private:
    struct Tensor {
        std::string header; ///< all fields but the values
        std::vector<std::byte> own;
        std::span<const float> values; ///< if `own` is empty
        std::function<std::vector<float>(std::span<const float>)> reordered;

        std::size_t bytes() const { return own.empty() ? values.size_bytes() : own.size(); }
    };
    std::string nodes_, inputs_, outputs_; ///< encoded fields of the graph
    std::vector<Tensor> tensors_;
};

} // namespace towers
