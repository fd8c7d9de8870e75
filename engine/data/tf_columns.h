// The features of a data set's examples: which hold the picture and the label.
#pragma once

#include "engine/data/record_file.h"
#include "engine/data/source.h"
#include "engine/data/tf_example.h"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace towers {

inline std::span<const std::uint8_t> as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// What to do about bytes that are no pixels of a known size.
extern const char* const advice_on_pixels;

/// Finds features by the names that options give, or by known ones.
class TfColumns {
public:
    /// `source`: what --data says, for messages; `options`: `image` and `label` may name features.
    TfColumns(std::string source, std::map<std::string, std::string> options)
        : source_(std::move(source)), options_(std::move(options)) {}

    const std::string& source() const { return source_; }

    struct Content {
        std::string_view bytes; ///< [height][width][channels], or a JPEG, PNG or WebP
        bool encoded;
        ImageSize size; ///< of pixels that are not encoded
        bool guessed;   ///< the size, which the example does not tell
        std::uint32_t label;
    };
    /// The bytes are the example's. `encoded`: earlier records have encoded pictures. InputError when
    /// something is missing or does not fit; PictureError when the picture is neither JPEG, PNG nor WebP, and
    /// must be.
    Content read(const TfExample& example, const RecordName& name, bool encoded) const;

private:
    const TfFeature& find(const TfExample& example, const RecordName& name, const char* option,
                          std::initializer_list<const char*> known) const;

    std::string source_;
    std::map<std::string, std::string> options_;
};

} // namespace towers
