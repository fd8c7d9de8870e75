#include "engine/data/contact_sheet.h"

#include "engine/files/canvas.h"

#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <memory>
#include <spng.h>

using namespace towers;
using namespace towers::test;

namespace {

struct Sheet {
    unsigned width, height;
    std::vector<std::uint8_t> pixels; ///< [height][width][3]
    std::uint8_t at(unsigned x, unsigned y, unsigned c) const {
        return pixels[(std::size_t(y) * width + x) * 3 + c];
    }
};

Sheet read_sheet(const std::filesystem::path& path) {
    const std::string text = read_text(path);
    const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> png(spng_ctx_new(0), spng_ctx_free);
    spng_set_png_buffer(png.get(), text.data(), text.size());
    spng_ihdr header{};
    REQUIRE(spng_get_ihdr(png.get(), &header) == 0);
    Sheet sheet{header.width, header.height,
                std::vector<std::uint8_t>(std::size_t(header.width) * header.height * 3)};
    REQUIRE(spng_decode_image(png.get(), sheet.pixels.data(), sheet.pixels.size(), SPNG_FMT_RGB8, 0) == 0);
    return sheet;
}

} // namespace

TEST_CASE("a contact sheet shows each image magnified, in rows, above its label") {
    const TemporaryFolder folder;
    const SheetImage colour{{1, 2, 3}, {10, 20, 30, 40, 50, 60}}, grey{{2, 2, 1}, {1, 2, 3, 4}};
    const std::vector<SheetCell> cells = {
        {"ab", {colour, grey}}, {"", {colour, grey}}, {"c", {colour, grey}}};
    write_contact_sheet(folder / "sheet.png", cells, 2);
    const Sheet sheet = read_sheet(folder / "sheet.png");
    // 2x1 pixels 48 times as large, then 2x2; gaps of 6 and 3 pixels
    CHECK(sheet.at(6, 6, 0) == 10);
    CHECK(sheet.at(6 + 47, 6 + 47, 2) == 50);
    CHECK(sheet.at(6 + 48, 6, 1) == 40);
    CHECK(sheet.at(6 + 96 + 3, 6, 0) == 1);
    CHECK(sheet.at(6 + 96 + 3 + 95, 6 + 95, 2) == 4);
    const unsigned cell_width = 6 + 2 * (96 + 3), cell_height = 96 + 12 + 6;
    CHECK(sheet.width == 2 * cell_width + 6);
    CHECK(sheet.height == 2 * cell_height + 6);
    const auto dark_below = [&](unsigned column, unsigned row) {
        unsigned dark = 0;
        for (unsigned y = 6 + row * cell_height + 97; y < 6 + row * cell_height + 110; ++y)
            for (unsigned x = 6 + column * cell_width; x < 6 + (column + 1) * cell_width - 6; ++x)
                dark += sheet.at(x, y, 0) == 0 ? 1 : 0;
        return dark;
    };
    CHECK(dark_below(0, 0) > dark_below(0, 1));
    CHECK(dark_below(0, 1) > 0);
    CHECK(dark_below(1, 0) == 0); // no label
    CHECK(dark_below(1, 1) == 0); // no cell
}

TEST_CASE("labels may have any bytes and any length") {
    const TemporaryFolder folder;
    const SheetImage image{{1, 1, 1}, {0}};
    const std::vector<SheetCell> cells = {{std::string(3000, 'W'), {image}}, {"caf\xc3\xa9\x1b\n", {image}}};
    write_contact_sheet(folder / "sheet.png", cells, 1);
    CHECK(read_sheet(folder / "sheet.png").width == 6 + 96 + 3 + 6);
}

TEST_CASE("a sheet that would be too large is refused before it takes memory") {
    const SheetCell cell{"", {{{4000, 4000, 1}, {}}}};
    const std::vector<SheetCell> cells(10, cell);
    CHECK(input_error([&] { write_contact_sheet("sheet.png", cells, 5); }).find("show fewer") !=
          std::string::npos);
}

TEST_CASE("text that reads upwards is the other text turned") {
    const TemporaryFolder folder;
    Canvas right(60, 60), up(60, 60);
    right.write("Lg?", 2, 3, 40);
    up.write("Lg\xff", 3, 59 - 2, 40, Canvas::Direction::up);
    right.save(folder / "right.png");
    up.save(folder / "up.png");
    const Sheet a = read_sheet(folder / "right.png"), b = read_sheet(folder / "up.png");
    unsigned dark = 0, differing = 0;
    for (unsigned y = 0; y < 60; ++y)
        for (unsigned x = 0; x < 60; ++x) {
            dark += a.at(x, y, 0) == 0 ? 1 : 0;
            differing += a.at(x, y, 0) != b.at(y, 59 - x, 0) ? 1 : 0;
        }
    CHECK(dark > 20);
    CHECK(differing == 0);
}
