#include "engine/model/value.h"

#include "engine/error.h"

#include <fmt/format.h>
#include <toml++/toml.h>

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

} // namespace

const Value* Value::find(std::string_view key) const {
    if (const Table* table = as<Table>())
        for (const auto& [name, value] : *table)
            if (name == key) return &value;
    return nullptr;
}

std::string Value::text() const {
    const auto list = [](const auto& elements, const auto& each) {
        std::string joined;
        for (const auto& element : elements) joined += (joined.empty() ? "" : ", ") + each(element);
        return joined;
    };
    if (const auto* flag = as<bool>()) return *flag ? "true" : "false";
    if (const auto* whole = as<std::int64_t>()) return std::to_string(*whole);
    if (const auto* number = as<double>()) return fmt::format("{}", *number);
    if (const auto* words = as<std::string>()) return '"' + *words + '"';
    if (const auto* array = as<Array>())
        return '[' + list(*array, [](const Value& each) { return each.text(); }) + ']';
    return "{ " +
           list(*as<Table>(), [](const auto& each) { return each.first + " = " + each.second.text(); }) +
           " }";
}

Value parse_toml(std::string_view text, const std::string& source) {
    try {
        return value_of(toml::parse(text), source);
    } catch (const toml::parse_error& error) {
        throw UsageError(fmt::format("{}:{}: {}", source, error.source().begin.line, error.description()));
    }
}

} // namespace towers
