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

/// `?labels=`, or `?image= and ?label=`
std::string known(const DataFormat& format) {
    return format.wishes[1].empty() ? fmt::format("?{}=", format.wishes[0])
                                    : fmt::format("?{}", fmt::join(format.wishes, "= and ?")) + "=";
}

std::string quoted(const DataFormat& word) { return fmt::format("'{}'", word.name); }
std::string explained(const DataFormat& word) { return fmt::format("'{}' ({})", word.name, word.more); }

const DataFormat* format_of(const DataRequest& request) {
    for (const bool is_word : {true, false})
        for (const DataFormat& format : all_formats())
            if (format.is_word() == is_word && format.recognizes(request)) return &format;
    return nullptr;
}

/// Moves `?NAME=VALUE&NAME=VALUE` from a source into the wishes, unless it is part of a path.
void split_off_wishes(DataRequest& request) {
    std::error_code error;
    const std::size_t begin = request.source.rfind('?');
    if (begin == std::string::npos || request.source.find('=', begin) == std::string::npos ||
        std::filesystem::exists(request.source, error))
        return;
    for (std::size_t at = begin + 1, end; at <= request.source.size(); at = end + 1) {
        end = std::min(request.source.find('&', at), request.source.size());
        const std::string_view wish = std::string_view(request.source).substr(at, end - at);
        const std::size_t equals = std::min(wish.find('='), wish.size());
        request.wishes[std::string(wish.substr(0, equals))] = wish.substr(std::min(equals + 1, wish.size()));
    }
    request.source.resize(begin);
}

[[noreturn]] void refuse(const DataRequest& request) {
    const auto& [source, split, seed, image, whole, wishes] = request;
    DataRequest training = request;
    training.split = Split::train;
    if (const DataFormat* const format = format_of(training); format != nullptr)
        throw InputError(
            fmt::format("{} has no test examples, no {}; give some with --test-data of train, or --data "
                        "of eval",
                        source, format->files[std::size_t(Split::test)]));
    if (const std::string other = describe_other_data(source); !other.empty())
        throw InputError(fmt::format("{} {}", source, other));
    const std::string names = alternatives(false, &DataFormat::name);
    const std::string words = alternatives(true, &DataFormat::name) + ", which needs no files";
    std::error_code error; // what cannot be examined counts as absent
    if (!std::filesystem::is_directory(source, error))
        throw InputError(fmt::format("there is no data folder {}; name one with {}, or use --data {}", source,
                                     names, words));
    const auto file = [&](const DataFormat& format) { return format.files[std::size_t(request.split)]; };
    throw InputError(fmt::format("{} holds no {}; unpack {} there, or use --data {}", source,
                                 alternatives(false, file), names, words));
}

} // namespace

std::unique_ptr<DataSource> open_data(DataRequest request) {
    split_off_wishes(request);
    const DataFormat* const format = format_of(request);
    if (format == nullptr) refuse(request);
    for (const auto& [name, value] : request.wishes)
        if (name.empty() || std::ranges::find(format->wishes, name) == format->wishes.end())
            throw InputError(
                fmt::format("{}?{}={}: {} take no '{}'{}", request.source, name, value, format->name, name,
                            format->wishes[0].empty() ? "" : fmt::format(", only {}", known(*format))));
    return format->open(request);
}

bool is_path(const std::string& source) {
    return std::ranges::none_of(all_formats(), [&](const DataFormat& format) {
        return format.is_word() && format.recognizes({source, Split::train});
    });
}

std::string data_help(bool with_more) {
    return fmt::format("a folder with {}, or {}", alternatives(false, &DataFormat::name),
                       alternatives(true, with_more ? explained : quoted));
}

std::string what_to_give() { return fmt::format("give {}, which needs no files", data_help(false)); }

} // namespace towers
