#include "engine/config/attributes.h"

#include "engine/error.h"
#include "engine/nearest.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace towers {
namespace {

/// `from 1 to 16`
std::string range(double least, double most) {
    if (std::isinf(most)) return std::isinf(least) ? "" : fmt::format(" of at least {}", least);
    return fmt::format(" from {} to {}", least, most);
}

std::optional<double> number_of(const Value& value) {
    if (const auto* whole = value.as<std::int64_t>()) return double(*whole);
    if (const auto* number = value.as<double>()) return *number;
    return {};
}

/// A key's name in other programs, and how it differs from ours.
struct Synonym {
    const char *other, *own, *remark = "";
};
constexpr Synonym synonyms[] = {
    {"T_max", "epochs"},
    {"alpha", "decay"},
    {"batch_size", "batch"},
    {"depth_multiplier", "multiplier"},
    {"eps", "epsilon"},
    {"gamma", "factor"},
    {"grad_clip", "clip_norm"},
    {"horizontal_flip", "flip"},
    {"image_size", "shape"},
    {"kernel", "window"},
    {"kernel_initializer", "init"},
    {"kernel_size", "kernel"},
    {"kernel_size", "window"},
    {"l2", "weight_decay"},
    {"label_smoothing", "smoothing"},
    {"lr", "learning_rate"},
    {"max_norm", "clip_norm"},
    {"milestones", "boundaries"},
    {"momentum", "decay", " (PyTorch's momentum is 1 - decay)"},
    {"num_classes", "classes"},
    {"out_channels", "filters"},
    {"out_features", "units"},
    {"p", "keep", " (keep = 1 - p)"},
    {"padding", "pad"},
    {"pool_size", "window"},
    {"rate", "keep", " (keep = 1 - rate)"},
    {"rho", "decay"},
    {"size", "kernel"},
    {"size", "window"},
    {"std", "deviation"},
    {"step_size", "epochs"},
    {"type", "kind"},
    {"use_bias", "bias"},
    {"warmup_epochs", "warm_up"},
    {"wd", "weight_decay"},
};

struct Meant {
    std::string key, remark;
};

/// The known key that the user probably meant; empty if none is near.
Meant find_meant(const std::string& other, const std::vector<std::string>& keys) {
    for (const Synonym& each : synonyms)
        if (other == each.other && std::ranges::find(keys, each.own) != keys.end())
            return {each.own, each.remark};
    return {nearest(other, keys), ""};
}

/// Whether --set gave any part of a value.
bool was_set(const Value& value) {
    if (value.line == 0) return true;
    const auto* const table = value.as<Value::Table>();
    return table != nullptr &&
           std::ranges::any_of(*table, [](const auto& entry) { return was_set(entry.second); });
}

} // namespace

Attributes::Attributes(const Value& table, std::string file, std::string what,
                       std::vector<DroppedKey>* dropped)
    : table_(&table), line_(table.line), file_(std::move(file)), what_(std::move(what)), dropped_(dropped) {
    if (table.as<Value::Table>() == nullptr)
        fail(fmt::format("is {}; write a table, such as {{ kind = \"relu\" }}", table.text()));
}

const Value* Attributes::find(const std::string& key) {
    read_.insert(key);
    return table_->find(key);
}

const Value* Attributes::need(const std::string& key, bool optional, const std::string& example) {
    const Value* const value = find(key);
    if (value != nullptr || optional) return value;
    for (const auto& [other, given] : *table_->as<Value::Table>())
        if (const Meant meant = find_meant(other, {key}); !read_.contains(other) && !meant.key.empty())
            fail(fmt::format("needs '{}', not '{}'{}; give {}", key, other, meant.remark, example));
    fail(fmt::format("needs '{}'; give {}", key, example));
}

std::int64_t Attributes::whole(const std::string& key, std::int64_t least, std::int64_t most,
                               std::optional<std::int64_t> otherwise) {
    const std::string right = "a whole number" + range(double(least), double(most));
    const Value* const value = need(key, otherwise.has_value(), right);
    if (value == nullptr) return *otherwise;
    const auto* const found = value->as<std::int64_t>();
    if (found == nullptr || *found < least || *found > most)
        fail(key, fmt::format("is {}; give {}", value->text(), right));
    return *found;
}

double Attributes::number(const std::string& key, double least, double most,
                          std::optional<double> otherwise) {
    const std::string right = "a number" + range(least, most);
    const Value* const value = need(key, otherwise.has_value(), right);
    if (value == nullptr) return *otherwise;
    const std::optional<double> found = number_of(*value);
    if (!found || !(*found >= least && *found <= most) || !std::isfinite(*found))
        fail(key, fmt::format("is {}; give {}", value->text(), right));
    return *found;
}

bool Attributes::flag(const std::string& key, std::optional<bool> otherwise) {
    const Value* const value = need(key, otherwise.has_value(), "true or false");
    if (value == nullptr) return *otherwise;
    if (value->as<bool>() == nullptr) fail(key, fmt::format("is {}; give true or false", value->text()));
    return *value->as<bool>();
}

std::string Attributes::text(const std::string& key, std::optional<std::string> otherwise) {
    const Value* const value = need(key, otherwise.has_value(), "text in quotes");
    if (value == nullptr) return *otherwise;
    const auto* const found = value->as<std::string>();
    if (found == nullptr || found->empty())
        fail(key, fmt::format("is {}; give text in quotes", value->text()));
    return *found;
}

std::string Attributes::choice(const std::string& key, const std::vector<std::string>& choices,
                               std::optional<std::string> otherwise) {
    const Value* const value =
        need(key, otherwise.has_value(), fmt::format("one of {}", fmt::join(choices, ", ")));
    if (value == nullptr) return *otherwise;
    const auto* const found = value->as<std::string>();
    if (found == nullptr || std::ranges::find(choices, *found) == choices.end())
        fail(key, fmt::format("is {}; give one of {}", value->text(), fmt::join(choices, ", ")));
    return *found;
}

std::array<unsigned, 2> Attributes::pair(const std::string& key, unsigned least, unsigned most,
                                         std::optional<std::array<unsigned, 2>> otherwise) {
    const std::string right =
        fmt::format("a whole number from {} to {}, or two of them: [height, width]", least, most);
    const Value* const value = need(key, otherwise.has_value(), right);
    if (value == nullptr) return *otherwise;
    std::vector<std::int64_t> found;
    if (const auto* one = value->as<std::int64_t>()) found = {*one, *one};
    if (const auto* list = value->as<Value::Array>())
        for (const Value& each : *list)
            if (const auto* whole = each.as<std::int64_t>()) found.push_back(*whole);
    const auto* const list = value->as<Value::Array>();
    if (found.size() != 2 || (list != nullptr && list->size() != 2) ||
        std::ranges::any_of(found, [&](std::int64_t each) { return each < least || each > most; }))
        fail(key, fmt::format("is {}; give {}", value->text(), right));
    return {unsigned(found[0]), unsigned(found[1])};
}

std::vector<double> Attributes::numbers(const std::string& key, std::size_t count, double least, double most,
                                        std::optional<std::vector<double>> otherwise) {
    const std::string right = fmt::format("a list of {} numbers{}", count, range(least, most));
    const Value* const value = need(key, otherwise.has_value(), right);
    if (value == nullptr) return *otherwise;
    std::vector<double> found;
    if (const auto* list = value->as<Value::Array>())
        for (const Value& each : *list)
            if (const auto number = number_of(each); number && *number >= least && *number <= most)
                found.push_back(*number);
    if (found.size() != count || value->as<Value::Array>()->size() != count)
        fail(key, fmt::format("is {}; give {}", value->text(), right));
    return found;
}

std::vector<unsigned> Attributes::wholes(const std::string& key, std::size_t count, unsigned least,
                                         unsigned most) {
    const std::string right = fmt::format("a list of {} whole numbers from {} to {}", count, least, most);
    const Value* const value = need(key, false, right);
    std::vector<unsigned> found;
    if (const auto* list = value->as<Value::Array>())
        for (const Value& each : *list)
            if (const auto* whole = each.as<std::int64_t>();
                whole != nullptr && *whole >= least && *whole <= most)
                found.push_back(unsigned(*whole));
    if (found.size() != count || value->as<Value::Array>()->size() != count)
        fail(key, fmt::format("is {}; give {}", value->text(), right));
    return found;
}

std::vector<std::string> Attributes::texts(const std::string& key) {
    const Value* const value = find(key);
    if (value == nullptr) return {};
    if (const auto* one = value->as<std::string>()) return {*one};
    std::vector<std::string> found;
    if (const auto* list = value->as<Value::Array>())
        for (const Value& each : *list)
            if (const auto* one = each.as<std::string>()) found.push_back(*one);
    if (found.empty() || found.size() != value->as<Value::Array>()->size())
        fail(key, fmt::format("is {}; give text in quotes, or a list of it", value->text()));
    return found;
}

Attributes Attributes::table(const std::string& key) {
    static const Value nothing{Value::Table{}, 0};
    const Value* const value = find(key);
    if (value != nullptr && value->as<Value::Table>() == nullptr)
        fail(key, fmt::format("is {}; give a table", value->text()));
    const bool within = what_.starts_with('['); // a table of a table
    Attributes found(value != nullptr ? *value : nothing, file_,
                     within ? fmt::format("{}.{}]", what_.substr(0, what_.size() - 1), key)
                            : fmt::format("[{}]", key),
                     dropped_);
    if (value == nullptr) found.line_ = line_;
    return found;
}

std::vector<Attributes> Attributes::tables(const std::string& key) {
    const Value* const value = find(key);
    if (value == nullptr) return {};
    const auto* const list = value->as<Value::Array>();
    if (list == nullptr)
        fail(key, fmt::format("is {}; give a list of tables, each under [[{}]] in two brackets",
                              value->text(), key));
    std::vector<Attributes> found;
    for (const Value& each : *list) found.emplace_back(each, file_, fmt::format("[[{}]]", key));
    return found;
}

/// Whether --set has given the table its kind.
bool Attributes::has_new_kind() const {
    const Value* const kind = table_->find("kind");
    return kind != nullptr && kind->line == 0;
}

void Attributes::done() const {
    const std::vector<std::string> known(read_.begin(), read_.end());
    for (const auto& [key, value] : *table_->as<Value::Table>()) {
        if (read_.contains(key)) continue;
        if (dropped_ != nullptr && has_new_kind() && !was_set(value)) {
            dropped_->push_back({what_.substr(1, what_.size() - 2), key});
            continue;
        }
        const Meant meant = find_meant(key, known);
        fail(key,
             fmt::format("is not known here{}; known are {}",
                         meant.key.empty() ? "" : fmt::format(", but '{}' is{}", meant.key, meant.remark),
                         fmt::join(known, ", ")));
    }
}

void Attributes::fail(const std::string& message) const {
    throw UsageError(fmt::format("{}: {} {}", place_of(file_, line_), what_, message));
}

void Attributes::fail(const std::string& key, const std::string& message) const {
    const Value* const value = table_->find(key);
    throw UsageError(fmt::format("{}: {}: '{}' {}", place_of(file_, value != nullptr ? value->line : line_),
                                 what_, key, message));
}

} // namespace towers
