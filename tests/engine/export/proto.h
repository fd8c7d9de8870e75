// A walk through an ONNX file for tests, which knows of protobuf's encoding only what it needs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towers::test {

/// A message's fields by number: whole numbers, and the bytes of what has a length.
struct Message {
    std::multimap<unsigned, std::uint64_t> wholes;
    std::multimap<unsigned, std::string_view> bytes;

    /// Throws std::runtime_error if the bytes are no message.
    static Message read(std::string_view text);

    std::string_view text(unsigned field) const; ///< "" if there is none
    std::uint64_t whole(unsigned field) const;   ///< 0 likewise
    std::vector<Message> messages(unsigned field) const;
};

struct OnnxTensor {
    std::vector<std::int64_t> shape;
    unsigned type = 0;
    std::string_view raw;

    float at(std::size_t index) const;
};

struct OnnxNode {
    std::string kind, name;
    std::vector<std::string> inputs, outputs;
    std::map<std::string, Message> attributes;
};

struct OnnxModel {
    std::map<std::string, OnnxTensor> tensors;
    std::vector<OnnxNode> nodes;
    std::vector<std::string> inputs, outputs;
    std::map<std::string, std::string> facts;
    std::string text;

    /// `file` must outlive the model.
    static OnnxModel read(std::string_view file);
    const OnnxNode* find(const std::string& name) const; ///< null if there is no such node
};

} // namespace towers::test
