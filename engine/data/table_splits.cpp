#include "engine/data/table_splits.h"

#include "engine/data/picture_splits.h"
#include "engine/files/text.h"
#include "engine/plural.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <spdlog/spdlog.h>

namespace towers {

std::string without_splits(DataRequest request) {
    request.options.erase(test_option);
    return with_option(request, split_option, "none");
}

std::optional<std::vector<RowUse>> uses_of(const Table& table, const DataRequest& request) {
    const std::string* const chosen = option_of(request, test_option);
    const auto& words = table.splits;
    if (!table.columns.split) {
        if (chosen != nullptr)
            refuse(request, "has no column that says what is for testing; name it with '{}'",
                   with_option(request, split_option, "COLUMN"));
        return std::nullopt;
    }
    std::vector<std::optional<Split>> called;
    std::size_t first_rank = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < words.size(); ++i) {
        called.push_back(split_called(words[i]));
        if (called[i] == Split::test) first_rank = std::min(first_rank, rank_for_testing(words[i]));
    }
    const bool tells = std::ranges::any_of(called, [](const auto& split) { return split.has_value(); });
    if (!tells && chosen == nullptr && !table.columns.split_is_named) return std::nullopt;
    std::vector<RowUse> uses;
    bool is_there = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const bool is_chosen = chosen != nullptr
                                   ? words[i] == *chosen
                                   : called[i] == Split::test && rank_for_testing(words[i]) == first_rank;
        is_there = is_there || is_chosen;
        if (!called[i] && chosen == nullptr) {
            const auto row = std::ranges::find(table.rows, std::uint32_t(i), &Table::Row::split)->row;
            refuse(request,
                   "row {}: its split is '{}'; write train, val or test, or say which word is for testing "
                   "with '{}', or pass over the column with '{}'",
                   row, words[i], with_option(request, test_option, "WORD"), without_splits(request));
        }
        uses.push_back(is_chosen                  ? RowUse::testing
                       : called[i] == Split::test ? RowUse::neither
                                                  : RowUse::training);
    }
    if (chosen != nullptr && !is_there)
        refuse(request, "has no row whose split is '{}', as '?{}=' says", *chosen, test_option);
    return uses;
}

std::vector<Table::Row> rows_for(RowUse use, const Table& table,
                                 const std::optional<std::vector<RowUse>>& uses) {
    std::vector<Table::Row> rows = table.rows;
    if (uses) std::erase_if(rows, [&](const Table::Row& row) { return (*uses)[row.split] != use; });
    return rows;
}

void tell_of_splits(const Table& table, const std::optional<std::vector<RowUse>>& uses,
                    const DataRequest& request) {
    const std::string source = as_printable(request.source);
    if (!uses) {
        if (table.columns.split)
            spdlog::warn(
                "{}: its column of splits, with words such as {}, does not count; '{}' says which word "
                "is for testing",
                source, as_printable(table.splits[0]),
                as_printable(with_option(request, test_option, "WORD")));
        return;
    }
    std::vector<std::uint32_t> training(table.files.size(), 0); // rows count from 1
    std::size_t left_out = 0, both = 0;
    const Table::Row *example = nullptr, *first_both = nullptr;
    for (const Table::Row& row : table.rows)
        if ((*uses)[row.split] == RowUse::training)
            training[row.file] = row.row;
        else if ((*uses)[row.split] == RowUse::neither && left_out++ == 0)
            example = &row;
    for (const Table::Row& row : table.rows)
        if ((*uses)[row.split] == RowUse::testing && training[row.file] != 0 && both++ == 0)
            first_both = &row;
    if (left_out > 0)
        spdlog::warn("{}: {} left out, such as row {}, since it is '{}'; '{}' says which word is for testing",
                     source, count_of(left_out, "row"), example->row,
                     as_printable(table.splits[example->split]),
                     as_printable(with_option(request, test_option, "WORD")));
    if (both > 0)
        spdlog::warn("{}: {} for testing {} pictures that are for training too, such as row {} that of row "
                     "{}; the accuracy will be too good",
                     source, count_of(both, "row"), both == 1 ? "has" : "have", first_both->row,
                     training[first_both->file]);
}

} // namespace towers
