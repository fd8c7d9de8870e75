#include "engine/files/png_file.h"

#include "engine/error.h"
#include "engine/files/atomic_file.h"

#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <spng.h>

namespace towers {

void write_png(const std::filesystem::path& path, unsigned width, unsigned height, unsigned channels,
               std::span<const std::uint8_t> pixels) {
    const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> png(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
    const auto check = [&](int error) {
        if (error != 0)
            throw InputError(fmt::format("cannot write {}: {}", path.string(), spng_strerror(error)));
    };
    spng_ihdr header{};
    header.width = width;
    header.height = height;
    header.bit_depth = 8;
    header.color_type = channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
    check(spng_set_option(png.get(), SPNG_ENCODE_TO_BUFFER, 1));
    check(spng_set_ihdr(png.get(), &header));
    check(spng_encode_image(png.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
    std::size_t bytes = 0;
    int error = 0;
    const std::unique_ptr<void, void (*)(void*)> encoded(spng_get_png_buffer(png.get(), &bytes, &error),
                                                         std::free);
    check(error);
    write_file_atomically(path, {static_cast<const char*>(encoded.get()), bytes});
}

} // namespace towers
