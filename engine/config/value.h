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
    /// The value of a table's key; null if this is no table or lacks the key.
    const Value* find(std::string_view key) const;
    /// The value as TOML, for messages.
    std::string text() const;
};

/// Not a std::pair, which needs to know whether Value can be destroyed before Value is complete.
struct Value::Entry {
    Entry(std::string key, Value value) : first(std::move(key)), second(std::move(value)) {}
    std::string first;
    Value second;
};

/// Where a value was given, for messages: `file:line`, or --set for line 0.
std::string place_of(const std::string& file, unsigned line);

/// Writes a table as TOML that parse_toml() reads back, one key a line, sorted.
std::string write_toml(const Value& table);

/// Reads TOML. Throws UsageError, `source:line: what is wrong`; `source` is the file's name.
Value parse_toml(std::string_view text, const std::string& source);

} // namespace towers
