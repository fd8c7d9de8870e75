#include "engine/data/formats.h"

#include "engine/data/other_data.h"
#include "engine/error.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <system_error>
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

/// `a, b, or c` of what `words` says of each format; of some it may say nothing.
template<class Words>
std::string alternatives(const Words& words) {
    std::vector<std::string> all;
    for (const DataFormat& format : all_formats())
        if (std::string text(std::invoke(words, format)); !text.empty()) all.push_back(std::move(text));
    std::string joined;
    for (std::size_t i = 0; i < all.size(); ++i)
        joined += (i == 0 ? "" : i + 1 < all.size() ? ", " : ", or ") + all[i];
    return joined;
}

const DataFormat* format_of(const std::string& source, Split split) {
    for (const bool is_word : {true, false})
        for (const DataFormat& format : all_formats())
            if (format.is_word() == is_word && format.recognizes(source, split)) return &format;
    return nullptr;
}

[[noreturn]] void refuse(const std::string& source, Split split) {
    if (const std::string other = describe_other_data(source); !other.empty())
        throw InputError(fmt::format("{} {}", source, other));
    std::error_code error; // what cannot be examined counts as absent
    if (!std::filesystem::is_directory(source, error))
        throw InputError(
            fmt::format("there is no data folder {}; name {}", source, alternatives(&DataFormat::name)));
    throw InputError(fmt::format("{} holds no {}; {}", source, alternatives([&](const DataFormat& format) {
                                     return format.files[std::size_t(split)];
                                 }),
                                 alternatives(&DataFormat::remedy)));
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
    return alternatives([&](const DataFormat& format) {
        return with_more && !format.more.empty() ? fmt::format("{} ({})", format.what, format.more)
                                                 : std::string(format.what);
    });
}

std::string what_to_give() { return "give " + alternatives(&DataFormat::give); }

} // namespace towers
