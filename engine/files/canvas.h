// A picture to draw on.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace towers {

using Colour = std::array<std::uint8_t, 3>; ///< red, green, blue

constexpr unsigned text_height = 12; ///< pixels of a line of text with the space below it

class Canvas {
public:
    Canvas(unsigned width, unsigned height); ///< in pixels; white

    /// Pixels outside are ignored.
    void set(unsigned x, unsigned y, const Colour& colour);

    enum class Direction { right, up };
    /// Writes black text that begins at a point and takes at most `length` pixels; the rest is cut off. `?`
    /// stands for what is not ASCII. Text that reads upwards is turned to the left: its upper side is at `x`.
    void write(const std::string& text, unsigned x, unsigned y, unsigned length,
               Direction direction = Direction::right);

    /// As a PNG file. Throws InputError if that fails.
    void save(const std::filesystem::path& path) const;

private:
    unsigned width_, height_;
    std::vector<std::uint8_t> pixels_; ///< [height][width][3]
};

/// The pixels that text takes if nothing is cut off.
unsigned text_width(const std::string& text);

} // namespace towers
