// Reads comma-separated values: https://www.rfc-editor.org/rfc/rfc4180
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// The rows of a table. Between two fields is a comma, a tab or a semicolon: a tab if the first row has one,
/// else what it has most of, or what Excel's line `sep=;` before it says. Lines may end as on any system.
/// Spaces around a field do not belong to it, unless it stands in quotes.
class CsvReader {
public:
    /// `name`: the text's, for messages. InputError for UTF-16.
    CsvReader(std::string_view text, std::string name);

    /// Reads the next row into `fields`, which the next call overwrites. Passes over rows whose fields are
    /// all empty. False if there is no more. InputError for a zero byte, a quote that nothing closes, or text
    /// beside a quoted field.
    bool next(std::vector<std::string_view>& fields);

    /// The number of the row that next() has read, as spreadsheets count: from 1, with empty ones.
    std::size_t row() const { return row_; }

private:
    std::string_view next_field(); ///< up to what ends it
    std::string_view quoted_field();
    bool at_line_end() const;
    void end_line();
    void skip_spaces();
    [[noreturn]] void refuse(std::string_view what) const; ///< the row that is being read

    std::string_view text_; ///< what is left
    std::string name_;
    char separator_ = ',';
    std::size_t row_ = 0;
    std::deque<std::string> unquoted_; ///< fields of the row that contain quotes
};

} // namespace towers
