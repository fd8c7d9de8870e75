#include "engine/recipes/changes.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <map>

namespace towers {
namespace {

/// Merges the second table into the first, recursively.
void merge(Value& into, const Value& from) {
    for (const auto& [key, value] : *from.as<Value::Table>()) {
        auto* const table = into.as<Value::Table>();
        const auto entry = std::ranges::lower_bound(*table, key, {}, &Value::Entry::first);
        if (entry == table->end() || entry->first != key)
            table->emplace(entry, key, value);
        else if (value.as<Value::Table>() != nullptr && entry->second.as<Value::Table>() != nullptr)
            merge(entry->second, value);
        else if (entry->second.text() != value.text()) // an equal value keeps its line in the file
            entry->second = value;
    }
}

void set_lines(Value& value, unsigned line) {
    value.line = line;
    if (auto* table = value.as<Value::Table>())
        for (auto& [key, each] : *table) set_lines(each, line);
    if (auto* array = value.as<Value::Array>())
        for (Value& each : *array) set_lines(each, line);
}

/// Puts quotes around a value after = that is a single word, since a shell removes those that the user types.
std::string with_quotes(const std::string& change) {
    const std::string value = change.substr(1);
    const auto in_word = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
    if (value.empty() || !std::isalpha(static_cast<unsigned char>(value[0])) ||
        !std::ranges::all_of(value, in_word) || value == "true" || value == "false" || value == "inf" ||
        value == "nan")
        return change;
    return "=\"" + value + '"';
}

/// Removes the key that `path` names: nested tables with one key each.
void take_out(Value& recipe, const Value& path, const std::string& change) {
    const Value::Entry& step = path.as<Value::Table>()->front();
    Value::Table none;
    Value::Table& table = recipe.as<Value::Table>() != nullptr ? *recipe.as<Value::Table>() : none;
    const auto entry = std::ranges::find(table, step.first, &Value::Entry::first);
    if (entry == table.end()) {
        const std::string keys = listed(table, &Value::Entry::first);
        throw UsageError(fmt::format("--set '{}': there is no '{}' to take out; there is {}", change,
                                     step.first, keys.empty() ? "nothing" : keys));
    }
    if (step.second.as<Value::Table>() != nullptr)
        take_out(entry->second, step.second, change);
    else
        table.erase(entry);
}

} // namespace

/// The table of [[loss]] that a change of `path`, a dotted key, means; the path becomes a key of that table.
/// `given`: the change, for messages.
Value& find_loss(Value& recipe, std::string& path, const std::string& given) {
    Value::Table& top = *recipe.as<Value::Table>();
    auto entry = std::ranges::lower_bound(top, "loss", {}, &Value::Entry::first);
    if (entry == top.end() || entry->first != "loss")
        entry = top.emplace(entry, "loss", Value{Value::Array{}, 0});
    Value::Array* const heads = entry->second.as<Value::Array>();
    if (heads == nullptr) return recipe; // reading it tells what is wrong
    const std::string rest = path.substr(std::string_view("loss.").size());
    std::vector<std::string> names;
    for (Value& head : *heads) {
        const Value* const logits = head.find("logits");
        if (logits == nullptr || logits->as<std::string>() == nullptr) continue;
        names.push_back(*logits->as<std::string>());
        for (const std::string& name : {names.back(), '"' + names.back() + '"'})
            if (rest.starts_with(name + '.')) {
                path = rest.substr(name.size() + 1);
                return head;
            }
    }
    if (heads->size() > 1)
        throw UsageError(fmt::format(
            "--set '{}': there are {} tables of [[loss]]; name one by its logits: {}", given, heads->size(),
            listed(names, [&](const std::string& name) { return fmt::format("loss.{}.{}", name, rest); })));
    path = rest;
    if (heads->empty()) heads->push_back(Value{Value::Table{}, 0});
    return heads->front();
}

void apply_change(Value& recipe, const std::string& change) {
    const std::size_t equals = change.find('=');
    const std::size_t dot = change.find('.');
    const bool takes_out =
        equals != std::string::npos && change.find_first_not_of(' ', equals + 1) == std::string::npos;
    if (equals == std::string::npos || equals == 0 ||
        (!takes_out && (dot == std::string::npos || dot > equals)))
        throw UsageError(
            fmt::format("--set '{}': give TABLE.KEY=VALUE, such as optimizer.learning_rate=0.05, or "
                        "KEY= to take a key out",
                        change));
    constexpr std::size_t longest = 100; // of a text in a message
    const std::string shown = change.size() > longest ? change.substr(0, longest) + "..." : change;
    const std::string source = "--set '" + as_utf8(shown) + "'";
    std::string path = change.substr(0, equals);
    Value& changed = path.starts_with("loss.") ? find_loss(recipe, path, as_utf8(shown)) : recipe;
    Value given;
    try { // TOML reads the dotted key
        given = parse_toml(path + (takes_out ? "=0" : with_quotes(change.substr(equals))), source);
    } catch (const UsageError& error) {
        std::string reason = error.what(); // after the source and the line
        reason.erase(0, reason.find(": ", source.size()) + 2);
        throw UsageError(fmt::format("{}: cannot be read as TOML ({}); give {}", source, reason,
                                     takes_out ? "a key such as optimizer.momentum"
                                               : "a number, true, false, a word or \"text\""));
    }
    if (takes_out) return take_out(changed, given, change);
    set_lines(given, 0);
    merge(changed, given);
}

std::vector<std::string> drop_keys(Value& recipe, const std::vector<DroppedKey>& dropped,
                                   const std::string& source) {
    std::map<std::string, std::string> keys; // by table
    for (const DroppedKey& each : dropped) {
        auto* const top = recipe.as<Value::Table>();
        Value& table = std::ranges::find(*top, each.table, &Value::Entry::first)->second;
        std::erase_if(*table.as<Value::Table>(), [&](const auto& entry) { return entry.first == each.key; });
        std::string& list = keys[each.table];
        list += (list.empty() ? "" : ", ") + each.key;
    }
    std::vector<std::string> notes;
    for (const auto& [table, list] : keys)
        notes.push_back(fmt::format("{}: [{}] of kind {} does not know {}: left out", place_of(source, 0),
                                    table, recipe.find(table)->find("kind")->text(), list));
    return notes;
}

} // namespace towers
