#include "tests/engine/export/proto.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace towers::test {
namespace {

std::uint64_t take_varint(std::string_view& text) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (text.empty()) break;
        const auto byte = std::uint8_t(text.front());
        text.remove_prefix(1);
        value |= std::uint64_t(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    throw std::runtime_error("a number without end");
}

std::string_view take(std::string_view& text, std::uint64_t count) {
    if (count > text.size()) throw std::runtime_error("a field longer than its message");
    const std::string_view taken = text.substr(0, count);
    text.remove_prefix(count);
    return taken;
}

} // namespace

Message Message::read(std::string_view text) {
    Message message;
    while (!text.empty()) {
        const std::uint64_t key = take_varint(text);
        const auto field = unsigned(key >> 3);
        if ((key & 7) == 0)
            message.wholes.emplace(field, take_varint(text));
        else if ((key & 7) == 2)
            message.bytes.emplace(field, take(text, take_varint(text)));
        else if ((key & 7) == 5)
            message.bytes.emplace(field, take(text, 4));
        else
            throw std::runtime_error("a wire type that is not used");
    }
    return message;
}

std::string_view Message::text(unsigned field) const {
    const auto found = bytes.find(field);
    return found == bytes.end() ? std::string_view() : found->second;
}

std::uint64_t Message::whole(unsigned field) const {
    const auto found = wholes.find(field);
    return found == wholes.end() ? 0 : found->second;
}

std::vector<Message> Message::messages(unsigned field) const {
    std::vector<Message> all;
    const auto [first, last] = bytes.equal_range(field);
    std::transform(first, last, std::back_inserter(all), [](const auto& each) { return read(each.second); });
    return all;
}

float OnnxTensor::at(std::size_t index) const {
    float value = 0;
    std::memcpy(&value, raw.substr(index * sizeof(value), sizeof(value)).data(), sizeof(value));
    return value;
}

OnnxModel OnnxModel::read(std::string_view file) {
    OnnxModel model;
    const Message whole = Message::read(file);
    model.text = whole.text(6);
    for (const Message& entry : whole.messages(14)) model.facts.emplace(entry.text(1), entry.text(2));
    const Message graph = Message::read(whole.text(7));
    for (const Message& each : graph.messages(5)) {
        OnnxTensor tensor{.type = unsigned(each.whole(2)), .raw = each.text(9)};
        const auto [first, last] = each.wholes.equal_range(1);
        for (auto size = first; size != last; ++size) tensor.shape.push_back(std::int64_t(size->second));
        model.tensors.emplace(each.text(8), tensor);
    }
    const auto texts = [](const Message& message, unsigned field) {
        std::vector<std::string> all;
        const auto [first, last] = message.bytes.equal_range(field);
        std::transform(first, last, std::back_inserter(all),
                       [](const auto& each) { return std::string(each.second); });
        return all;
    };
    for (const Message& each : graph.messages(1)) {
        OnnxNode node{.kind = std::string(each.text(4)),
                      .name = std::string(each.text(3)),
                      .inputs = texts(each, 1),
                      .outputs = texts(each, 2)};
        for (const Message& attribute : each.messages(5))
            node.attributes.emplace(attribute.text(1), attribute);
        model.nodes.push_back(std::move(node));
    }
    for (const Message& each : graph.messages(11)) model.inputs.emplace_back(each.text(1));
    for (const Message& each : graph.messages(12)) model.outputs.emplace_back(each.text(1));
    return model;
}

const OnnxNode* OnnxModel::find(const std::string& name) const {
    const auto found = std::ranges::find(nodes, name, &OnnxNode::name);
    return found == nodes.end() ? nullptr : &*found;
}

} // namespace towers::test
