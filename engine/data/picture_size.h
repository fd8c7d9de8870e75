// The one size to which a data set's pictures are prepared.
#pragma once

#include "engine/data/formats.h"

#include <optional>
#include <string>

namespace towers {

/// Collects the sizes of a data set's pictures.
class PictureSizes {
public:
    void add(const ImageSize& size);
    /// The least and the largest height and width; both with 1 channel if all pictures are grey, else 3.
    std::optional<PictureRange> range() const { return range_; }

private:
    std::optional<PictureRange> range_;
};

/// The size that the request's option `?size=` names, else its own, else the pictures' if all have the same,
/// else the thumbnail's; without height and width if there is none. InputError for an option that is no size.
ImageSize wanted_size(const DataRequest& request, const PictureSizes& sizes);

/// InputError when the size of wanted_size() has no height and width, so that nothing can be read.
void check_has_size(const std::string& source, const ImageSize& size);

} // namespace towers
