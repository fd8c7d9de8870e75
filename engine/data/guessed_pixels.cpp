#include "engine/data/guessed_pixels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

namespace towers {

namespace {

constexpr std::size_t least_words = 64; // to tell anything
constexpr double clearly = 0.9;

static_assert(std::endian::native == std::endian::little);

template<class Number>
Number number_at(std::span<const std::uint8_t> bytes, std::size_t at) {
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
}

/// How much bytes differ from those so far before them.
double difference(std::span<const std::uint8_t> bytes, std::size_t before) {
    double sum = 0;
    for (std::size_t i = before; i < bytes.size(); ++i)
        sum += std::abs(int(bytes[i]) - int(bytes[i - before]));
    return bytes.size() > before ? sum / double(bytes.size() - before) : 0;
}

/// Whether a number may be of pixels, as they are or normalized: of other bytes, few are.
bool is_plausible(float number) {
    const float size = std::abs(number);
    return size >= 1e-9f && size <= 1e5f;
}

} // namespace

void GuessedPixels::add(std::span<const std::uint8_t> bytes, std::size_t row_bytes) {
    constexpr std::size_t least_row = 3 * lanes; // shorter ones are not told from words
    if (are_enough()) return;
    ++records_;
    if (bytes.size() % lanes != 0 || row_bytes < least_row) in_words_ = false;
    if (!in_words_) return;
    for (std::size_t i = 0; i < bytes.size(); i += lanes) {
        const bool is_zero = number_at<std::int32_t>(bytes, i) == 0;
        words_ += is_zero ? 0 : 1;
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            values_[lane].set(bytes[i + lane]);
            sums_[lane] += bytes[i + lane];
        }
        const auto whole = number_at<std::int32_t>(bytes, i);
        const auto real = number_at<float>(bytes, i);
        are_small_ = are_small_ && whole >= INT16_MIN && whole <= UINT16_MAX;
        are_floats_ = are_floats_ && (is_zero || is_plausible(real));
        if (are_floats_) {
            least_ = std::min(least_, real);
            most_ = std::max(most_, real);
        }
    }
    from_word_ += std::min(difference(bytes, lanes), difference(bytes, 2 * lanes)); // or numbers of 8 bytes
    from_row_ += difference(bytes, row_bytes);
    from_far_ += difference(bytes, bytes.size() / 2 + 1);
}

bool GuessedPixels::look_like_floats() const {
    // The highest byte has sign and exponent, so it is unlike another; in a dark picture of little contrast,
    // which reads as floats too, all are alike.
    constexpr double unlike = 16;
    const auto differs = [&](double sum) { return std::abs(sum - sums_.back()) > unlike * double(words_); };
    return are_floats_ && std::ranges::any_of(sums_, differs);
}

bool GuessedPixels::are_noise() const {
    constexpr double contrast = 32; // on average
    return words_ >= least_words && from_far_ > contrast * double(records_) &&
           std::min(from_word_, from_row_) > clearly * from_far_;
}

std::string GuessedPixels::look_like() const {
    if (!in_words_ || words_ < least_words) return "";
    if (look_like_floats())
        return fmt::format("float32 numbers from {:.3g} to {:.3g}", double(least_), double(most_));
    if (from_row_ <= clearly * from_word_) return ""; // rows continue each other, as a picture's do
    if (are_small_ && values_.front() != values_.back()) return "int32 numbers";
    std::size_t constant = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) constant += is_lane_constant(lane) ? 1 : 0;
    if (constant == 0 || constant == lanes) return "";
    return constant == 1 ? "pixels of four bytes, one of which is always the same (RGBA)"
                         : "numbers of two bytes or more";
}

} // namespace towers
