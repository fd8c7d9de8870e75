#include "engine/data/tf_columns.h"

#include "backends/error.h"
#include "engine/data/class_labels.h"
#include "engine/data/formats.h"
#include "engine/data/picture.h"
#include "engine/files/text.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>
#include <vector>

namespace towers {

const char* const advice_on_pixels =
    "give a byte (uint8) for each colour of a pixel, or the size in features height and width";

namespace {

[[noreturn]] void refuse(const RecordName& name, const std::string& what) {
    throw InputError(fmt::format("{} {}", name.text(), what));
}

std::string names_in(const TfExample& example) {
    std::vector<std::string> names;
    for (const auto& [name, feature] : example) names.push_back(as_printable(name));
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

unsigned side(const TfExample& example, std::initializer_list<const char*> names) {
    for (const char* name : names)
        if (const auto found = example.find(name); found != example.end() && found->second.whole.size() == 1)
            if (const std::int64_t value = found->second.whole[0]; value > 0 && value <= 1 << 15)
                return unsigned(value);
    return 0;
}

/// Decides whether the bytes are pixels: of the size that the example tells, else of a square picture in
/// grey, else in colours. `encoded`: by its name it should not be pixels.
void examine(const TfExample& example, const RecordName& name, bool encoded, TfColumns::Content& content) {
    const std::string_view bytes = content.bytes;
    ImageSize& size = content.size;
    size = {side(example, {"height", "image/height"}), side(example, {"width", "image/width"}),
            side(example, {"depth", "channels", "image/channels"})};
    const bool told = size.height > 0 && size.width > 0;
    if (told && size.channels == 0)
        size.channels = unsigned(bytes.size() / (std::size_t(size.height) * size.width));
    for (const unsigned channels : {1u, 3u}) {
        if (told || size.elements() == bytes.size()) break;
        const auto length = unsigned(std::lround(std::sqrt(double(bytes.size()) / channels)));
        size = {length, length, channels};
    }
    // Pixels may begin like a JPEG, but then they fill the picture.
    const bool fills = size.elements() == bytes.size() && !bytes.empty();
    content.encoded = !(fills && told) && begins_as_picture(as_bytes(bytes));
    const bool are_pixels = fills && (told || !encoded) && (size.channels == 1 || size.channels == 3);
    content.guessed = are_pixels && !told;
    if (content.encoded || are_pixels) return;
    if (encoded) throw PictureError("is neither JPEG, PNG nor WebP");
    refuse(name,
           fmt::format(
               "has {} bytes of pixels, which are no picture {}", bytes.size(),
               told ? fmt::format("of {}x{} in grey or colours; give a byte (uint8) for each colour of a "
                                  "pixel",
                                  size.height, size.width)
                    : fmt::format("that is square, in grey or colours; {}", advice_on_pixels)));
}

} // namespace

TfColumns::Content TfColumns::read(const TfExample& example, const RecordName& name, bool encoded) const {
    Content content{};
    const TfFeature& image = find(example, name, "image", {"image_raw", "image/encoded", "image"});
    if (image.bytes.size() != 1)
        refuse(name, fmt::format("has {} images; each record has one", image.bytes.size()));
    content.bytes = image.bytes[0];
    const TfFeature& label = find(example, name, "label", {"label", "image/class/label"});
    if (label.whole.size() != 1 || label.whole[0] < 0 || label.whole[0] >= most_classes)
        refuse(name, fmt::format("has no label from 0 to {}", most_classes - 1));
    content.label = std::uint32_t(label.whole[0]);
    if (encoded) {
        if (!begins_as_picture(as_bytes(content.bytes))) throw PictureError("is neither JPEG, PNG nor WebP");
        content.encoded = true;
    } else {
        const auto by_name = example.find("image/encoded");
        examine(example, name, by_name != example.end() && &by_name->second == &image, content);
    }
    return content;
}

const TfFeature& TfColumns::find(const TfExample& example, const RecordName& name, const char* option,
                                 std::initializer_list<const char*> known) const {
    if (const auto named = options_.find(option); named != options_.end()) {
        const auto found = example.find(named->second);
        if (found == example.end())
            refuse(name, fmt::format("has no feature '{}', which ?{}= names; it has {}", named->second,
                                     option, names_in(example)));
        return found->second;
    }
    for (const char* each : known)
        if (const auto found = example.find(each); found != example.end()) return found->second;
    refuse(name, fmt::format("has no {} under a known name ({}); its features are {}: name one with "
                             "'{}'",
                             option, fmt::join(known, ", "), names_in(example),
                             with_option(source_, options_, option, "NAME")));
}

} // namespace towers
