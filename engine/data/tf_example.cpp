#include "engine/data/tf_example.h"

#include <functional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <utility>

namespace towers {

namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;
using Wire = protozero::pbf_wire_type;

// The numbers of the fields in example.proto and feature.proto
constexpr protozero::pbf_tag_type features = 1, feature = 1, key = 1, value = 2;
constexpr protozero::pbf_tag_type bytes_list = 1, float_list = 2, int64_list = 3, values = 1;

std::string_view text(protozero::data_view view) { return {view.data(), view.size()}; }

TfFeature read_feature(pbf_reader message) {
    TfFeature read;
    while (message.next()) {
        const auto kind = message.tag();
        if (message.wire_type() != Wire::length_delimited) {
            message.skip();
            continue;
        }
        pbf_reader list = message.get_message();
        while (list.next(values)) {
            const bool packed = list.wire_type() == Wire::length_delimited;
            if (kind == bytes_list && packed)
                read.bytes.push_back(text(list.get_view()));
            else if (kind == float_list && packed)
                for (const float each : list.get_packed_float()) read.real.push_back(each);
            else if (kind == float_list && list.wire_type() == Wire::fixed32)
                read.real.push_back(list.get_float());
            else if (kind == int64_list && packed)
                for (const std::int64_t each : list.get_packed_int64()) read.whole.push_back(each);
            else if (kind == int64_list && list.wire_type() == Wire::varint)
                read.whole.push_back(list.get_int64());
            else
                list.skip();
        }
    }
    return read;
}

} // namespace

TfExample read_tf_example(std::span<const std::uint8_t> message) {
    TfExample example;
    pbf_reader outer(reinterpret_cast<const char*>(message.data()), message.size());
    while (outer.next(features, Wire::length_delimited)) {
        pbf_reader map = outer.get_message();
        while (map.next(feature, Wire::length_delimited)) {
            pbf_reader entry = map.get_message();
            std::string name;
            TfFeature read;
            while (entry.next()) {
                if (entry.tag_and_type() == protozero::tag_and_type(key, Wire::length_delimited))
                    name = entry.get_string();
                else if (entry.tag_and_type() == protozero::tag_and_type(value, Wire::length_delimited))
                    read = read_feature(entry.get_message());
                else
                    entry.skip();
            }
            example[std::move(name)] = std::move(read);
        }
    }
    return example;
}

std::string write_tf_example(const std::map<std::string, std::string_view>& bytes,
                             const std::map<std::string, std::int64_t>& whole) {
    std::string map;
    pbf_writer writer(map);
    const auto add = [&](const std::string& name, protozero::pbf_tag_type kind, const auto& add_value) {
        std::string list, one;
        pbf_writer list_writer(list), one_writer(one);
        add_value(list_writer);
        one_writer.add_message(kind, list);
        std::string entry;
        pbf_writer entry_writer(entry);
        entry_writer.add_string(key, name);
        entry_writer.add_message(value, one);
        writer.add_message(feature, entry);
    };
    for (const auto& [name, each] : bytes)
        add(name, bytes_list,
            [&view = each](pbf_writer& list) { list.add_bytes(values, view.data(), view.size()); });
    for (const auto& [name, each] : whole)
        add(name, int64_list,
            [&number = each](pbf_writer& list) { list.add_packed_int64(values, &number, &number + 1); });
    std::string message;
    pbf_writer(message).add_message(features, map);
    return message;
}

} // namespace towers
