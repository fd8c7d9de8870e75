#include "engine/files/csv_reader.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

namespace towers {

namespace {

constexpr std::string_view zero_byte = "has a zero byte; write the table as text in UTF-8";

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

/// What separates the fields of a text's first row.
char separator_of(std::string_view text) {
    constexpr std::string_view known = ",;\t";
    std::array<std::size_t, known.size()> counts{};
    bool quoted = false;
    for (const char c : text) {
        if (is_line_end(c) && !quoted) break;
        if (c == '"') quoted = !quoted;
        if (const std::size_t found = known.find(c); found != known.npos && !quoted) ++counts[found];
    }
    if (counts.back() > 0) return known.back();
    return known[std::size_t(std::ranges::max_element(counts) - counts.begin())];
}

} // namespace

CsvReader::CsvReader(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
    if (text_.starts_with("\xff\xfe") || text_.starts_with("\xfe\xff")) // its byte order mark
        throw InputError(as_printable(name_) + " is UTF-16; write it as UTF-8");
    if (constexpr std::string_view mark = "\xef\xbb\xbf"; text_.starts_with(mark))
        text_.remove_prefix(mark.size());
    while (at_line_end() && !text_.empty()) end_line();
    constexpr std::string_view says = "sep=";
    if (text_.starts_with(says) && text_.size() > says.size() + 1 && is_line_end(text_[says.size() + 1])) {
        separator_ = text_[says.size()];
        text_.remove_prefix(says.size() + 1);
        end_line();
    } else {
        separator_ = separator_of(text_);
    }
}

bool CsvReader::next(std::vector<std::string_view>& fields) {
    while (!text_.empty()) {
        fields.clear();
        unquoted_.clear();
        fields.push_back(next_field());
        while (!at_line_end()) {
            text_.remove_prefix(1); // the separator
            fields.push_back(next_field());
        }
        end_line();
        if (!std::ranges::all_of(fields, &std::string_view::empty)) return true;
    }
    return false;
}

std::string_view CsvReader::next_field() {
    skip_spaces();
    if (text_.starts_with('"')) return quoted_field();
    const auto* const end =
        std::ranges::find_if(text_, [&](char c) { return c == separator_ || is_line_end(c) || c == '\0'; });
    std::string_view field = text_.substr(0, std::size_t(end - text_.begin()));
    text_.remove_prefix(field.size());
    if (text_.starts_with('\0')) refuse(zero_byte);
    while (field.ends_with(' ')) field.remove_suffix(1);
    return field;
}

std::string_view CsvReader::quoted_field() {
    std::string_view rest = text_.substr(1);
    std::string* unquoted = nullptr; // the field up to the rest, if it contains quotes
    for (;;) {
        const std::size_t quote = rest.find('"');
        if (quote == rest.npos) refuse("has a quote (\") that nothing closes before the end of the table");
        const std::string_view part = rest.substr(0, quote);
        rest.remove_prefix(quote + 1);
        if (part.find('\0') != part.npos) refuse(zero_byte);
        const bool goes_on = rest.starts_with('"'); // a doubled one is a part of the field
        if (goes_on && unquoted == nullptr) unquoted = &unquoted_.emplace_back();
        if (unquoted != nullptr) unquoted->append(part);
        if (goes_on) {
            unquoted->push_back('"');
            rest.remove_prefix(1);
            continue;
        }
        text_ = rest;
        skip_spaces();
        if (!at_line_end() && text_.front() != separator_)
            refuse("has text right after a quoted field; double the quotes (\"\") that belong to a field");
        return unquoted != nullptr ? std::string_view(*unquoted) : part;
    }
}

bool CsvReader::at_line_end() const { return text_.empty() || is_line_end(text_.front()); }

void CsvReader::end_line() {
    ++row_;
    text_.remove_prefix(text_.starts_with("\r\n") ? 2 : std::min<std::size_t>(text_.size(), 1));
}

void CsvReader::skip_spaces() { text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size())); }

void CsvReader::refuse(std::string_view what) const {
    throw InputError(fmt::format("{} row {} {}", as_printable(name_), row_ + 1, what));
}

} // namespace towers
