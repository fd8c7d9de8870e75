#include "engine/data/resize.h"
#include "engine/data/converted.h"

#include <doctest/doctest.h>

#include <vector>

namespace towers {
namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels pattern(unsigned height, unsigned width) {
    Pixels pixels;
    for (unsigned y = 0; y < height; ++y)
        for (unsigned x = 0; x < width; ++x)
            pixels.push_back(std::uint8_t((x * 37 + y * 91 + x * y * 5 + 13) % 251));
    return pixels;
}

Pixels resized(Resizer::Size from, Resizer::Size to) {
    Pixels pixels(std::size_t(to.height) * to.width);
    Resizer(from, to).resize(pattern(from.height, from.width), pixels);
    return pixels;
}

} // namespace

TEST_CASE("images are resized as Pillow 11.3 resizes them with BILINEAR") {
    CHECK(resized({5, 4}, {3, 6}) ==
          Pixels{52, 72, 98, 124, 150, 169, 139, 163, 171, 109, 118, 141, 87, 115, 151, 187, 152, 108});
    CHECK(resized({7, 9}, {2, 3}) == Pixels{129, 134, 119, 125, 129, 117});
    CHECK(resized({3, 3}, {5, 5}) == Pixels{13,  28,  50,  72,  87,  49,  65, 88,  112, 127, 104, 121, 146,
                                            171, 188, 159, 177, 204, 140, 98, 195, 214, 242, 120, 38});
    CHECK(resized({1, 1}, {2, 3}) == Pixels(6, 13));
    CHECK(resized({6, 5}, {6, 2}) == Pixels{50, 124, 146, 150, 174, 96, 87, 191, 172, 114, 108, 152});
    CHECK(resized({4, 3}, {4, 3}) == pattern(4, 3));
    std::uint32_t sum = 0;
    for (const std::uint8_t each : resized({600, 431}, {64, 64})) sum = sum * 31 + each;
    CHECK(sum == 3574523371u);
}

TEST_CASE("grey images become coloured ones and coloured ones grey, at another size too") {
    const Pixels red = pattern(2, 3), green{red[3], red[4], red[5], red[0], red[1], red[2]},
                 blue{red[2], red[1], red[0], red[5], red[4], red[3]};
    Pixels images(18, 77); // of record 0
    for (const Pixels& plane : {red, green, blue}) images.insert(images.end(), plane.begin(), plane.end());
    const auto data = [&] {
        return std::make_unique<Dataset>(DataInfo{"any", {"a", "b"}, {2, 3, 3}}, images,
                                         std::vector<std::uint32_t>{0, 1});
    };
    const std::vector<std::uint32_t> second{1}, both{1, 0};

    const ConvertedSource grey(data(), {2, 3, 1});
    CHECK(grey.image_size() == ImageSize{2, 3, 1});
    CHECK(grey.info().classes.size() == 2);
    CHECK(grey.labels()[1] == 1);
    Pixels got(12);
    grey.read(both, got);
    CHECK(got == Pixels{75, 106, 138, 60, 90, 119, 77, 77, 77, 77, 77, 77}); // the first six: Pillow's "L"

    const ConvertedSource colour(std::make_unique<ConvertedSource>(data(), ImageSize{2, 3, 1}), {4, 5, 3});
    got.assign(60, 0);
    colour.read(second, got);
    Pixels plane(20);
    Resizer({2, 3}, {4, 5}).resize(Pixels{75, 106, 138, 60, 90, 119}, plane);
    for (std::size_t c = 0; c < 3; ++c)
        CHECK(Pixels(got.begin() + std::ptrdiff_t(20 * c), got.begin() + std::ptrdiff_t(20 * c + 20)) ==
              plane);
}

} // namespace towers
