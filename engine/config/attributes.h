// Reads a recipe's tables and checks every value.
#pragma once

#include "engine/config/value.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace towers {

/// The largest value of a number that must stay below 1, in float32 too.
constexpr double below_one = 0.9999999;

/// A key of the recipe file that is ignored: --set has changed the kind of its table, and the new kind lacks
/// the key.
struct DroppedKey {
    std::string table, key;
};

/// Reads one table. Each reader checks type and range, and remembers the key; done() refuses keys that nobody
/// read. All errors are UsageError, `file:line: WHAT: what is wrong; what would be right`. The table must
/// outlive the reader.
class Attributes {
public:
    /// `what` names the table in messages: `layer 'conv1'`, `[optimizer]`. `dropped` gets the keys that
    /// done() ignores, and must outlive this reader and those of its tables; null: done() ignores none.
    Attributes(const Value& table, std::string file, std::string what,
               std::vector<DroppedKey>* dropped = nullptr);

    const std::string& file() const { return file_; }
    const std::string& what() const { return what_; }
    unsigned line() const { return line_; }

    /// Null when the key is absent.
    const Value* find(const std::string& key);
    bool has(const std::string& key) { return find(key) != nullptr; }

    // A key without a default must be there.
    std::int64_t whole(const std::string& key, std::int64_t least, std::int64_t most,
                       std::optional<std::int64_t> otherwise = {});
    double number(const std::string& key, double least, double most, std::optional<double> otherwise = {});
    bool flag(const std::string& key, std::optional<bool> otherwise = {});
    std::string text(const std::string& key, std::optional<std::string> otherwise = {});
    std::string choice(const std::string& key, const std::vector<std::string>& choices,
                       std::optional<std::string> otherwise = {});
    /// The value that the chosen name stands for.
    template<class T, std::size_t count>
    T choice(const std::string& key, const std::pair<const char*, T> (&values)[count],
             std::optional<std::string> otherwise = {}) {
        std::vector<std::string> names;
        for (const auto& [name, value] : values) names.emplace_back(name);
        const std::string chosen = choice(key, names, std::move(otherwise));
        return values[std::ranges::find(names, chosen) - names.begin()].second;
    }
    /// A number for both axes, `3`, or `[3, 5]` (height, width).
    std::array<unsigned, 2> pair(const std::string& key, unsigned least, unsigned most,
                                 std::optional<std::array<unsigned, 2>> otherwise = {});
    std::vector<double> numbers(const std::string& key, std::size_t count, double least, double most,
                                std::optional<std::vector<double>> otherwise = {});
    std::vector<unsigned> wholes(const std::string& key, std::size_t count, unsigned least, unsigned most);
    std::vector<std::string> texts(const std::string& key); ///< one text or a list of them; empty if absent
    /// An empty table if absent.
    /// `example`: of what the table would be, for the message if it is none.
    Attributes table(const std::string& key, const char* example = nullptr);
    std::vector<Attributes> tables(const std::string& key);

    /// Refuses keys that nobody read; ignores those that a kind given by --set lacks.
    void done() const;

    [[noreturn]] void fail(const std::string& message) const;
    [[noreturn]] void fail(const std::string& key, const std::string& message) const;

private:
    /// Reads a value with `convert`, which returns nothing for a wrong one. `right`: what would be right.
    template<class T, class Convert>
    T read(const std::string& key, const std::string& right, const std::optional<T>& otherwise,
           const Convert& convert);
    bool has_new_kind() const;

    const Value* table_;
    unsigned line_;
    std::string file_, what_;
    std::vector<DroppedKey>* dropped_;
    std::set<std::string> read_;
};

} // namespace towers
