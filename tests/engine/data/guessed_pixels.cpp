// Pixels in TFRecord files that are no bytes, and pictures that only look so at first sight.
#include "engine/data/guessed_pixels.h"
#include "engine/data/formats.h"
#include "engine/data/record_file.h"
#include "engine/data/tf_example.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

/// What pixel (y, x) of the i-th record has, 0 to 255.
using Drawing = std::function<unsigned(unsigned i, unsigned y, unsigned x)>;

std::mt19937& random_numbers() {
    static std::mt19937 numbers(7); // NOLINT: the same in each run
    return numbers;
}

unsigned noise(unsigned, unsigned, unsigned) { return random_numbers()() % 256; }
unsigned slope(unsigned i, unsigned y, unsigned x) { return (3 * y + 5 * x + 7 * i) % 256; }
/// A ring or a stroke on black, as digits are.
unsigned digit(unsigned i, unsigned y, unsigned x) {
    const double down = y - 13.5, right = x - 13.5 + i % 3, radius = std::sqrt(down * down + right * right);
    const double from_line = i % 2 == 0 ? std::abs(radius - 7) : std::abs(right + 0.1 * down);
    return unsigned(255 * std::max(0.0, 1 - from_line / 2));
}

template<class Number>
Bytes as(Number value) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(&value);
    return {first, first + sizeof value};
}

/// What pictures of 28x28, or of another size, look like as squares if `store` turns their pixels into bytes.
std::string look(const Drawing& draw, const std::function<Bytes(unsigned)>& store, unsigned records = 12,
                 unsigned height = 28, unsigned width = 28) {
    GuessedPixels guessed;
    for (unsigned i = 0; i < records; ++i) {
        Bytes bytes;
        for (unsigned y = 0; y < height; ++y)
            for (unsigned x = 0; x < width; ++x) {
                const Bytes pixel = store(draw(i, y, x));
                bytes.insert(bytes.end(), pixel.begin(), pixel.end());
            }
        const auto side = std::size_t(std::lround(std::sqrt(double(bytes.size()))));
        const auto colours = std::size_t(std::lround(std::sqrt(double(bytes.size()) / 3)));
        REQUIRE((side * side == bytes.size() || 3 * colours * colours == bytes.size()));
        guessed.add(bytes, side * side == bytes.size() ? side : 3 * colours);
    }
    return guessed.look_like();
}

} // namespace

TEST_CASE("numbers of several bytes do not pass for pixels") {
    const std::map<std::string, Drawing> drawings{{"noise", noise}, {"slope", slope}, {"digits", digit}};
    for (const auto& [name, draw] : drawings) {
        const std::string& called = name; // clang before 16 captures no binding
        CAPTURE(called);
        for (const unsigned records : {1u, 12u}) {
            const auto looks = [&, &drawing = draw](auto&& store) { return look(drawing, store, records); };
            CHECK(looks([](unsigned v) {
                      return as(float(v) / 255);
                  }).starts_with("float32 numbers from 0 to "));
            CHECK(looks([](unsigned v) { return as(float(v)); }).starts_with("float32 numbers from 0 to 2"));
            CHECK(looks([](unsigned v) {
                      return as((float(v) - 33) / 79);
                  }).starts_with("float32 numbers from -0.4"));
            CHECK(looks([](unsigned v) { return as(std::int32_t(v)); }) == "int32 numbers");
            CHECK(looks([](unsigned v) { return as(std::int32_t(v) - 128); }) == "int32 numbers");
            CHECK(looks([](unsigned v) {
                      return Bytes{0, 0, 0, std::uint8_t(v)};
                  }) == "numbers of two bytes or more");
            const std::string rgba = "pixels of four bytes, one of which is always the same (RGBA)";
            CHECK(looks([](unsigned v) {
                      return Bytes{std::uint8_t(v), std::uint8_t(v / 2 + 9), std::uint8_t(255 - v), 255};
                  }) == rgba);
            CHECK(looks([](unsigned v) {
                      return Bytes{255, std::uint8_t(v), std::uint8_t(v / 2 + 9), std::uint8_t(255 - v)};
                  }) == rgba);
        }
    }
    CHECK(look(slope, [](unsigned v) { return as(0.2f + 0.7f * float(v) / 255); }) ==
          "float32 numbers from 0.2 to 0.9");
    CHECK(look(slope, [](unsigned v) { return as(-0.9f + 0.7f * float(v) / 255); }) ==
          "float32 numbers from -0.9 to -0.2");
    // In colours, and others whose number of bytes happens to be that of a square
    CHECK(look(
              slope, [](unsigned v) { return as(float(v)); }, 4, 28, 3 * 28) != "");
    CHECK(look(
              slope,
              [](unsigned v) {
                  return Bytes{std::uint8_t(v), 9, std::uint8_t(v), 255};
              },
              4, 48, 64) != "");
    CHECK(look(
              slope, [](unsigned v) { return as(std::uint16_t(v)); }, 4, 32, 64) ==
          "numbers of two bytes or more");
    CHECK(look(
              slope, [](unsigned v) { return as(std::int64_t(v)); }, 4, 32, 16) == "int32 numbers");
}

TEST_CASE("grey and coloured squares pass, whatever they show") {
    const auto byte = [](unsigned v) { return Bytes{std::uint8_t(v)}; };
    const auto colour = [](unsigned v) { return Bytes{std::uint8_t(v), std::uint8_t(v / 3), 0}; };
    const std::map<std::string, Drawing> drawings{
        {"noise", noise},
        {"slope", slope},
        {"digits", digit},
        {"black", [](unsigned, unsigned, unsigned) { return 0u; }},
        {"white", [](unsigned, unsigned, unsigned) { return 255u; }},
        {"grey that reads as 3.004", [](unsigned, unsigned, unsigned) { return 64u; }},
        {"dark", [](unsigned i, unsigned y, unsigned x) { return 54 + noise(i, y, x) % 14; }},
        {"dark slope", [](unsigned, unsigned y, unsigned x) { return 56 + (y + x) / 6; }},
        {"a stroke in one column", [](unsigned, unsigned, unsigned x) { return x == 12 ? 250u : 0u; }},
        {"strokes", [](unsigned, unsigned y, unsigned x) { return x % 4 == 3 ? 0u : 9 * x + y % 3; }},
        {"black and white", [](unsigned, unsigned, unsigned x) { return x / 2 % 2 == 1 ? 255u : 0u; }},
        {"wide stripes",
         [](unsigned, unsigned, unsigned x) { return x % 8 == 3 || x % 8 == 7 ? 255u : 30 * (x % 8); }},
        {"rows", [](unsigned, unsigned y, unsigned) { return y % 2 == 0 ? 255u : 0u; }},
        {"squares", [](unsigned, unsigned y, unsigned x) { return (y / 4 + x / 4) % 2 == 0 ? 255u : 0u; }},
        {"points", [](unsigned i, unsigned y, unsigned x) { return y == i && x == 4 ? 255u : 0u; }},
    };
    for (const auto& [name, draw] : drawings) {
        const std::string& called = name; // clang before 16 captures no binding
        CAPTURE(called);
        for (const unsigned records : {1u, 12u, 100u})
            for (const unsigned side : {8u, 28u, 32u, 33u}) {
                CHECK(look(draw, byte, records, side, side) == "");
                CHECK(look(draw, colour, records, side, side) == "");
            }
    }
}

TEST_CASE("noise is told from pictures") {
    const auto is_noise = [](const Drawing& draw, unsigned bytes, unsigned height, unsigned width) {
        GuessedPixels guessed;
        for (unsigned i = 0; i < 8; ++i) {
            Bytes pixels;
            for (unsigned y = 0; y < height; ++y)
                for (unsigned x = 0; x < width * bytes; ++x) pixels.push_back(std::uint8_t(draw(i, y, x)));
            guessed.add(pixels, std::size_t(std::lround(std::sqrt(double(pixels.size())))));
        }
        return guessed.are_noise();
    };
    CHECK(is_noise(noise, 1, 28, 28));
    CHECK(is_noise(noise, 4, 32, 32)); // RGBA without a constant byte
    CHECK_FALSE(is_noise(slope, 1, 28, 28));
    CHECK_FALSE(is_noise(digit, 1, 28, 28));
    CHECK_FALSE(is_noise([](unsigned, unsigned, unsigned) { return 7u; }, 1, 28, 28));
    CHECK_FALSE(
        is_noise([](unsigned i, unsigned y, unsigned x) { return 60 + noise(i, y, x) % 20; }, 1, 28, 28));
}

TEST_CASE("TFRecord files without sizes are refused if they look like no bytes") {
    const test::TemporaryFolder folder;
    const std::string file = (folder / "train.tfrecord").string();
    const auto write = [&](unsigned records, const std::map<std::string, std::int64_t>& more) {
        std::string text;
        for (unsigned i = 0; i < records; ++i) {
            std::string image;
            for (unsigned k = 0; k < 28 * 28; ++k)
                for (const std::uint8_t each : as(float(noise(i, k, k)) / 255)) image += char(each);
            std::map<std::string, std::int64_t> whole{{"label", i % 3}};
            whole.insert(more.begin(), more.end());
            text += framed(write_tf_example({{"image_raw", image}}, whole));
        }
        test::write_text(file, text);
    };
    const auto error = [&] {
        return test::input_error([&] { open_data({.source = file, .split = Split::train}); });
    };
    const std::string advice =
        "give a byte (uint8) for each colour of a pixel, or the size in features height and width";
    for (const unsigned records : {1u, 100u}) {
        write(records, {});
        CHECK(error().starts_with(file +
                                  " has records whose bytes would be pictures of 56x56x1, but look like "
                                  "float32 numbers from 0 to 1"));
        CHECK(error().ends_with("; " + advice));
    }
    fs::copy_file(file, folder / "two\nlines.tfrecord");
    CHECK(test::input_error([&] {
              open_data({.source = (folder / "two\nlines.tfrecord").string(), .split = Split::train});
          }).starts_with((folder / "two?lines.tfrecord").string() + " has records"));
    write(3, {{"height", 56}, {"width", 56}}); // who says so is believed
    CHECK(error() == "nothing was thrown");
    write(3, {{"height", 28}, {"width", 28}});
    CHECK(error() == file + ", record 0 has 3136 bytes of pixels, which are no picture of 28x28 in grey or "
                            "colours; give a byte (uint8) for each colour of a pixel");
}

} // namespace towers
