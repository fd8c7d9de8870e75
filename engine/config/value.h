// A recipe's values as a tree, each with its place in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace towers {

struct Value {
    using Array = std::vector<Value>;
    struct Entry;
    using Table = std::vector<Entry>; ///< sorted by key

    std::variant<bool, std::int64_t, double, std::string, Array, Table> data;
    unsigned line = 0;

    template<class T>
    const T* as() const {
        return std::get_if<T>(&data);
    }
    template<class T>
    T* as() {
        return std::get_if<T>(&data);
    }
    /// Of a table; null when there is none.
    const Value* find(std::string_view key) const;
    /// As TOML writes it, for messages.
    std::string text() const;
};

/// Not a std::pair: that asks, while it is being made, whether Value can be destroyed, which depends on it.
struct Value::Entry {
    Entry(std::string key, Value value) : first(std::move(key)), second(std::move(value)) {}
    std::string first;
    Value second;
};

/// Where a value stands, for messages: `file:line`, or that it came by --set, which gives line 0.
std::string place_of(const std::string& file, unsigned line);

/// A table as TOML, which parse_toml() reads back; tables' keys in their order, one a line.
std::string write_toml(const Value& table);

/// Reads TOML. `source` is the file's name, for messages: UsageError `source:line: what is wrong`.
Value parse_toml(std::string_view text, const std::string& source);

} // namespace towers
