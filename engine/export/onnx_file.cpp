#include "engine/export/onnx_file.h"

#include "backends/error.h"
#include "engine/files/output.h"
#include "engine/layers/computation.h"

#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <protozero/pbf_writer.hpp>

namespace towers {
namespace {

using protozero::pbf_writer;
using Tag = protozero::pbf_tag_type;

constexpr std::int64_t ir_version = 8; // of ONNX 1.13, the first with this operator set

// The numbers of the fields in onnx.proto, by message
namespace model {
constexpr Tag ir_version = 1, producer_name = 2, producer_version = 3, doc_string = 6, graph = 7,
              opset_import = 8, metadata_props = 14;
}
namespace operator_set_id {
constexpr Tag version = 2;
}
namespace string_entry {
constexpr Tag key = 1, value = 2;
}
namespace graph {
constexpr Tag node = 1, name = 2, initializer = 5, input = 11, output = 12;
}
namespace node {
constexpr Tag input = 1, output = 2, name = 3, op_type = 4, attribute = 5;
}
namespace attribute {
constexpr Tag name = 1, f = 2, i = 3, s = 4, ints = 8, type = 20;
enum Type { FLOAT = 1, INT = 2, STRING = 3, INTS = 7 };
} // namespace attribute
namespace tensor {
constexpr Tag dims = 1, data_type = 2, name = 8, raw_data = 9;
}
namespace value_info {
constexpr Tag name = 1, type = 2;
}
namespace type_of {
constexpr Tag tensor_type = 1, elem_type = 1, shape = 2;
}
namespace shape {
constexpr Tag dim = 1, dim_value = 1, dim_param = 2;
}

std::string encode(const std::string& name, const OnnxFile::Attribute& value) {
    std::string message;
    pbf_writer writer(message);
    writer.add_string(attribute::name, name);
    std::visit(Cases{[&](std::int64_t whole) {
                         writer.add_int64(attribute::i, whole);
                         writer.add_enum(attribute::type, attribute::INT);
                     },
                     [&](float number) {
                         writer.add_float(attribute::f, number);
                         writer.add_enum(attribute::type, attribute::FLOAT);
                     },
                     [&](const std::string& text) {
                         writer.add_bytes(attribute::s, text);
                         writer.add_enum(attribute::type, attribute::STRING);
                     },
                     [&](const std::vector<std::int64_t>& wholes) {
                         for (const std::int64_t each : wholes) writer.add_int64(attribute::ints, each);
                         writer.add_enum(attribute::type, attribute::INTS);
                     }},
               value);
    return message;
}

std::string shape_message(const OnnxFile::Dimensions& dimensions) {
    std::string message;
    pbf_writer writer(message);
    for (const std::int64_t size : dimensions) {
        pbf_writer dim(writer, shape::dim);
        if (size < 0)
            dim.add_string(shape::dim_param, "batch");
        else
            dim.add_int64(shape::dim_value, size);
    }
    return message;
}

std::string value_info_of(const std::string& name, OnnxFile::Element element,
                          const OnnxFile::Dimensions& dimensions) {
    std::string tensor_type, type, message;
    pbf_writer(tensor_type).add_enum(type_of::elem_type, int(element));
    pbf_writer(tensor_type).add_message(type_of::shape, shape_message(dimensions));
    pbf_writer(type).add_message(type_of::tensor_type, tensor_type);
    pbf_writer(message).add_string(value_info::name, name);
    pbf_writer(message).add_message(value_info::type, type);
    return message;
}

std::string tensor_header(const std::string& name, OnnxFile::Element element,
                          const OnnxFile::Dimensions& shape) {
    std::string header;
    pbf_writer writer(header);
    for (const std::int64_t size : shape) writer.add_int64(tensor::dims, size);
    writer.add_enum(tensor::data_type, int(element));
    writer.add_string(tensor::name, name);
    return header;
}

template<class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
}

/// The key and length before a field of so many bytes
std::string start_of_field(Tag tag, std::size_t bytes) {
    std::string start;
    protozero::write_varint(std::back_inserter(start), (std::uint64_t(tag) << 3) | 2);
    protozero::write_varint(std::back_inserter(start), bytes);
    return start;
}

} // namespace

void OnnxFile::add_node(const std::string& kind, const std::string& name,
                        const std::vector<std::string>& inputs, const std::string& output,
                        const Attributes& attributes) {
    std::string message;
    pbf_writer writer(message);
    for (const std::string& each : inputs) writer.add_string(node::input, each);
    writer.add_string(node::output, output);
    writer.add_string(node::name, name);
    writer.add_string(node::op_type, kind);
    for (const auto& [key, value] : attributes) writer.add_message(node::attribute, encode(key, value));
    pbf_writer(nodes_).add_message(graph::node, message);
}

void OnnxFile::add_input(const std::string& name, Element element, const Dimensions& shape) {
    pbf_writer(inputs_).add_message(graph::input, value_info_of(name, element, shape));
}

void OnnxFile::add_output(const std::string& name, Element element, const Dimensions& shape) {
    pbf_writer(outputs_).add_message(graph::output, value_info_of(name, element, shape));
}

void OnnxFile::add_constant(const std::string& name, const Dimensions& shape, std::vector<float> values) {
    tensors_.push_back({tensor_header(name, Element::float32, shape), bytes_of(values), {}, {}});
}

void OnnxFile::add_constant(const std::string& name, const std::vector<std::int64_t>& values) {
    tensors_.push_back(
        {tensor_header(name, Element::int64, {std::int64_t(values.size())}), bytes_of(values), {}, {}});
}

void OnnxFile::add_tensor(const std::string& name, const Dimensions& shape, std::span<const float> values,
                          std::function<std::vector<float>(std::span<const float>)> reordered) {
    tensors_.push_back({tensor_header(name, Element::float32, shape), {}, values, std::move(reordered)});
}

void OnnxFile::write(const std::filesystem::path& path, const Description& description) const {
    std::string graph_start = nodes_;
    pbf_writer(graph_start).add_string(graph::name, description.graph_name);
    const std::string graph_end = inputs_ + outputs_;

    struct Part {
        std::string start;
        const Tensor* tensor;
    };
    std::vector<Part> parts;
    std::size_t graph_bytes = graph_start.size() + graph_end.size();
    for (const Tensor& each : tensors_) {
        const std::string values = start_of_field(tensor::raw_data, each.bytes());
        const std::size_t bytes = each.header.size() + values.size() + each.bytes();
        parts.push_back({start_of_field(graph::initializer, bytes) + each.header + values, &each});
        graph_bytes += parts.back().start.size() + each.bytes();
    }

    std::string head;
    pbf_writer writer(head);
    writer.add_int64(model::ir_version, ir_version);
    writer.add_string(model::producer_name, "towers");
    writer.add_string(model::producer_version, description.version);
    writer.add_string(model::doc_string, description.text);
    pbf_writer(writer, model::opset_import).add_int64(operator_set_id::version, operator_set);
    for (const auto& [key, value] : description.facts) {
        pbf_writer entry(writer, model::metadata_props);
        entry.add_string(string_entry::key, key);
        entry.add_string(string_entry::value, value);
    }
    head += start_of_field(model::graph, graph_bytes);
    if (head.size() + graph_bytes > std::size_t(std::numeric_limits<std::int32_t>::max()))
        throw InputError(
            fmt::format("{}: the model would have {} bytes, and ONNX files have less than 2 GiB; "
                        "use the checkpoint itself",
                        path.string(), head.size() + graph_bytes));

    OutputFile file(path);
    file.write(head);
    file.write(graph_start);
    for (const auto& [start, tensor] : parts) {
        file.write(start);
        if (!tensor->own.empty())
            file.write(tensor->own);
        else if (tensor->reordered)
            file.write(std::as_bytes(std::span<const float>(tensor->reordered(tensor->values))));
        else
            file.write(std::as_bytes(tensor->values));
    }
    file.write(graph_end);
    file.commit();
}

} // namespace towers
