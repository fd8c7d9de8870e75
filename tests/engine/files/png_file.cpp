#include "engine/files/png_file.h"

#include "tests/support/files.h"

#include <array>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <spng.h>
#include <vector>

using namespace towers;
using namespace towers::test;

namespace {

struct Png {
    spng_ihdr header{};
    std::vector<std::uint8_t> pixels;
};

Png read_png(const std::filesystem::path& path) {
    const std::string text = read_text(path);
    const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> png(spng_ctx_new(0), spng_ctx_free);
    spng_set_png_buffer(png.get(), text.data(), text.size());
    Png read;
    REQUIRE(spng_get_ihdr(png.get(), &read.header) == 0);
    std::size_t bytes = 0;
    REQUIRE(spng_decoded_image_size(png.get(), SPNG_FMT_PNG, &bytes) == 0);
    read.pixels.resize(bytes);
    REQUIRE(spng_decode_image(png.get(), read.pixels.data(), bytes, SPNG_FMT_PNG, 0) == 0);
    return read;
}

} // namespace

TEST_CASE("a PNG file has the pixels that it was written with") {
    const TemporaryFolder folder;
    std::vector<std::uint8_t> pixels(5 * 3 * 3);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = std::uint8_t(i * 37);
    write_png(folder / "colour.png", 5, 3, 3, pixels);
    const Png colour = read_png(folder / "colour.png");
    CHECK(colour.header.width == 5);
    CHECK(colour.header.height == 3);
    CHECK(colour.header.color_type == SPNG_COLOR_TYPE_TRUECOLOR);
    CHECK(colour.pixels == pixels);
    write_png(folder / "grey.png", 9, 5, 1, pixels);
    const Png grey = read_png(folder / "grey.png");
    CHECK(grey.header.color_type == SPNG_COLOR_TYPE_GRAYSCALE);
    CHECK(grey.pixels == pixels);
}

TEST_CASE("a PNG file that cannot be written is named") {
    const std::array<std::uint8_t, 3> pixel{};
    CHECK(input_error([&] { write_png("/nonexistent/a.png", 1, 1, 3, pixel); }).find("/nonexistent") !=
          std::string::npos);
}
