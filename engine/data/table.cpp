// Tables of pictures and their classes, a row for each: CSV or TSV.
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/class_labels.h"
#include "engine/data/formats.h"
#include "engine/data/picture_folder.h"
#include "engine/data/picture_source.h"
#include "engine/data/picture_splits.h"
#include "engine/data/table_columns.h"
#include "engine/files/csv_reader.h"
#include "engine/files/text.h"
#include "engine/plural.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <spdlog/spdlog.h>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

constexpr const char* root_option = "root"; ///< the folder of the files, below the table's own
constexpr const char* test_option = "test"; ///< the word for testing in the column of splits

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

template<class... Arguments>
[[noreturn]] void refuse(const DataRequest& request, fmt::format_string<Arguments...> text,
                         Arguments&&... arguments) {
    throw InputError(as_printable(
        fmt::format("{} {}", request.source, fmt::format(text, std::forward<Arguments>(arguments)...))));
}

const std::string* option(const DataRequest& request, const char* name) {
    const auto found = request.options.find(name);
    return found == request.options.end() ? nullptr : &found->second;
}

fs::path root_of(const DataRequest& request) {
    const fs::path own = fs::path(request.source).parent_path();
    const std::string* const root = option(request, root_option);
    return root == nullptr ? own : own / *root;
}

/// A folder as the system takes it: "" as ".".
fs::path as_folder(const fs::path& path) { return path.empty() ? fs::path(".") : path; }

/// Gives texts numbers, in the order in which they come.
class Numbering {
public:
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

/// The rows of a table below its header.
class Rows {
public:
    explicit Rows(const DataRequest& request)
        : request_(request), text_(read_file(request.source)), reader_(text_, request.source) {
        if (!reader_.next(first_)) refuse(request, "is empty; give a table of file and label");
        first_row_ = reader_.row();
        CsvReader after = reader_;
        std::vector<std::string_view> second;
        if (!after.next(second)) second.clear();
        columns_ = choose_columns(first_, second, request.options, request.source, root_of(request));
        is_pending_ = !columns_.header;
        if (columns_.header && second.empty()) refuse(request, "has a header and no rows; add some");
    }
    Rows(const Rows&) = delete; // the reader looks at its text
    Rows& operator=(const Rows&) = delete;

    const TableColumns& columns() const { return columns_; }
    std::size_t row() const { return reader_.row(); }

    bool next(std::vector<std::string_view>& fields) {
        if (is_pending_) {
            is_pending_ = false;
            fields = first_;
            return true;
        }
        if (!reader_.next(fields)) return false;
        if (fields.size() != columns_.count)
            refuse(request_, "row {} has {}, but row {} has {}; put what contains a separator in quotes",
                   row(), count_of(fields.size(), "field"), first_row_, columns_.count);
        return true;
    }

private:
    const DataRequest& request_;
    std::string text_;
    CsvReader reader_;
    std::vector<std::string_view> first_;
    std::size_t first_row_ = 0;
    TableColumns columns_;
    bool is_pending_ = false; ///< the first row
};

/// What a row is for.
enum class Use { training, testing, neither };

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

/// The separator between labels in a field; none: a field has one label.
std::optional<std::string> separator_of(const DataRequest& request, const TableColumns& columns) {
    const std::string* const says = option(request, separator_option);
    if (says == nullptr) return std::nullopt;
    if (says->empty())
        refuse(request, "?{0}=: give what is between two labels, such as '{1}?{0}=|', or {2} or {3}",
               separator_option, request.source, by_spaces, by_rows);
    if (!columns.flags.empty())
        refuse(request, "?{}={}: several columns say the labels already; name one, or leave it out",
               separator_option, *says);
    return *says == " " ? by_spaces : *says;
}

/// Reads the labels of a row.
class LabelReader {
public:
    LabelReader(const DataRequest& request, Table& table)
        : request_(request), table_(table), separator_(separator_of(request, table.columns)) {
        for (std::size_t i = 0; i < table.columns.flag_names.size(); ++i)
            if (table.labels.number_of(table.columns.flag_names[i]) != i)
                refuse(request, "has two columns called {}; rename one of them", table.columns.flag_names[i]);
        if (separator_ || !table.columns.flags.empty()) table.sets.emplace();
    }

    bool are_in_rows() const { return separator_ == by_rows; }

    /// Returns Table::Row::label.
    std::uint32_t read(const std::vector<std::string_view>& fields, std::size_t row) {
        const std::string_view field = fields[table_.columns.label];
        if (!table_.sets) return table_.labels.number_of(field);
        labels_.clear();
        if (!table_.columns.flags.empty())
            read_flags(fields, row);
        else if (are_in_rows()) {
            if (!field.empty()) labels_.push_back(table_.labels.number_of(field));
        } else
            split(field, row);
        std::ranges::sort(labels_);
        if (const auto again = std::ranges::adjacent_find(labels_); again != labels_.end())
            refuse(request_, "row {}: '{}' has the label '{}' twice; write each once", row, field,
                   table_.labels[*again]);
        table_.sets->add(labels_);
        return std::uint32_t(table_.sets->size() - 1);
    }

    /// Makes one row of those of a file in a split.
    void join_rows() {
        std::unordered_map<std::uint64_t, std::size_t> places;
        std::vector<Table::Row> rows;
        std::vector<std::vector<std::uint32_t>> labels;
        for (const Table::Row& row : table_.rows) {
            const auto [found, is_first] =
                places.emplace(std::uint64_t(row.file) << 32 | row.split, rows.size());
            if (is_first) {
                rows.push_back(row);
                rows.back().label = std::uint32_t(labels.size());
                labels.emplace_back();
            }
            std::vector<std::uint32_t>& its = labels[found->second];
            for (const std::uint32_t label : table_.sets->of(row.label)) {
                if (std::ranges::find(its, label) != its.end())
                    refuse(request_, "row {}: {} has the label '{}' twice; remove the row", row.row,
                           table_.files[row.file], table_.labels[label]);
                its.push_back(label);
            }
        }
        table_.sets.emplace();
        for (std::vector<std::uint32_t>& its : labels) {
            std::ranges::sort(its);
            table_.sets->add(its);
        }
        table_.rows = std::move(rows);
    }

private:
    static bool is_number(std::string_view field, double wanted) {
        double value = -1;
        const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), value);
        return error == std::errc() && rest == field.data() + field.size() && value == wanted;
    }

    void read_flags(const std::vector<std::string_view>& fields, std::size_t row) {
        const TableColumns& columns = table_.columns;
        for (std::uint32_t i = 0; i < columns.flags.size(); ++i) {
            const std::string_view field = fields[columns.flags[i]];
            const std::string word = field.size() <= 5 ? lower(std::string(field)) : "";
            if (word == "1" || word == "true" || is_number(field, 1))
                labels_.push_back(i);
            else if (word != "0" && word != "false" && !is_number(field, 0))
                refuse(request_,
                       "row {}: {} is '{}'; write 0 or 1, or name only the columns that say so of a class "
                       "with '{}'",
                       row, columns.flag_names[i], field,
                       with_option(request_, label_option, "COLUMN,COLUMN"));
        }
    }

    void split(std::string_view field, std::size_t row) {
        const bool spaces = *separator_ == by_spaces;
        const std::string_view between = spaces ? std::string_view(" ") : std::string_view(*separator_);
        const std::string_view whole = trimmed(field);
        if (whole.empty()) return;
        for (std::size_t at = 0, end; at <= whole.size(); at = end + between.size()) {
            end = std::min(whole.find(between, at), whole.size());
            const std::string_view label = trimmed(whole.substr(at, end - at));
            if (label.empty() && spaces) continue;
            if (label.empty())
                refuse(request_, "row {}: '{}' has an empty label beside a '{}'; remove that", row, field,
                       between);
            labels_.push_back(table_.labels.number_of(label));
        }
    }

    static std::string_view trimmed(std::string_view text) {
        const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
        return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
    }

    const DataRequest& request_;
    Table& table_;
    std::optional<std::string> separator_;
    std::vector<std::uint32_t> labels_; ///< of the row
};

Table read_table(const DataRequest& request) {
    Rows rows(request);
    Table table{.columns = rows.columns(), .files = {}, .labels = {}, .splits = {}, .rows = {}, .sets = {}};
    const TableColumns& columns = table.columns;
    LabelReader labels(request, table);
    for (std::vector<std::string_view> fields; rows.next(fields);) {
        if (fields[columns.file].empty()) refuse(request, "row {} names no file", rows.row());
        if (table.rows.size() == most_pictures) refuse(request, "has too many rows; give a part of them");
        table.rows.push_back({std::uint32_t(rows.row()), table.files.number_of(fields[columns.file]),
                              labels.read(fields, rows.row()),
                              columns.split ? table.splits.number_of(fields[*columns.split]) : 0});
        if (table.labels.size() > most_classes)
            refuse(request, "row {}: {} has more than {} labels; are they classes? choose a column with '{}'",
                   rows.row(), columns.label_name, most_classes,
                   with_option(request, label_option, "COLUMN"));
    }
    if (labels.are_in_rows()) labels.join_rows();
    return table;
}

/// What --data says to pass over a column of splits.
std::string without_splits(DataRequest request) {
    request.options.erase(test_option);
    return with_option(request, split_option, "none");
}

/// What the words in the column of splits mean; none: no column says it.
std::optional<std::vector<Use>> uses_of(const Table& table, const DataRequest& request) {
    const std::string* const chosen = option(request, test_option);
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
    std::vector<Use> uses;
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
        uses.push_back(is_chosen ? Use::testing : called[i] == Split::test ? Use::neither : Use::training);
    }
    if (chosen != nullptr && !is_there)
        refuse(request, "has no row whose split is '{}', as '?{}=' says", *chosen, test_option);
    return uses;
}

/// The rows with one use, or all.
std::vector<Table::Row> rows_for(Use use, const Table& table, const std::optional<std::vector<Use>>& uses) {
    std::vector<Table::Row> rows = table.rows;
    if (uses) std::erase_if(rows, [&](const Table::Row& row) { return (*uses)[row.split] != use; });
    return rows;
}

/// `'cat', 'dog'`, or `nothing`
std::string names_of(std::span<const std::uint32_t> labels, const Table& table) {
    const std::string names =
        listed(labels, [&](std::uint32_t label) { return fmt::format("'{}'", table.labels[label]); });
    return names.empty() ? "nothing" : names;
}

/// A label that is several, each of which is a label of its own elsewhere, and what is between them.
std::optional<std::pair<std::string, char>> find_several(const std::set<std::string, std::less<>>& names) {
    const auto is_several = [&](std::string_view name, char separator) {
        if (name.find(separator) == name.npos) return false;
        for (std::size_t at = 0, end; at <= name.size(); at = end + 1) {
            end = std::min(name.find(separator, at), name.size());
            std::string_view part = name.substr(at, end - at);
            part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
            if (part.empty() || !names.contains(part)) return false;
        }
        return true;
    };
    for (const std::string& name : names)
        for (const char separator : {'|', ';', ',', ' '})
            if (is_several(name, separator)) return std::pair(name, separator);
    return {};
}

/// As the option takes it.
std::string text_of(char separator) { return separator == ' ' ? by_spaces : std::string(1, separator); }

/// Refuses labels that are several classes.
void check_single(const std::set<std::string, std::less<>>& names, const Table& table,
                  const DataRequest& request) {
    if (table.sets || option(request, label_option) != nullptr) return; // the user knows them
    const auto several = find_several(names);
    if (!several) return;
    const auto row = std::ranges::find_if(
        table.rows, [&](const Table::Row& each) { return table.labels[each.label] == several->first; });
    refuse(request,
           "row {}: '{}' is several labels, each of which stands alone in other rows; say with '{}' that "
           "a picture may have several, or with '{}' that it is the name of a class",
           row->row, several->first, with_option(request, separator_option, text_of(several->second)),
           with_option(request, label_option, table.columns.label_name));
}

/// Refuses rows without a label, where each has one, and files that have others in another row.
void check_labels(const std::vector<Table::Row>& rows, const Table& table, const DataRequest& request) {
    const auto has_none = [&](const Table::Row& row) {
        return !table.sets && table.labels[row.label].empty();
    };
    if (const auto count = std::ranges::count_if(rows, has_none); count > 0) {
        const Table::Row& row = *std::ranges::find_if(rows, has_none);
        std::set<std::string, std::less<>> names;
        for (const Table::Row& each : rows) names.insert(table.labels[each.label]);
        const auto several = find_several(names);
        const std::string remedy =
            several ? fmt::format("say with '{}' that a picture may have several labels, as '{}', or none",
                                  with_option(request, separator_option, text_of(several->second)),
                                  several->first)
                    : "add it, or remove the row";
        refuse(request, "row {} has no label in {}{}; {}", row.row, table.columns.label_name,
               count > 1 ? fmt::format(", nor have {} others", count - 1) : "", remedy);
    }
    std::vector<const Table::Row*> first(table.files.size());
    for (const Table::Row& row : rows) {
        const Table::Row*& before = first[row.file];
        if (before == nullptr)
            before = &row;
        else if (!std::ranges::equal(table.labels_of(*before), table.labels_of(row)))
            refuse(
                request, "row {}: {} is {}, but {} in row {}; {}", row.row, table.files[row.file],
                names_of(table.labels_of(row), table), names_of(table.labels_of(*before), table), before->row,
                table.sets ? "remove one of the rows"
                           : fmt::format("remove one of the rows, or say with '{}' that a picture may have "
                                         "several labels, each in a row",
                                         with_option(request, separator_option, by_rows)));
    }
}

void tell_of_repeated(const std::vector<Table::Row>& rows, const Table& table, const DataRequest& request) {
    std::vector<bool> seen(table.files.size());
    std::size_t again = 0;
    const Table::Row* example = nullptr;
    for (const Table::Row& row : rows) {
        if (seen[row.file] && again++ == 0) example = &row;
        seen[row.file] = true;
    }
    if (example != nullptr)
        spdlog::warn("{}: {} {} a file again, such as row {}, {}; each is an example of its own",
                     as_printable(request.source), count_of(again, "row"), again == 1 ? "names" : "name",
                     example->row, as_printable(table.files[example->file]));
}

/// The names of the classes, by label: of columns in their order, else sorted, by number if all are numbers,
/// else by their bytes.
std::vector<std::uint32_t> sorted_labels(const std::vector<Table::Row>& rows, const Table& table) {
    if (!table.columns.flags.empty()) {
        std::vector<std::uint32_t> labels(table.labels.size());
        std::iota(labels.begin(), labels.end(), 0u);
        return labels;
    }
    std::vector<bool> used(table.labels.size());
    for (const Table::Row& row : rows)
        for (const std::uint32_t label : table.labels_of(row)) used[label] = true;
    std::vector<std::uint32_t> labels;
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < used.size(); ++i)
        if (used[i]) {
            labels.push_back(i);
            names.push_back(table.labels[i]);
        }
    std::vector<std::uint32_t> order(labels.size());
    std::iota(order.begin(), order.end(), 0u);
    if (const auto numbers = numbers_of(names))
        std::ranges::sort(order, {}, [&](std::uint32_t i) { return (*numbers)[i]; });
    else
        std::ranges::sort(order, {}, [&](std::uint32_t i) -> const std::string& { return names[i]; });
    for (std::uint32_t& each : order) each = labels[each];
    return order;
}

/// Where the files are that a table names, for a message: a folder beside it that has the first one.
std::string remedy_for_missing(const std::string& first, const fs::path& root, const DataRequest& request) {
    std::error_code error;
    std::vector<std::string> folders;
    for (fs::directory_iterator entry(as_folder(root), error), end; !error && entry != end;
         entry.increment(error)) {
        std::error_code unknown;
        if (entry->is_directory(unknown)) folders.push_back(entry->path().filename().string());
    }
    std::ranges::sort(folders);
    const std::string* const given = option(request, root_option);
    for (const std::string& each : folders)
        if (fs::is_regular_file(root / each / file_called(root / each, first), error))
            return fmt::format("they are in {}: give '{}'", (root / each).string(),
                               with_option(request, root_option,
                                           given == nullptr ? each : (fs::path(*given) / each).string()));
    return fmt::format("name their folder with '{}'", with_option(request, root_option, "FOLDER"));
}

/// Refuses files that are not there, unless some are, and the others are to be left out as broken.
void check_are_there(const PictureListing& listing, const std::vector<Table::Row>& rows, const Table& table,
                     const DataRequest& request) {
    std::vector<std::uint32_t> missing;
    std::error_code unknown;
    for (std::uint32_t i = 0; i < listing.files.size(); ++i)
        if (!fs::exists(listing.folder / listing.files[i], unknown)) missing.push_back(i);
    const bool all = missing.size() == listing.files.size();
    if (missing.empty() || (request.skip_broken && !all)) return;
    const std::string example = listed_first(10, missing, [&](std::uint32_t file) {
        const auto of_file = [&](const Table::Row& row) {
            return table.files[row.file] == listing.files[file];
        };
        return fmt::format("{} (row {})", listing.files[file], std::ranges::find_if(rows, of_file)->row);
    });
    refuse(request, "{} in {}: {}; {}{}",
           all ? fmt::format("names {}, none of which is", count_of(missing.size(), "file"))
               : fmt::format("names {} of {} files that {} not", missing.size(), listing.files.size(),
                             missing.size() == 1 ? "is" : "are"),
           as_folder(listing.folder).string(), example,
           remedy_for_missing(listing.files[missing[0]], listing.folder, request),
           all ? "" : ", or leave them out with --skip-broken");
}

/// Warns of files in training rows and test rows, and of rows that are for neither.
void tell_of_splits(const Table& table, const std::optional<std::vector<Use>>& uses,
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
    std::vector<std::uint32_t> training(table.files.size(), none);
    std::size_t left_out = 0, both = 0;
    const Table::Row *example = nullptr, *first_both = nullptr;
    for (const Table::Row& row : table.rows)
        if ((*uses)[row.split] == Use::training)
            training[row.file] = row.row;
        else if ((*uses)[row.split] == Use::neither && left_out++ == 0)
            example = &row;
    for (const Table::Row& row : table.rows)
        if ((*uses)[row.split] == Use::testing && training[row.file] != none && both++ == 0)
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

/// Warns of a separator that is nowhere.
void tell_of_separator(const std::vector<Table::Row>& rows, const Table& table, const DataRequest& request) {
    const std::string* const says = option(request, separator_option);
    if (says == nullptr ||
        std::ranges::any_of(rows, [&](const Table::Row& row) { return table.labels_of(row).size() > 1; }))
        return;
    spdlog::warn("{}?{}={}: no row has several labels; is this their separator?",
                 as_printable(request.source), separator_option, as_printable(*says));
}

PictureListing list_files(const std::vector<Table::Row>& rows, const std::vector<std::uint32_t>& classes,
                          const Table& table, const DataRequest& request) {
    PictureListing listing{.folder = root_of(request), .files = {}, .records = {}};
    if (table.sets) listing.sets.emplace();
    std::vector<std::uint32_t> its;
    std::vector<std::uint32_t> label_of(table.labels.size(), none), file_of(table.files.size(), none);
    for (std::uint32_t i = 0; i < classes.size(); ++i) label_of[classes[i]] = i;
    for (const std::uint32_t each : classes) listing.checksum.add(fnv1a(table.labels[each]));
    for (const Table::Row& row : rows) {
        its.clear();
        for (const std::uint32_t label : table.labels_of(row)) {
            if (label_of[label] == none)
                refuse(
                    request,
                    "row {}: its class '{}' is none of those of the training rows; call it as one of them, "
                    "or remove the row",
                    row.row, table.labels[label]);
            its.push_back(label_of[label]);
        }
        std::ranges::sort(its);
        const std::string folder = table.sets ? "" : table.labels[row.label];
        if (!is_in_split(folder + '/' + table.files[row.file], request)) continue;
        if (file_of[row.file] == none) {
            file_of[row.file] = std::uint32_t(listing.files.size());
            listing.files.push_back(file_called(listing.folder, table.files[row.file]));
        }
        if (table.sets) listing.sets->add(its);
        listing.records.push_back(
            {file_of[row.file], table.sets ? std::uint32_t(listing.records.size()) : its[0]});
    }
    return listing;
}

void check_root(const DataRequest& request) {
    const fs::path root = as_folder(root_of(request));
    std::error_code error;
    if (!fs::is_directory(root, error))
        throw InputError(
            as_printable(fmt::format("{}?{}={}: there is no folder {}", request.source, root_option,
                                     *option(request, root_option), root.string())));
    const fs::directory_iterator readable(root, error);
    if (error) throw_file_error("read", root, error.value());
}

std::unique_ptr<DataSource> open_table(const DataRequest& request) {
    const bool training = request.split == Split::train;
    check_root(request);
    const Table table = read_table(request);
    const auto uses = uses_of(table, request);
    if (request.held_out.any() && uses)
        refuse(request,
               "has a column that says what is for testing; leave out --hold-out or --fold, or pass over it "
               "with '{}'",
               without_splits(request));
    const std::vector<Table::Row> rows = rows_for(training ? Use::training : Use::testing, table, uses);
    check_labels(rows, table, request);
    // Those who open both splits of one table hear it once.
    if (training || request.whole || uses) tell_of_repeated(rows, table, request);
    if (training) tell_of_splits(table, uses, request);
    const std::vector<Table::Row> trained = rows_for(Use::training, table, uses);
    const bool alone = trained.empty() || (request.whole && !request.trained.empty());
    const std::vector<std::uint32_t> labels = sorted_labels(alone ? rows : trained, table);
    std::set<std::string, std::less<>> distinct;
    std::vector<std::string> classes;
    for (const std::uint32_t label : labels) {
        distinct.insert(table.labels[label]);
        classes.push_back(as_printable(table.labels[label]));
    }
    check_single(distinct, table, request);
    for (std::set<std::string> seen; const std::string& name : classes)
        if (!seen.insert(name).second)
            refuse(request, "has two classes that read {}; call one of them otherwise", name);
    PictureListing listing = list_files(rows, labels, table, request);
    if (listing.records.empty())
        refuse(request, "has no {} pictures{}; add some", training ? "training" : "test",
               with_held_out(request));
    if (table.sets && classes.empty())
        refuse(request, "has no labels in {}; choose another column with '{}'", table.columns.label_name,
               with_option(request, label_option, "COLUMN"));
    if (!table.sets && classes.size() < 2 && request.trained.empty())
        refuse(request,
               "has one class only, '{}' in {}; give two or more, or choose another column with '{}'",
               classes.at(0), table.columns.label_name, with_option(request, label_option, "COLUMN"));
    if (training) tell_of_separator(rows, table, request);
    if (training && !table.sets && rows.size() >= 20 && classes.size() == rows.size())
        spdlog::warn("{}: each row has a class of its own; if {} says something else, choose another column "
                     "with '{}'",
                     as_printable(request.source), as_printable(table.columns.label_name),
                     as_printable(with_option(request, label_option, "COLUMN")));
    try {
        return open_listed(std::move(listing), classes, request);
    } catch (const InputError&) { // whose first file may be one of many that are not there
        check_are_there(list_files(rows, labels, table, request), rows, table, request);
        throw;
    }
}

bool is_table(const DataRequest& request) {
    std::error_code unknown;
    const std::string end = lower(fs::path(request.source).extension().string());
    return (end == ".csv" || end == ".tsv" || !request.format.empty()) &&
           fs::is_regular_file(request.source, unknown);
}

bool recognizes(const DataRequest& request) {
    if (!is_table(request)) return false;
    if (request.split == Split::train || request.held_out.any()) return true;
    try {
        if (!Rows(request).columns().split) return request.whole;
        const Table table = read_table(request);
        const auto uses = uses_of(table, request);
        return uses ? !rows_for(Use::testing, table, uses).empty() : request.whole;
    } catch (const InputError&) { // whoever opens it learns it
        return true;
    }
}

} // namespace

const DataFormat& table_format() {
    static constexpr DataFormat format{.key = "table",
                                       .name = "a table of pictures and classes (.csv or .tsv)",
                                       .more = {},
                                       .files = {"table of pictures", "row for testing"},
                                       .options = {root_option, file_option, label_option, separator_option,
                                                   split_option, test_option, header_option, "size"},
                                       .holds_out = true,
                                       .recognizes = recognizes,
                                       .open = open_table,
                                       .named = true};
    return format;
}

} // namespace towers
