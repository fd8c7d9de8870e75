// Labelled images in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace towers {

enum class Split { train, test };

struct Dataset {
    std::string name;
    unsigned height = 0, width = 0, channels = 0; ///< pixels, and values of a pixel
    std::vector<std::string> classes;             ///< names, in the order of their labels
    std::vector<std::uint8_t> images;  ///< [size()][channels][height][width]: planes, as CIFAR-10's records
    std::vector<std::uint32_t> labels; ///< [size()], each below classes.size()

    std::size_t size() const { return labels.size(); }

    /// Of labels and images: tells one data set from another, wherever it lies (FNV-1a over words of 8
    /// bytes).
    std::uint64_t checksum() const;
};

} // namespace towers
