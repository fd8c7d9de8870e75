#include "engine/data/picture_size.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <string_view>

namespace towers {

namespace {

constexpr unsigned most_side = 8192;

/// A side of `64x48`; 0 for what is none.
unsigned side_of(std::string_view text) {
    unsigned side = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
    return error == std::errc() && end == text.data() + text.size() && side <= most_side ? side : 0;
}

} // namespace

void PictureSizes::add(const ImageSize& size) {
    if (!range_) range_ = PictureRange{size, size};
    auto& [least, most] = *range_;
    least = {std::min(least.height, size.height), std::min(least.width, size.width),
             std::max(least.channels, size.channels)};
    most = {std::max(most.height, size.height), std::max(most.width, size.width), least.channels};
}

ImageSize wanted_size(const DataRequest& request, const PictureSizes& sizes) {
    const unsigned channels =
        request.image.channels > 0 ? request.image.channels : sizes.range()->least.channels;
    if (const auto option = request.options.find("size"); option != request.options.end()) {
        const std::string_view text = option->second;
        const std::size_t cross = text.find('x');
        const unsigned height = side_of(text.substr(0, cross));
        const unsigned width = cross == text.npos ? height : side_of(text.substr(cross + 1));
        if (height == 0 || width == 0)
            throw InputError(as_printable(
                fmt::format("{}?size={}: give the pixels of a side, or HEIGHTxWIDTH, up to {} each",
                            request.source, text, most_side)));
        return {height, width, channels};
    }
    if (request.image.height > 0) return request.image;
    const auto [least, most] = *sizes.range();
    return least == most ? least : ImageSize{request.thumbnail, request.thumbnail, channels};
}

void check_has_size(const std::string& source, const ImageSize& size) {
    if (size.height == 0)
        throw InputError(fmt::format("{0} has pictures of many sizes; name one for all with '{0}?size=64'",
                                     as_printable(source)));
}

} // namespace towers
