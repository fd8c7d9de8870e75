// What a table's column of splits says: which rows are for training and which for testing.
#pragma once

#include "engine/data/table_rows.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

constexpr const char* test_option = "test"; ///< the word for testing in the column of splits

/// What a row is for.
enum class RowUse { training, testing, neither };

/// By number of a split's word; none: no column says it. InputError where a word is unknown, or no row has
/// the one that the source gives for testing.
std::optional<std::vector<RowUse>> uses_of(const Table& table, const DataRequest& request);

/// The rows with one use, or all.
std::vector<Table::Row> rows_for(RowUse use, const Table& table,
                                 const std::optional<std::vector<RowUse>>& uses);

/// Warns of files in training rows and test rows, and of rows that are for neither.
void tell_of_splits(const Table& table, const std::optional<std::vector<RowUse>>& uses,
                    const DataRequest& request);

/// What --data says to pass over a column of splits.
std::string without_splits(DataRequest request);

} // namespace towers
