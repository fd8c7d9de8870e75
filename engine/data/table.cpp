// Tables of pictures and their classes, a row for each: CSV or TSV.
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/class_labels.h"
#include "engine/data/formats.h"
#include "engine/data/picture_folder.h"
#include "engine/data/picture_source.h"
#include "engine/data/table_rows.h"
#include "engine/data/table_splits.h"
#include "engine/files/text.h"
#include "engine/plural.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

/// A folder as the system takes it: "" as ".".
fs::path as_folder(const fs::path& path) { return path.empty() ? fs::path(".") : path; }

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
    if (table.sets || option_of(request, label_option) != nullptr) return; // the user knows them
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
    const std::string* const given = option_of(request, root_option);
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

/// Warns of a separator that is nowhere.
void tell_of_separator(const std::vector<Table::Row>& rows, const Table& table, const DataRequest& request) {
    const std::string* const says = option_of(request, separator_option);
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
                                     *option_of(request, root_option), root.string())));
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
    const std::vector<Table::Row> rows = rows_for(training ? RowUse::training : RowUse::testing, table, uses);
    check_labels(rows, table, request);
    // Those who open both splits of one table hear it once.
    if (training || request.whole || uses) tell_of_repeated(rows, table, request);
    if (training) tell_of_splits(table, uses, request);
    const std::vector<Table::Row> trained = rows_for(RowUse::training, table, uses);
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
        if (!read_columns(request).split) return request.whole;
        const Table table = read_table(request);
        const auto uses = uses_of(table, request);
        return uses ? !rows_for(RowUse::testing, table, uses).empty() : request.whole;
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
