#include "engine/data/formats.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/class_labels.h"
#include "engine/data/other_data.h"
#include "engine/files/text.h"
#include "engine/nearest.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <spdlog/spdlog.h>
#include <string_view>
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

/// `?labels=`, or `?image=, ?label= and ?size=`
std::string known(const DataFormat& format) {
    std::string text;
    for (std::size_t i = 0; i < format.options.size() && !format.options[i].empty(); ++i) {
        const bool last = i + 1 == format.options.size() || format.options[i + 1].empty();
        text += fmt::format("{}?{}=", i == 0 ? "" : last ? " and " : ", ", format.options[i]);
    }
    return text;
}

std::string quoted(const DataFormat& word) { return fmt::format("'{}'", word.name); }
std::string explained(const DataFormat& word) { return fmt::format("'{}' ({})", word.name, word.more); }

/// The formats that recognize a source, the first one being that which opens it.
FormatList formats_of(const DataRequest& request) {
    FormatList found;
    for (const bool is_word : {true, false})
        for (const DataFormat& format : all_formats())
            if (format.is_word() == is_word && (request.format.empty() || request.format == format.key) &&
                format.recognizes(request))
                found.emplace_back(format);
    return found;
}

const DataFormat* find_key(const std::string& key) {
    const auto found = std::ranges::find(all_formats(), key, [](const DataFormat& each) { return each.key; });
    return found == all_formats().end() ? nullptr : &found->get();
}

/// Moves `?NAME=VALUE&NAME=VALUE` from a source into the options, unless it is part of a path.
void split_off_wishes(DataRequest& request) {
    std::error_code error;
    const std::size_t begin = request.source.rfind('?');
    if (begin == std::string::npos || request.source.find('=', begin) == std::string::npos ||
        std::filesystem::exists(request.source, error))
        return;
    for (std::size_t at = begin + 1, end; at <= request.source.size(); at = end + 1) {
        end = std::min(request.source.find('&', at), request.source.size());
        const std::string_view option = std::string_view(request.source).substr(at, end - at);
        const std::size_t equals = std::min(option.find('='), option.size());
        request.options[std::string(option.substr(0, equals))] =
            option.substr(std::min(equals + 1, option.size()));
    }
    request.source.resize(begin);
}

/// Nothing is at a source's path, which may be misspelt.
[[noreturn]] void refuse_absent(const std::string& source) {
    namespace fs = std::filesystem;
    const fs::path path = source, folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    std::vector<std::string> names;
    for (const DataFormat& format : all_formats())
        if (format.is_word() && !path.has_parent_path()) names.emplace_back(format.name);
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        names.push_back(entry->path().filename().string());
    const std::string meant = nearest(path.filename().string(), names);
    throw InputError(fmt::format("there is no file or folder {}{}; check the path, or use {}, which needs no "
                                 "files",
                                 source, meant.empty() ? "" : fmt::format(", but there is {}", meant),
                                 alternatives(true, &DataFormat::name)));
}

/// Why nothing recognizes the source.
[[noreturn]] void refuse(const DataRequest& request) {
    const std::string& source = request.source;
    DataRequest training = request;
    training.split = Split::train;
    if (const FormatList formats = formats_of(training); !formats.empty()) {
        const DataFormat& format = formats[0];
        throw InputError(fmt::format(
            "{} has no test examples, no {}; give some with --test-data of train, or --data of eval{}",
            source, format.files[std::size_t(Split::test)],
            format.holds_out ? ", or let train hold some out with --hold-out 10%" : ""));
    }
    std::error_code error; // what cannot be examined counts as absent
    const bool is_folder = std::filesystem::is_directory(source, error);
    if (is_folder) {
        const std::filesystem::directory_iterator readable(source, error);
        if (error) throw_file_error("read", source, error.value());
    }
    const auto file = [&](const DataFormat& format) { return format.files[std::size_t(request.split)]; };
    if (const DataFormat* const format = find_key(request.format); format != nullptr)
        throw InputError(fmt::format("{} has nothing that --format {} takes, {}", source, format->key,
                                     format->is_word() ? format->key : file(*format)));
    if (is_pattern(source) && !is_folder && !std::filesystem::exists(source, error))
        throw InputError(fmt::format("no file of records matches the pattern {}; check it", source));
    if (const std::string other = describe_other_data(source, request.split); !other.empty())
        throw InputError(fmt::format("{} {}", source, other));
    const std::string names = alternatives(false, &DataFormat::name);
    const std::string words = alternatives(true, &DataFormat::name) + ", which needs no files";
    if (!std::filesystem::exists(source, error)) refuse_absent(source);
    throw InputError(fmt::format("{} holds no {}; put {} there, or use --data {}", source,
                                 alternatives(false, file), names, words));
}

void check_wishes(const DataRequest& request, const DataFormat& format) {
    for (const auto& [name, value] : request.options)
        if (name.empty() || std::ranges::find(format.options, name) == format.options.end())
            throw InputError(
                fmt::format("{}?{}={}: {} take no '{}'{}", request.source, name, value, format.name, name,
                            format.options[0].empty() ? "" : fmt::format(", only {}", known(format))));
    if (request.held_out.any() && !format.holds_out)
        throw InputError(fmt::format("{}: --hold-out and --fold are for folders and tables of pictures, and "
                                     "these are {}; leave it out",
                                     request.source, format.name));
}

} // namespace

std::unique_ptr<DataSource> open_data(DataRequest request) {
    split_off_wishes(request);
    if (!request.format.empty() && find_key(request.format) == nullptr)
        throw UsageError(fmt::format("--format {}: there is no such format; choose one of {}", request.format,
                                     format_keys()));
    const FormatList formats = formats_of(request);
    if (formats.empty()) refuse(request);
    const DataFormat& format = formats[0];
    if (formats.size() > 1 && !format.is_word() && request.split == Split::train)
        spdlog::warn("{} holds {} and {}; --format {} or {} decides, and without it the first ones count",
                     as_printable(request.source), format.name, formats[1].get().name, format.key,
                     formats[1].get().key);
    check_wishes(request, format);
    std::unique_ptr<DataSource> data = format.open(request);
    if (!request.trained.empty()) take_training_classes(*data, request.trained, format.named, request.source);
    return data;
}

bool has_examples(DataRequest request) {
    split_off_wishes(request);
    return !formats_of(request).empty();
}

bool is_path(const std::string& source) {
    return std::ranges::none_of(all_formats(), [&](const DataFormat& format) {
        return format.is_word() && format.recognizes({without_options(source), Split::train});
    });
}

bool is_pattern(const std::string& path) { return path.find_first_of("*?[") != path.npos; }

std::string without_options(const std::string& source) {
    DataRequest request{source, Split::train};
    split_off_wishes(request);
    return request.source;
}

std::string with_option(const std::string& source, const std::map<std::string, std::string>& options,
                        std::string_view name, std::string_view value) {
    std::string text = source + '?';
    for (const auto& [other, its] : options)
        if (other != name) text += fmt::format("{}={}&", other, its);
    return text + fmt::format("{}={}", name, value);
}

std::string with_option(const DataRequest& request, std::string_view name, std::string_view value) {
    return with_option(request.source, request.options, name, value);
}

std::string absolute_source(const std::string& source) {
    namespace fs = std::filesystem;
    const std::string path = without_options(source);
    std::error_code error;
    if (!is_path(source)) return source;
    if (!is_pattern(path) || fs::exists(path, error) || fs::path(path).is_absolute())
        return fs::absolute(path).lexically_normal().string() + source.substr(path.size());
    std::string folder; // whose own characters are no pattern
    for (const char c : fs::current_path().string()) {
        if (std::string_view("*?[\\").find(c) != std::string_view::npos) folder += '\\';
        folder += c;
    }
    return (fs::path(folder) / source).lexically_normal().string();
}

std::string format_keys() {
    return listed(all_formats(), [](const DataFormat& format) { return format.key; });
}

std::string data_help(bool with_more) {
    return fmt::format("a folder with {}, or {}", alternatives(false, &DataFormat::name),
                       alternatives(true, with_more ? explained : quoted));
}

std::string what_to_give() { return fmt::format("give {}, which needs no files", data_help(false)); }

} // namespace towers
