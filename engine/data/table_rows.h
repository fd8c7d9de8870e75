// The rows of a table of pictures: for each a file, its labels, and the word of its split.
#pragma once

#include "backends/error.h"
#include "engine/data/formats.h"
#include "engine/data/label_sets.h"
#include "engine/data/table_columns.h"
#include "engine/files/text.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace towers {

constexpr const char* root_option = "root"; ///< the folder of the files, below the table's own

/// Gives texts numbers, in the order in which they come.
class Numbering {
public:
    Numbering() = default;
    Numbering(Numbering&&) = default; // a copy would look at the other's texts

    std::uint32_t number_of(std::string_view text) {
        if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
        texts_.emplace_back(text);
        return numbers_.emplace(texts_.back(), std::uint32_t(texts_.size() - 1)).first->second;
    }
    const std::string& operator[](std::size_t number) const { return texts_[number]; }
    std::size_t size() const { return texts_.size(); }

private:
    std::deque<std::string> texts_; ///< which stay where they are
    std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

struct Table {
    struct Row {
        std::uint32_t row; ///< its number
        std::uint32_t file;
        std::uint32_t label; ///< or the number of its set
        std::uint32_t split; ///< its word
    };

    TableColumns columns;
    Numbering files, labels, splits;
    std::vector<Row> rows;
    std::optional<LabelSets> sets; ///< of the rows, if a picture may have several labels, or none

    std::span<const std::uint32_t> labels_of(const Row& row) const {
        return sets ? sets->of(row.label) : std::span(&row.label, 1);
    }
};

/// Throws an InputError that begins with the source.
template<class... Arguments>
[[noreturn]] void refuse(const DataRequest& request, fmt::format_string<Arguments...> text,
                         Arguments&&... arguments) {
    throw InputError(as_printable(
        fmt::format("{} {}", request.source, fmt::format(text, std::forward<Arguments>(arguments)...))));
}

/// The value of an option of the source; null: it is not given.
const std::string* option_of(const DataRequest& request, const char* name);

/// The folder of the files that the table names; "" is the working directory.
std::filesystem::path root_of(const DataRequest& request);

/// InputError where the first rows do not tell.
TableColumns read_columns(const DataRequest& request);

/// InputError, which names the row, where a row cannot be read.
Table read_table(const DataRequest& request);

} // namespace towers
