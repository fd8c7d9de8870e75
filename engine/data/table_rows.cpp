#include "engine/data/table_rows.h"

#include "backends/files/file.h"
#include "engine/data/class_labels.h"
#include "engine/data/picture_source.h"
#include "engine/files/csv_reader.h"
#include "engine/plural.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace towers {

namespace fs = std::filesystem;

const std::string* option_of(const DataRequest& request, const char* name) {
    const auto found = request.options.find(name);
    return found == request.options.end() ? nullptr : &found->second;
}

fs::path root_of(const DataRequest& request) {
    const fs::path own = fs::path(request.source).parent_path();
    const std::string* const root = option_of(request, root_option);
    return root == nullptr ? own : own / *root;
}

namespace {

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

/// The separator between labels in a field; none: a field has one label.
std::optional<std::string> separator_of(const DataRequest& request, const TableColumns& columns) {
    const std::string* const says = option_of(request, separator_option);
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

} // namespace

TableColumns read_columns(const DataRequest& request) { return Rows(request).columns(); }

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

} // namespace towers
