#include "tests/conformance/harness.h"
#include "tests/conformance/reference_augment.h"

#include <cmath>

namespace towers {
namespace {

using namespace test;
using reference::AugmentedExample;
using reference::Draw;
using reference::Words;
using Box = Augmentation::Box;

constexpr std::uint64_t seed = 77;

/// Of records 0 to count - 1, in any slots.
std::vector<Draw> draw(Device& device, const Augmentation& a, ImageSize stored, ImageSize image,
                       std::uint32_t count, std::uint32_t epoch = 5) {
    Words examples;
    for (std::uint32_t i = 0; i < count; ++i) examples.insert(examples.end(), {7 * i + 3, i, epoch, 1});
    Trial trial(device);
    AugmentationLaunches launches = augmentation_launches(a, stored, image, seed, count);
    launches.draw.examples = trial.input(examples);
    const Tensor out = trial.output(count * AUGMENT_DRAWS * 4);
    launches.draw.draws = out;
    trial.run(launch(kernels::draw_augmentations, launches.draw));
    const std::vector<float> v = trial.floats(out);
    std::vector<Draw> draws;
    for (std::size_t i = 0; i < v.size(); i += 12)
        draws.push_back({int(v[i]), int(v[i + 1]), int(v[i + 2]), int(v[i + 3]), double(v[i + 4]),
                         double(v[i + 5]), double(v[i + 6]), double(v[i + 7]),
                         (uint(v[i + 8]) & FLIP_LEFT_RIGHT) != 0, (uint(v[i + 8]) & FLIP_UPSIDE_DOWN) != 0,
                         uint(v[i + 9]), uint(v[i + 10])});
    return draws;
}

/// Counts values in [0, 1) by tenths; each tenth should have its share within five standard deviations.
class Tenths {
public:
    void add(double value) {
        REQUIRE(value >= 0);
        REQUIRE(value < 1);
        ++counts_[std::size_t(value * 10)];
        ++total_;
    }
    void check(const char* what) const {
        INFO(std::string(what));
        for (const int count : counts_)
            CHECK(std::abs(count - total_ / 10.0) <= 5 * std::sqrt(total_ * 0.1 * 0.9));
    }

private:
    std::array<int, 10> counts_{};
    int total_ = 0;
};

} // namespace

KERNEL_TEST(draw_augmentations, "every device chooses the boxes that torchvision's rule gives") {
    Augmentation area, rare, crop;
    area.box = rare.box = Box::random_area;
    rare.area = {0.7f, 1};
    rare.aspect = {0.4f, 0.5f};
    crop.box = Box::random_crop;
    crop.pad = 5;
    crop.flip = Augmentation::Flip::half;
    crop.brightness = {0.5f, 1.5f};
    crop.contrast = {0, 0.25f};
    crop.saturation = {1, 7};
    crop.hue = {-0.5f, 0.5f};
    crop.cutout = 9;
    Augmentation alternating = crop, seldom = crop;
    alternating.flip = Augmentation::Flip::alternating;
    seldom.flip = Augmentation::Flip::probability;
    seldom.flip_probability = 0.2f;
    seldom.flip_vertical = 0.7f;
    struct Case {
        const Augmentation& settings;
        ImageSize stored, image;
    };
    for (const Case& c :
         {Case{area, {375, 500, 3}, {224, 224, 3}}, Case{area, {13, 11, 1}, {7, 9, 1}},
          Case{rare, {40, 50, 3}, {32, 32, 3}}, Case{crop, {32, 37, 3}, {28, 40, 3}},
          Case{alternating, {32, 37, 3}, {28, 40, 3}}, Case{seldom, {32, 37, 3}, {28, 40, 3}}}) {
        constexpr std::uint32_t count = 1000;
        std::vector<std::vector<Draw>> all;
        on_every_device([&](Device& device) {
            const std::vector<Draw> draws = draw(device, c.settings, c.stored, c.image, count);
            int other_boxes = 0;
            for (std::uint32_t i = 0; i < count; ++i) {
                const Draw& d = draws[i];
                const Draw e = AugmentedExample{c.settings, c.stored, c.image, seed, i, 5}.draw();
                const auto box = [](const Draw& x) { return std::array{x.top, x.left, x.height, x.width}; };
                other_boxes += box(d) == box(e) ? 0 : 1;
                if (!all.empty()) REQUIRE(box(d) == box(all[0][i]));
                REQUIRE(d.brightness == doctest::Approx(e.brightness).epsilon(1e-6));
                REQUIRE(d.contrast == doctest::Approx(e.contrast).epsilon(1e-6));
                REQUIRE(d.saturation == doctest::Approx(e.saturation).epsilon(1e-6));
                REQUIRE(d.hue == doctest::Approx(e.hue).epsilon(1e-6));
                REQUIRE(d.flip == e.flip);
                REQUIRE(d.flip_vertical == e.flip_vertical);
                REQUIRE(d.cut_top == e.cut_top);
                REQUIRE(d.cut_left == e.cut_left);
            }
            // A side within 1e-5 of a half may be rounded to the other side in double precision.
            CHECK(other_boxes <= 10);
            all.push_back(draws);
        });
    }
}

TEST_CASE("crops by area and aspect fill their ranges evenly, everywhere in the image") {
    Augmentation a;
    a.box = Box::random_area;
    a.area = {0.05f, 0.4f}; // the first try always fits, so the ranges stay uniform
    a.aspect = {0.5f, 2};
    on_every_device([&](Device& device) {
        Tenths areas, aspects, tops, lefts;
        for (const Draw& d : draw(device, a, {1000, 1000, 3}, {224, 224, 3}, 4000)) {
            // Within the rounding of a side to whole pixels
            const double area = double(d.height) * d.width / 1e6, aspect = double(d.width) / d.height;
            areas.add(std::clamp((area - 0.05) / 0.35, 0.0, 0.99999));
            CHECK(std::abs(area - 0.225) < 0.1755);
            aspects.add(std::clamp(std::log2(aspect) / 2 + 0.5, 0.0, 0.99999));
            CHECK(std::abs(std::log2(aspect)) < 1.01);
            REQUIRE(d.top + d.height <= 1000);
            REQUIRE(d.left + d.width <= 1000);
            tops.add(double(d.top) / (1001 - d.height));
            lefts.add(double(d.left) / (1001 - d.width));
        }
        areas.check("areas");
        aspects.check("aspects");
        tops.check("tops");
        lefts.check("lefts");
    });
}

TEST_CASE("padded crops, flips, cutouts and colours fill their ranges evenly") {
    Augmentation a;
    a.box = Box::random_crop;
    a.pad = 12;
    a.flip = Augmentation::Flip::half;
    a.cutout = 8;
    a.brightness = {0.6f, 1.4f};
    a.contrast = {0.5f, 1.5f};
    a.saturation = {0, 2};
    a.hue = {-0.1f, 0.3f};
    on_every_device([&](Device& device) {
        Tenths tops, lefts, cut_tops, cut_lefts, brightness, contrast, saturation, hue;
        int flips = 0;
        for (const Draw& d : draw(device, a, {32, 32, 3}, {27, 37, 3}, 4000)) {
            REQUIRE(d.height == 27);
            REQUIRE(d.width == 37);
            tops.add((d.top + 12) / 30.0);
            lefts.add((d.left + 12) / 20.0);
            cut_tops.add(d.cut_top / 20.0);
            cut_lefts.add(d.cut_left / 30.0);
            brightness.add((d.brightness - 0.6) / 0.8 + 1e-7);
            contrast.add(d.contrast - 0.5);
            saturation.add(d.saturation / 2);
            hue.add((d.hue + 0.1) / 0.4 + 1e-7);
            flips += d.flip ? 1 : 0;
        }
        for (const auto& [tenths, what] :
             {std::pair{&tops, "tops"}, std::pair{&lefts, "lefts"}, std::pair{&cut_tops, "cutouts' tops"},
              std::pair{&cut_lefts, "cutouts' lefts"}, std::pair{&brightness, "brightness"},
              std::pair{&contrast, "contrast"}, std::pair{&saturation, "saturation"}, std::pair{&hue, "hue"}})
            tenths->check(what);
        CHECK(std::abs(flips - 2000) <= 160);
    });
}

TEST_CASE("flips come as often as they should, and alternating ones every second epoch") {
    Augmentation a;
    a.flip = Augmentation::Flip::probability;
    a.flip_probability = 0.9f;
    a.flip_vertical = 0.2f;
    Augmentation alternating;
    alternating.flip = Augmentation::Flip::alternating;
    on_every_device([&](Device& device) {
        int across = 0, down = 0, both = 0, even = 0;
        for (const Draw& d : draw(device, a, {32, 32, 3}, {32, 32, 3}, 4000)) {
            across += d.flip ? 1 : 0;
            down += d.flip_vertical ? 1 : 0;
            both += d.flip && d.flip_vertical ? 1 : 0;
        }
        CHECK(std::abs(across - 3600) <= 95);
        CHECK(std::abs(down - 800) <= 127);
        CHECK(std::abs(both - 720) <= 122);
        const auto in_epoch = [&](std::uint32_t epoch) {
            return draw(device, alternating, {32, 32, 3}, {32, 32, 3}, 4000, epoch);
        };
        const std::vector<Draw> zero = in_epoch(0), one = in_epoch(1), six = in_epoch(6);
        for (std::size_t i = 0; i < zero.size(); ++i) {
            REQUIRE(zero[i].flip != one[i].flip);
            REQUIRE(zero[i].flip == six[i].flip);
            even += zero[i].flip ? 1 : 0;
        }
        CHECK(std::abs(even - 2000) <= 160);
    });
}

} // namespace towers
