#include "engine/data/table_columns.h"

#include "backends/error.h"
#include "engine/data/formats.h"
#include "engine/data/picture_folder.h"
#include "engine/data/picture_splits.h"
#include "engine/data/source.h"
#include "engine/files/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>
#include <system_error>

namespace towers {

namespace fs = std::filesystem;

namespace {

using Fields = std::vector<std::string_view>;

// Names as plain() gives them; the first one counts that a table has.
constexpr std::string_view file_names[] = {
    "filepath",      "imagepath", "imgpath",   "picturepath", "path",   "filename", "file",    "imagefile",
    "imagefilename", "imagename", "imgname",   "picturename", "image",  "img",      "picture", "photo",
    "imageid",       "imgid",     "pictureid", "photoid",     "fileid", "id",       "uuid"};
constexpr std::string_view label_names[] = {
    "label",   "class",      "target",     "category",  "labels",       "classes",
    "targets", "categories", "labelname",  "classname", "categoryname", "labelid",
    "classid", "categoryid", "classlabel", "y",         "tag",          "tags"};
constexpr std::string_view every_column = "*"; ///< but those of files and splits
constexpr std::string_view split_names[] = {"split", "subset", "set", "fold", "partition", "phase", "usage"};

/// `Image_ID` as `imageid`
std::string plain(std::string_view name) {
    std::string word = lower(std::string(name));
    std::erase_if(word, [](char c) { return std::string_view("_- .").find(c) != std::string_view::npos; });
    return word;
}

/// Of a table whose first rows are known.
class Chooser {
public:
    Chooser(const Fields& first, const Fields& second, const std::map<std::string, std::string>& options,
            const std::string& source, const fs::path& folder)
        : first_(first), second_(second), options_(options), source_(source), folder_(folder) {}

    TableColumns choose() {
        columns_.count = first_.size();
        columns_.header = has_header();
        const auto split = named(split_option);
        columns_.split_is_named = option(split_option) != nullptr;
        const auto label = names_flags() ? std::nullopt : named(label_option);
        columns_.file = file_column(label, split);
        if (split)
            columns_.split = split;
        else if (!columns_.split_is_named)
            columns_.split = guessed_split(label);
        if (names_flags()) {
            columns_.flags = flags();
            for (const std::size_t column : columns_.flags) columns_.flag_names.push_back(name_of(column));
            return columns_;
        }
        columns_.label = label ? *label : label_column();
        columns_.label_name = name_of(columns_.label);
        return columns_;
    }

private:
    const std::string* option(const char* name) const {
        const auto found = options_.find(name);
        return found == options_.end() ? nullptr : &found->second;
    }

    [[noreturn]] void refuse(const std::string& what) const {
        throw InputError(as_printable(fmt::format("{} {}", source_, what)));
    }

    std::string source_with(const char* name, std::string_view value) const {
        return with_option(source_, options_, name, value);
    }

    bool has_header() const {
        if (const std::string* const says = option(header_option)) {
            if (*says != "yes" && *says != "no")
                throw InputError(
                    as_printable(fmt::format("{}?{}={}: give yes if the first row names the columns, else no",
                                             source_, header_option, *says)));
            return *says == "yes";
        }
        const auto any = [&](auto&& fits) { return std::ranges::any_of(first_, fits); };
        if (any([](std::string_view field) { return kind_of(std::string(field)) != FileKind::no_picture; }))
            return false;
        for (const char* const name : {file_option, label_option, split_option})
            if (const std::string* const says = option(name);
                says != nullptr && find(first_, *says) < first_.size())
                return true;
        if (any([](std::string_view field) {
                const std::string word = plain(field);
                return std::ranges::find(file_names, word) != std::end(file_names) ||
                       std::ranges::find(label_names, word) != std::end(label_names);
            }))
            return true;
        return !any([&](std::string_view field) { return is_there(field); });
    }

    bool is_there(std::string_view field) const {
        std::error_code unknown;
        return !field.empty() && fs::is_regular_file(folder_ / file_called(folder_, field), unknown);
    }

    /// Where a name is, in any case; the number of fields if it is not there.
    static std::size_t find(const Fields& fields, std::string_view name) {
        const std::string wanted = lower(std::string(name));
        return std::size_t(
            std::ranges::find(fields, wanted,
                              [](std::string_view field) { return lower(std::string(field)); }) -
            fields.begin());
    }

    std::string name_of(std::size_t column) const {
        return columns_.header && !first_[column].empty() ? std::string(first_[column])
                                                          : fmt::format("column {}", column + 1);
    }

    /// The column that an option names.
    std::optional<std::size_t> named(const char* name) const {
        const std::string* const says = option(name);
        if (says == nullptr || (name == split_option && *says == "none")) return std::nullopt;
        return named(name, *says);
    }

    /// The column that an option calls so.
    std::size_t named(const char* name, const std::string& says) const {
        if (columns_.header) {
            const std::size_t column = find(first_, says);
            if (column < first_.size()) {
                if (find({first_.begin() + std::ptrdiff_t(column) + 1, first_.end()}, says) + column + 1 <
                    first_.size())
                    refuse(
                        fmt::format("has two columns called {}; name one of them by its number, as in '{}'",
                                    says, source_with(name, std::to_string(column + 1))));
                return column;
            }
        }
        std::size_t number = 0;
        const char* const end = says.data() + says.size();
        const auto [rest, error] = std::from_chars(says.data(), end, number);
        if (error == std::errc() && rest == end && number >= 1 && number <= first_.size()) return number - 1;
        refuse(columns_.header
                   ? fmt::format("has no column called {}; its columns are {}", says, listed_columns())
                   : fmt::format(
                         "has no column {}; give a number from 1 to {}, since its first row names no columns",
                         says, first_.size()));
    }

    /// Whether the option for labels names several columns: it is `*`, or no column but a list of them.
    bool names_flags() const {
        const std::string* const says = option(label_option);
        if (says == nullptr || (columns_.header && find(first_, *says) < first_.size())) return false;
        return *says == every_column || says->find(',') != says->npos;
    }

    std::vector<std::size_t> flags() const {
        const std::string& says = *option(label_option);
        std::vector<std::size_t> columns;
        if (says == every_column) {
            for (std::size_t i = 0; i < first_.size(); ++i)
                if (i != columns_.file && i != columns_.split && !is_index(i)) columns.push_back(i);
            if (columns.empty())
                refuse(fmt::format("has no column of labels beside {}; give a table of file and labels",
                                   name_of(columns_.file)));
            return columns;
        }
        for (std::size_t at = 0, end; at <= says.size(); at = end + 1) {
            end = std::min(says.find(',', at), says.size());
            at = std::min(says.find_first_not_of(' ', at), end);
            const std::size_t column = named(label_option, says.substr(at, end - at));
            if (std::ranges::find(columns, column) != columns.end() || column == columns_.file ||
                column == columns_.split)
                refuse(fmt::format("has {} for the labels twice, or for the files or splits too; name each "
                                   "column once in '{}'",
                                   name_of(column), source_with(label_option, says)));
            columns.push_back(column);
        }
        return columns;
    }

    template<std::size_t n>
    std::optional<std::size_t> known(const std::string_view (&names)[n]) const {
        if (!columns_.header) return std::nullopt;
        for (const std::string_view name : names) {
            const auto found = std::ranges::find(first_, name, plain);
            if (found == first_.end()) continue;
            const auto again = std::find_if(found + 1, first_.end(),
                                            [&](std::string_view field) { return plain(field) == name; });
            if (again != first_.end())
                refuse(fmt::format("has two columns called {}; rename one of them", *found));
            return std::size_t(found - first_.begin());
        }
        return std::nullopt;
    }

    std::size_t file_column(std::optional<std::size_t> label, std::optional<std::size_t> split) const {
        if (const auto column = named(file_option)) return *column;
        const auto taken = [&](std::size_t column) { return column == label || column == split; };
        if (const auto column = known(file_names); column && !taken(*column)) return *column;
        const Fields& sample = columns_.header ? second_ : first_;
        for (const bool by_name : {true, false})
            for (std::size_t i = 0; i < sample.size(); ++i)
                if (!taken(i) &&
                    (by_name ? kind_of(std::string(sample[i])) != FileKind::no_picture : is_there(sample[i])))
                    return i;
        refuse(columns_.header
                   ? fmt::format("has the columns {}, and none is called file, filename, path, image, "
                                 "image_id or id; name it with '{}', or say with '{}' that the first row "
                                 "names no columns",
                                 listed_columns(), source_with(file_option, "COLUMN"),
                                 source_with(header_option, "no"))
                   : fmt::format("has no field in its first row that names a picture in {}; name its column "
                                 "by its number with '{}', and the folder with '{}'",
                                 folder_.string(), source_with(file_option, "1"),
                                 source_with("root", "FOLDER")));
    }

    /// A column that is called as one of splits, or in a table without names, has a word for one.
    std::optional<std::size_t> guessed_split(std::optional<std::size_t> label) const {
        const auto free = [&](std::size_t column) { return column != columns_.file && column != label; };
        if (const auto column = known(split_names)) return free(*column) ? column : std::nullopt;
        if (columns_.header || first_.size() < 3) return std::nullopt;
        for (std::size_t i = 0; i < first_.size(); ++i)
            if (free(i) && split_called(std::string(first_[i]))) return i;
        return std::nullopt;
    }

    std::size_t label_column() const {
        const auto free = [&](std::size_t column) {
            return column != columns_.file && column != columns_.split;
        };
        if (const auto column = known(label_names); column && free(*column)) return *column;
        std::vector<std::size_t> left;
        for (std::size_t i = 0; i < first_.size(); ++i)
            if (free(i) && !is_index(i)) left.push_back(i);
        if (left.size() == 1) return left[0];
        if (left.empty())
            refuse(fmt::format("has no column of labels beside {}; give a table of file and label",
                               name_of(columns_.file)));
        constexpr std::size_t most = 10;
        const std::span<const std::size_t> shown = std::span(left).first(std::min(most, left.size()));
        refuse(fmt::format(
            "has {} columns that may be labels ({}{}); choose one with '{}', or, if each says 0 or "
            "1 of a class, all of them with '{}'",
            left.size(), listed(shown, [&](std::size_t column) { return name_of(column); }),
            left.size() > most ? " ..." : "", source_with(label_option, "COLUMN"),
            source_with(label_option, every_column)));
    }

    /// Pandas writes the numbers of rows into a first column without a name.
    bool is_index(std::size_t column) const {
        return columns_.header && column == 0 && (first_[0].empty() || first_[0].starts_with("Unnamed:"));
    }

    std::string listed_columns() const {
        constexpr std::size_t most = 10;
        const std::span<const std::string_view> shown =
            std::span(first_).first(std::min(most, first_.size()));
        return fmt::format("{}{}", fmt::join(shown, ", "), first_.size() > most ? " ..." : "");
    }

    const Fields& first_;
    const Fields& second_;
    const std::map<std::string, std::string>& options_;
    const std::string& source_;
    const fs::path& folder_;
    TableColumns columns_;
};

} // namespace

TableColumns choose_columns(const Fields& first, const Fields& second,
                            const std::map<std::string, std::string>& options, const std::string& source,
                            const fs::path& folder) {
    return Chooser(first, second, options, source, folder).choose();
}

std::string file_called(const fs::path& folder, std::string_view field) {
    std::string name(field);
    if (kind_of(name) != FileKind::no_picture) return name;
    std::error_code unknown;
    for (const char* const end : {"", ".jpg", ".jpeg", ".png", ".webp"})
        if (fs::is_regular_file(folder / (name + end), unknown)) return name + end;
    return name;
}

} // namespace towers
