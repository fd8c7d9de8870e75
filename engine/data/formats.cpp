#include "engine/data/formats.h"

#include "engine/data/other_data.h"
#include "engine/error.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

namespace towers {

#define TOWERS_DATA_FORMAT(name) const DataFormat& name##_format();
#include "engine/data/formats.def"
#undef TOWERS_DATA_FORMAT

namespace {

using FormatList = std::vector<std::reference_wrapper<const DataFormat>>;

const FormatList& all_formats() {
    static const FormatList formats = {
#define TOWERS_DATA_FORMAT(name) name##_format(),
#include "engine/data/formats.def"
#undef TOWERS_DATA_FORMAT
    };
    return formats;
}

/// `a, b or c` of a member of the formats that are words, or of those that are not.
template<class Member>
std::string alternatives(bool words, const Member& member) {
    std::vector<std::string> all;
    for (const DataFormat& format : all_formats())
        if (format.is_word() == words) all.emplace_back(std::invoke(member, format));
    const std::string last = std::move(all.back());
    all.pop_back();
    return all.empty() ? last : fmt::format("{} or {}", fmt::join(all, ", "), last);
}

std::string quoted(const DataFormat& word) { return fmt::format("'{}'", word.name); }
std::string explained(const DataFormat& word) { return fmt::format("'{}' ({})", word.name, word.more); }

const DataFormat* format_of(const std::string& source, Split split) {
    for (const bool is_word : {true, false})
        for (const DataFormat& format : all_formats())
            if (format.is_word() == is_word && format.recognizes(source, split)) return &format;
    return nullptr;
}

[[noreturn]] void refuse(const std::string& source, Split split) {
    if (const std::string other = describe_other_data(source); !other.empty())
        throw InputError(fmt::format("{} {}", source, other));
    const std::string names = alternatives(false, &DataFormat::name);
    const std::string words = alternatives(true, &DataFormat::name) + ", which needs no files";
    std::error_code error; // what cannot be examined counts as absent
    if (!std::filesystem::is_directory(source, error))
        throw InputError(fmt::format("there is no data folder {}; name one with {}, or use --data {}", source,
                                     names, words));
    const auto file = [&](const DataFormat& format) { return format.files[std::size_t(split)]; };
    throw InputError(fmt::format("{} holds no {}; unpack {} there, or use --data {}", source,
                                 alternatives(false, file), names, words));
}

} // namespace

std::unique_ptr<DataSource> open_data(const DataRequest& request) {
    const DataFormat* const format = format_of(request.source, request.split);
    if (format == nullptr) refuse(request.source, request.split);
    return format->open(request);
}

bool is_path(const std::string& source) {
    return std::ranges::none_of(all_formats(), [&](const DataFormat& format) {
        return format.is_word() && format.recognizes(source, Split::train);
    });
}

std::string data_help(bool with_more) {
    return fmt::format("a folder with {}, or {}", alternatives(false, &DataFormat::name),
                       alternatives(true, with_more ? explained : quoted));
}

std::string what_to_give() { return fmt::format("give {}, which needs no files", data_help(false)); }

} // namespace towers
