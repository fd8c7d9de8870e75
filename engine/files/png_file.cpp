#include "engine/files/png_file.h"

#include "backends/error.h"
#include "engine/files/output.h"

#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <spng.h>

namespace towers {

std::string encode_png(const PngSize& size, std::span<const std::uint8_t> pixels) {
    const auto check = [&](int error) {
        if (error != 0) throw InputError(fmt::format("cannot make a PNG: {}", spng_strerror(error)));
    };
    const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> encoder(spng_ctx_new(SPNG_CTX_ENCODER),
                                                                 spng_ctx_free);
    if (!encoder) throw std::bad_alloc();
    spng_ihdr header{.width = size.width, .height = size.height, .bit_depth = 8};
    header.color_type = size.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
    check(spng_set_option(encoder.get(), SPNG_ENCODE_TO_BUFFER, 1));
    check(spng_set_ihdr(encoder.get(), &header));
    check(spng_encode_image(encoder.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
    std::size_t bytes = 0;
    int error = 0;
    const std::unique_ptr<void, void (*)(void*)> file(spng_get_png_buffer(encoder.get(), &bytes, &error),
                                                      std::free);
    check(error);
    return {static_cast<const char*>(file.get()), bytes};
}

void write_png(const std::filesystem::path& path, const PngSize& size, std::span<const std::uint8_t> pixels) {
    write_output(path, encode_png(size, pixels));
}

} // namespace towers
