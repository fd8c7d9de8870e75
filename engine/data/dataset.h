// Labelled images in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace towers {

enum class Split { train, test };

struct ImageSize {
    unsigned height = 0, width = 0; ///< pixels
    unsigned channels = 0;          ///< values per pixel: 1 grey, 3 red, green, blue
    bool operator==(const ImageSize&) const = default;
};

struct Dataset {
    std::string name;
    unsigned height = 0, width = 0, channels = 0; ///< pixels, and values per pixel
    std::vector<std::string> classes;             ///< names, in the order of their labels
    std::vector<std::uint8_t> images;  ///< [size()][channels][height][width]: planes, as in CIFAR-10
    std::vector<std::uint32_t> labels; ///< [size()], each below classes.size()

    std::size_t size() const { return labels.size(); }
    ImageSize image_size() const { return {height, width, channels}; }

    /// Of labels and images: tells data sets apart, wherever they lie.
    std::uint64_t checksum() const;
};

} // namespace towers
