// The content of messages between ranks.
#pragma once

#include "engine/ranks/courier.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace towers {

/// What ranks tell each other once, as JSON. Text that is not UTF-8 is replaced.
inline Bytes to_bytes(const nlohmann::json& message) {
    const std::string text = message.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

inline nlohmann::json to_json(const Bytes& bytes) {
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    return nlohmann::json::parse(text, text + bytes.size());
}

/// Writes plain values one after another, each at a multiple of 8 bytes.
class Writer {
public:
    template<class T>
    void put(std::span<const T> values) {
        const std::size_t begin = bytes_.size();
        bytes_.resize(begin + (values.size_bytes() + 7) / 8 * 8);
        if (!values.empty()) std::memcpy(bytes_.data() + begin, values.data(), values.size_bytes());
    }
    template<class T>
    void put(const T& value) {
        put(std::span<const T>(&value, 1));
    }
    void put(std::string_view text) {
        put(std::uint64_t(text.size()));
        put(std::span(text.data(), text.size()));
    }
    Bytes take() { return std::move(bytes_); }

private:
    Bytes bytes_;
};

/// Reads them again. Peers are the same program, so no more than the message's end is checked. `bytes` must
/// stay.
class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template<class T>
    std::span<const T> get(std::size_t count) {
        if (count > (bytes_.size() - at_) / sizeof(T))
            throw std::runtime_error("a message between ranks ends too early");
        const std::span<const std::byte> its = bytes_.subspan(at_, count * sizeof(T));
        at_ = std::min(bytes_.size(), at_ + (its.size() + 7) / 8 * 8);
        return {reinterpret_cast<const T*>(its.data()), count};
    }
    template<class T>
    T get() {
        return get<T>(1)[0];
    }
    std::string text() {
        const std::span<const char> its = get<char>(get<std::uint64_t>());
        return {its.begin(), its.end()};
    }
    bool has_more() const { return at_ < bytes_.size(); }

private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

} // namespace towers
