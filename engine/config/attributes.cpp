#include "engine/config/attributes.h"

#include "backends/error.h"
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

/// The value if it is a T that fits.
template<class T>
std::optional<T> as_if(const Value& value, const auto& fits) {
    const T* const found = value.as<T>();
    return found != nullptr && fits(*found) ? std::optional(*found) : std::nullopt;
}

std::optional<std::int64_t> whole_of(const Value& value, std::int64_t least, std::int64_t most) {
    return as_if<std::int64_t>(value, [&](std::int64_t whole) { return whole >= least && whole <= most; });
}

std::optional<double> number_of(const Value& value, double least, double most) {
    const auto fits = [&](auto number) {
        return double(number) >= least && double(number) <= most && std::isfinite(double(number));
    };
    if (const auto whole = as_if<std::int64_t>(value, fits)) return double(*whole);
    return as_if<double>(value, fits);
}

/// The elements of a list of `count`, each converted; none if it is no such list.
template<class T, class Convert>
std::optional<std::vector<T>> list_of(const Value& value, std::size_t count, const Convert& convert) {
    const auto* const list = value.as<Value::Array>();
    if (list == nullptr || list->size() != count) return {};
    std::vector<T> found;
    for (const Value& each : *list)
        if (const auto element = convert(each))
            found.push_back(T(*element));
        else
            return {};
    return found;
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

template<class T, class Convert>
T Attributes::read(const std::string& key, const std::string& right, const std::optional<T>& otherwise,
                   const Convert& convert) {
    const Value* const value = find(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value != nullptr) {
        if (const std::optional<T> found = convert(*value)) return *found;
        fail(key, fmt::format("is {}; give {}", value->text(), right));
    }
    for (const auto& [other, given] : *table_->as<Value::Table>())
        if (const Meant meant = find_meant(other, {key}); !read_.contains(other) && !meant.key.empty())
            fail(fmt::format("needs '{}', not '{}'{}; give {}", key, other, meant.remark, right));
    fail(fmt::format("needs '{}'; give {}", key, right));
}

std::int64_t Attributes::whole(const std::string& key, std::int64_t least, std::int64_t most,
                               std::optional<std::int64_t> otherwise) {
    return read(key, "a whole number" + range(double(least), double(most)), otherwise,
                [&](const Value& value) { return whole_of(value, least, most); });
}

double Attributes::number(const std::string& key, double least, double most,
                          std::optional<double> otherwise) {
    return read(key, "a number" + range(least, most), otherwise,
                [&](const Value& value) { return number_of(value, least, most); });
}

bool Attributes::flag(const std::string& key, std::optional<bool> otherwise) {
    return read(key, "true or false", otherwise,
                [](const Value& value) { return as_if<bool>(value, [](bool) { return true; }); });
}

std::string Attributes::text(const std::string& key, std::optional<std::string> otherwise) {
    const auto fits = [](const std::string& text) { return !text.empty(); };
    return read(key, "text in quotes", otherwise,
                [&](const Value& value) { return as_if<std::string>(value, fits); });
}

std::string Attributes::choice(const std::string& key, const std::vector<std::string>& choices,
                               std::optional<std::string> otherwise) {
    const auto fits = [&](const std::string& text) {
        return std::ranges::find(choices, text) != choices.end();
    };
    return read(key, fmt::format("one of {}", fmt::join(choices, ", ")), otherwise,
                [&](const Value& value) { return as_if<std::string>(value, fits); });
}

std::array<unsigned, 2> Attributes::pair(const std::string& key, unsigned least, unsigned most,
                                         std::optional<std::array<unsigned, 2>> otherwise) {
    const auto whole = [&](const Value& value) { return whole_of(value, least, most); };
    const auto both = [&](const Value& value) -> std::optional<std::array<unsigned, 2>> {
        if (const auto one = whole(value)) return {{unsigned(*one), unsigned(*one)}};
        const auto two = list_of<unsigned>(value, 2, whole);
        return two ? std::optional(std::array{(*two)[0], (*two)[1]}) : std::nullopt;
    };
    return read(key,
                fmt::format("a whole number from {} to {}, or two of them: [height, width]", least, most),
                otherwise, both);
}

std::vector<double> Attributes::numbers(const std::string& key, std::size_t count, double least, double most,
                                        std::optional<std::vector<double>> otherwise) {
    const auto number = [&](const Value& value) { return number_of(value, least, most); };
    return read(key, fmt::format("a list of {} numbers{}", count, range(least, most)), otherwise,
                [&](const Value& value) { return list_of<double>(value, count, number); });
}

std::vector<unsigned> Attributes::wholes(const std::string& key, std::size_t count, unsigned least,
                                         unsigned most) {
    const auto whole = [&](const Value& value) { return whole_of(value, least, most); };
    return read(key, fmt::format("a list of {} whole numbers from {} to {}", count, least, most),
                std::optional<std::vector<unsigned>>(),
                [&](const Value& value) { return list_of<unsigned>(value, count, whole); });
}

std::vector<std::string> Attributes::texts(const std::string& key) {
    using Texts = std::vector<std::string>;
    return read(key, "text in quotes, or a list of it", std::optional(Texts()),
                [](const Value& value) -> std::optional<Texts> {
                    if (const auto* one = value.as<std::string>()) return Texts{*one};
                    const auto* const list = value.as<Value::Array>();
                    if (list == nullptr || list->empty()) return {};
                    return list_of<std::string>(value, list->size(),
                                                [](const Value& each) { return each.as<std::string>(); });
                });
}

Attributes Attributes::table(const std::string& key, const char* example) {
    static const Value nothing{Value::Table{}, 0};
    const Value* const value = find(key);
    if (value != nullptr && value->as<Value::Table>() == nullptr)
        fail(key, fmt::format("is {}; give a table{}", value->text(),
                              example != nullptr ? fmt::format(", such as {}", example) : ""));
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
        if (known == std::vector<std::string>{"kind"})
            fail(key,
                 fmt::format("is not known with 'kind' {}, which has no other keys; another kind has",
                             table_->find("kind") != nullptr ? table_->find("kind")->text() : "as it is"));
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
