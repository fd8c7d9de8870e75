// Many small images side by side, with a line of text below each.
#pragma once

#include "engine/data/source.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace towers {

struct SheetImage {
    ImageSize size;
    std::vector<std::uint8_t> planes; ///< [channels][height][width]
};

struct SheetCell {
    std::string label;              ///< ASCII; what does not fit below the images is cut off
    std::vector<SheetImage> images; ///< side by side; as many in each cell
};

/// Writes the cells in rows of `columns` as a PNG file. Images of few pixels are magnified by a whole number.
/// Throws InputError if the file cannot be written, or the sheet has more than 100 million pixels.
void write_contact_sheet(const std::filesystem::path& path, std::span<const SheetCell> cells,
                         unsigned columns);

} // namespace towers
