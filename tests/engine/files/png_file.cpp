#include "engine/files/png_file.h"

#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <memory>
#include <spng.h>
#include <string>
#include <vector>

namespace towers {
namespace {

/// The pixels of a PNG file of 8 bits a channel.
std::vector<std::uint8_t> decode(const std::string& file) {
    const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> decoder(spng_ctx_new(0), spng_ctx_free);
    REQUIRE(spng_set_png_buffer(decoder.get(), file.data(), file.size()) == 0);
    std::size_t bytes = 0;
    REQUIRE(spng_decoded_image_size(decoder.get(), SPNG_FMT_PNG, &bytes) == 0);
    std::vector<std::uint8_t> pixels(bytes);
    REQUIRE(spng_decode_image(decoder.get(), pixels.data(), bytes, SPNG_FMT_PNG, 0) == 0);
    return pixels;
}

} // namespace

TEST_CASE("a PNG file has the pixels that were written") {
    const test::TemporaryFolder folder;
    for (const unsigned channels : {1u, 3u}) {
        std::vector<std::uint8_t> pixels;
        for (unsigned i = 0; i < 7 * 5 * channels; ++i) pixels.push_back(std::uint8_t(i * 37));
        write_png(folder / "a.png", {.width = 7, .height = 5, .channels = channels}, pixels);
        CHECK(decode(test::read_text(folder / "a.png")) == pixels);
    }
    const std::vector<std::uint8_t> pixel(1);
    const std::string error = test::input_error(
        [&] { write_png(folder / "no/a.png", {.width = 1, .height = 1, .channels = 1}, pixel); });
    CHECK(error.find("no/a.png") != std::string::npos);
}

} // namespace towers
