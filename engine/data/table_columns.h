// Which columns of a table name pictures, their classes and their splits.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// Options of a source: a column by its name or its number, which counts from 1.
constexpr const char* file_option = "file";
constexpr const char* label_option = "label";
constexpr const char* split_option = "split"; ///< or `none`
/// What is between the labels in a field, if a picture may have several: a text, or one of the words below.
constexpr const char* separator_option = "separator";
constexpr const char* by_spaces = "space"; ///< one or more
constexpr const char* by_rows = "row";     ///< each in a row of its own, which names the file again
constexpr const char* header_option = "header";

struct TableColumns {
    bool header = false; ///< whether the first row names the columns
    std::size_t count = 0;
    std::size_t file = 0, label = 0;
    /// The columns that say 0 or 1, each of a class; empty: `label` names the classes.
    std::vector<std::size_t> flags;
    std::vector<std::string> flag_names;
    std::optional<std::size_t> split;
    bool split_is_named = false; ///< by the options, not guessed
    std::string label_name;      ///< for messages: its name, else `column 2`
};

/// Chooses the columns by the options, else by the names in the first row, else by what is in the first rows.
/// `second`: empty if there is none. `folder`: in which the files are. InputError, which names `source`,
/// where nothing tells, so also where several columns may be labels.
TableColumns choose_columns(const std::vector<std::string_view>& first,
                            const std::vector<std::string_view>& second,
                            const std::map<std::string, std::string>& options, const std::string& source,
                            const std::filesystem::path& folder);

/// The file that a table's field means, below the folder: itself, or with .jpg, .jpeg, .png or .webp after it
/// if only that is there; else the field.
std::string file_called(const std::filesystem::path& folder, std::string_view field);

} // namespace towers
