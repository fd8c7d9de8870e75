// Whether bytes that were taken for pixels are numbers of another type.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace towers {

/// Looks at the bytes of records that do not tell their size. Any number of bytes that is a square may be a
/// grey picture, but numbers of four bytes, or pixels with a fourth byte, repeat in fours, and a picture does
/// so only if its rows repeat.
class GuessedPixels {
public:
    /// Whether more records would not change what they look like.
    bool are_enough() const { return records_ >= most_records; }

    /// The bytes of a record, and of one row of the picture that they were taken for.
    void add(std::span<const std::uint8_t> bytes, std::size_t row_bytes);

    /// `float32 numbers from 0 to 1`: what they look like; "" if they may well be pixels.
    std::string look_like() const;

    /// Whether they would be pictures in which no byte is like those around it. Numbers and pixels may look
    /// so too, of which nothing else tells.
    bool are_noise() const;

private:
    static constexpr std::size_t most_records = 64, lanes = 4;

    bool is_lane_constant(std::size_t lane) const { return values_[lane].count() == 1; }
    bool look_like_floats() const;

    std::size_t records_ = 0, words_ = 0;        ///< words: four bytes that are not all zero
    bool in_words_ = true;                       ///< all records consist of whole words
    std::array<std::bitset<256>, lanes> values_; ///< that a byte of a word has
    std::array<double, lanes> sums_{};           ///< of these, of words_
    bool are_floats_ = true, are_small_ = true;  ///< the words, as float32 and as int32
    float least_ = std::numeric_limits<float>::infinity(), most_ = -least_; ///< as float32
    double from_far_ = 0;                 ///< likewise from bytes half a picture before
    double from_word_ = 0, from_row_ = 0; ///< how much bytes differ from those a word, and a row, before
};

} // namespace towers
