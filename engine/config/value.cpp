#include "engine/config/value.h"

#include "backends/error.h"
#include "engine/config/parse.h"
#include "engine/files/text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace towers {
namespace {

Value value_of(const toml::node& node, const std::string& source) {
    Value value;
    value.line = node.source().begin.line;
    if (const auto* table = node.as_table()) {
        Value::Table& entries = value.data.emplace<Value::Table>();
        for (const auto& [key, each] : *table)
            entries.emplace_back(std::string(key.str()), value_of(each, source));
    } else if (const auto* array = node.as_array()) {
        Value::Array& elements = value.data.emplace<Value::Array>();
        for (const toml::node& each : *array) elements.push_back(value_of(each, source));
    } else if (const auto* text = node.as_string()) {
        value.data = text->get();
    } else if (const auto* whole = node.as_integer()) {
        value.data = whole->get();
    } else if (const auto* number = node.as_floating_point()) {
        value.data = number->get();
    } else if (const auto* flag = node.as_boolean()) {
        value.data = flag->get();
    } else {
        throw UsageError(fmt::format("{}:{}: dates and times have no use in a recipe; write text or a number",
                                     source, value.line));
    }
    return value;
}

/// The text in quotes, escaped for TOML.
std::string quoted(const std::string& words) {
    std::string text;
    for (const char c : words) {
        if (c == '"' || c == '\\')
            text += {'\\', c};
        else if (const auto code = static_cast<unsigned char>(c); code < 0x20 || code == 0x7f)
            text += fmt::format("\\u{:04X}", code);
        else
            text += c;
    }
    return '"' + text + '"';
}

std::string key_text(const std::string& key) {
    const auto bare = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-';
    };
    return !key.empty() && std::ranges::all_of(key, bare) ? key : quoted(key);
}

bool holds_tables(const Value& value) {
    const auto* const list = value.as<Value::Array>();
    return list != nullptr && !list->empty() && list->front().as<Value::Table>() != nullptr;
}

void write_table(const Value& table, const std::string& path, std::string& text) {
    for (const auto& [key, value] : *table.as<Value::Table>()) {
        if (value.as<Value::Table>() != nullptr) continue;
        text += key_text(key) + " = ";
        if (holds_tables(value)) {
            text += "[\n";
            for (const Value& each : *value.as<Value::Array>()) text += "  " + each.text() + ",\n";
            text += "]\n";
        } else {
            text += value.text() + '\n';
        }
    }
    for (const auto& [key, value] : *table.as<Value::Table>()) {
        if (value.as<Value::Table>() == nullptr) continue;
        const std::string inner = path.empty() ? key_text(key) : path + '.' + key_text(key);
        const auto is_table = [](const auto& each) {
            return each.second.template as<Value::Table>() != nullptr;
        };
        const auto& entries = *value.as<Value::Table>();
        if (entries.empty() || !std::ranges::all_of(entries, is_table)) // otherwise its tables imply the key
            text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", inner);
        write_table(value, inner, text);
    }
}

/// What is wrong with the syntax and, where the library does not say, what would be right.
std::string describe(std::string_view what) {
    if (what.find("control characters") != what.npos)
        return "text in quotes does not end on its line; add the closing quote";
    if (what.find("could not determine value type") != what.npos)
        return "this is no value; write \"text\", a number, true, false, [ a list ] or { a = table }";
    return std::string(what);
}

} // namespace

std::string place_of(const std::string& file, unsigned line) {
    return line == 0 ? file + " with --set" : fmt::format("{}:{}", file, line);
}

std::string write_toml(const Value& table) {
    std::string text;
    write_table(table, "", text);
    return text;
}

const Value* Value::find(std::string_view key) const {
    if (const Table* table = as<Table>())
        for (const auto& [name, value] : *table)
            if (name == key) return &value;
    return nullptr;
}

std::string Value::text() const {
    if (const auto* flag = as<bool>()) return *flag ? "true" : "false";
    if (const auto* whole = as<std::int64_t>()) return std::to_string(*whole);
    if (const auto* number = as<double>()) {
        const std::string shortest = fmt::format("{}", *number);
        return shortest.find_first_of(".en") == std::string::npos ? shortest + ".0" : shortest;
    }
    if (const auto* words = as<std::string>()) return quoted(*words);
    if (const auto* array = as<Array>()) return fmt::format("[{}]", listed(*array, &Value::text));
    const auto entry = [](const Entry& each) { return key_text(each.first) + " = " + each.second.text(); };
    return fmt::format("{{ {} }}", listed(*as<Table>(), entry));
}

Value parse_toml(std::string_view text, const std::string& source) {
    try {
        return value_of(parse_tables(text), source);
    } catch (const toml::parse_error& error) {
        throw UsageError(
            fmt::format("{}:{}: {}", source, error.source().begin.line, describe(error.description())));
    }
}

} // namespace towers
