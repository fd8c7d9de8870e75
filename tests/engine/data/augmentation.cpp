#include "engine/data/augmentation.h"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

namespace towers {
namespace {

using Box = Augmentation::Box;

constexpr ImageSize cifar{32, 32, 3};
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::array<unsigned, 4> box(Box kind, ImageSize stored, ImageSize image, float fraction = 1,
                            Range aspect = {0.75f, 1.5f}) {
    Augmentation a;
    a.box = kind;
    a.fraction = fraction;
    a.aspect = aspect;
    const DrawAugmentationsParams p = augmentation_launches(a, stored, image, 1, 1).draw;
    return {(p.height - p.box_height) / 2, (p.width - p.box_width) / 2, p.box_height, p.box_width};
}

std::string problem(const Augmentation& a, ImageSize stored = cifar, ImageSize image = cifar) {
    const auto found = find_problem(a, stored, image);
    CHECK((found && !found->what.empty() && found->what.back() != '.') == found.has_value());
    if (found) CHECK_THROWS_AS(augmentation_launches(a, stored, image, 1, 1), std::invalid_argument);
    return found ? found->setting : "";
}

template<class Change>
std::string problem_with(Change change, ImageSize stored = cifar, ImageSize image = cifar) {
    Augmentation a;
    change(a);
    return problem(a, stored, image);
}

} // namespace

TEST_CASE("an augmentation without settings copies the images' bytes") {
    CHECK(problem({}) == "");
    const AugmentationLaunches launches = augmentation_launches({}, cifar, cifar, 0x500000007, 128);
    CHECK(launches.draw.box == AUGMENT_BOX_FIXED);
    CHECK(launches.draw.seed_low == 7);
    CHECK(launches.draw.seed_high == 5);
    CHECK(launches.draw.flip == 0);
    CHECK(launches.images.jitter == 0);
    CHECK(launches.images.cutout == 0);
    CHECK(launches.images.centre_g == 0);
    CHECK(launches.images.scale_b == 1);
    CHECK_FALSE(launches.needs_sums);
    CHECK_FALSE(launches.needs_operations());
    CHECK_FALSE(launches.needs_erasing);
    CHECK(random_part({}) == nullptr);
}

TEST_CASE("what augment_images does alone needs no operations, and the last of these leaves the values") {
    Augmentation a;
    a.contrast = {0.5f, 1.5f};
    a.cutout = 8;
    a.values = Augmentation::Values::signed_unit;
    const AugmentationLaunches alone = augmentation_launches(a, cifar, cifar, 1, 1);
    CHECK_FALSE(alone.needs_operations());
    CHECK(alone.needs_sums);
    CHECK(alone.images.cutout == 8);
    a.blur = {3, {1, 2}, 0.5f};
    a.rand_augment.operations = 2;
    a.rotation = {1, 2};
    const AugmentationLaunches more = augmentation_launches(a, cifar, cifar, 1, 1);
    CHECK(more.transforms.size() == 6); // rotation, policy, jitter, blur of rows and columns
    CHECK_FALSE(more.needs_sums);
    CHECK(more.images.jitter == 0);
    CHECK(more.images.cutout == 0);
    CHECK(more.images.centre_g == 0);
    CHECK(more.images.scale_g == 1);
    for (std::size_t i = 0; i < 6; ++i) {
        CHECK(more.transforms[i].slot == i);
        CHECK(more.transforms[i].slots == 6);
        CHECK(more.transforms[i].cutout == (i == 5 ? 8 : 0));
        CHECK(more.transforms[i].centre_b == (i == 5 ? alone.images.centre_b : 0));
        CHECK(more.transforms[i].scale_r == (i == 5 ? alone.images.scale_r : 1));
    }
}

TEST_CASE("centred boxes equal those of the systems that they are named after") {
    using Rectangle = std::array<unsigned, 4>;
    CHECK(box(Box::whole, {300, 400, 3}, {299, 299, 3}) == Rectangle{0, 0, 300, 400});
    CHECK(box(Box::centre, {299, 299, 3}, {299, 299, 3}, 0.875f) == Rectangle{18, 18, 263, 263});
    CHECK(box(Box::centre, {1, 2, 3}, {299, 299, 3}, 0.01f) == Rectangle{0, 0, 1, 2});
    // Resize(256) gives 256x341; CenterCrop(224) cuts 224x224 out of that
    CHECK(box(Box::centre_fit, {384, 512, 3}, {224, 224, 3}, 0.875f) == Rectangle{24, 88, 336, 336});
    CHECK(box(Box::centre_fit, {40, 60, 3}, {10, 20, 3}) == Rectangle{5, 0, 30, 60});
    CHECK(box(Box::centre_crop, {32, 35, 3}, {24, 24, 3}) == Rectangle{4, 5, 24, 24});
    // The fallback of crops by area and aspect
    CHECK(box(Box::random_area, {100, 200, 3}, cifar) == Rectangle{0, 25, 100, 150});
    CHECK(box(Box::random_area, {200, 75, 3}, cifar) == Rectangle{50, 0, 100, 75});
    CHECK(box(Box::random_area, {100, 120, 3}, cifar) == Rectangle{0, 0, 100, 120});
}

TEST_CASE("areas and aspects keep their range at every size") {
    Augmentation a;
    a.box = Box::random_area;
    a.area = {0.05f, 1};
    a.aspect = {0.75f, 4.0f / 3};
    for (const ImageSize& stored :
         {ImageSize{1, 1, 3}, cifar, {299, 299, 3}, {4000, 6000, 3}, {16384, 16384, 3}}) {
        const DrawAugmentationsParams p = augmentation_launches(a, stored, cifar, 1, 1).draw;
        const double pixels = double(stored.height) * stored.width, unit = double(p.area_unit) / 4;
        CHECK(p.area_low * unit == doctest::Approx(0.05 * pixels).epsilon(1e-6));
        CHECK((p.area_low + p.area_span) * unit == doctest::Approx(pixels).epsilon(1e-6));
        CHECK(p.area_low + p.area_span < 1u << 24);
    }
}

TEST_CASE("bytes become values as the recipe says") {
    Augmentation a;
    a.values = Augmentation::Values::signed_unit;
    AugmentImagesParams p = augmentation_launches(a, cifar, cifar, 1, 1).images;
    CHECK((0 - p.centre_r) * p.scale_r == doctest::Approx(-1));
    CHECK((255 - p.centre_b) * p.scale_b == doctest::Approx(1));

    a.values = Augmentation::Values::normalized;
    a.mean = {0.1f, 0.2f, 0.4f};
    a.deviation = {0.5f, 0.25f, 0.1f};
    p = augmentation_launches(a, cifar, cifar, 1, 1).images;
    CHECK((255 - p.centre_r) * p.scale_r == doctest::Approx(1.8));
    CHECK((51 - p.centre_g) * p.scale_g == doctest::Approx(0));
    CHECK((0 - p.centre_b) * p.scale_b == doctest::Approx(-4));
}

TEST_CASE("an impossible augmentation is refused, and the message names the setting") {
    constexpr ImageSize large{40, 40, 3}, grey{32, 32, 1};
    const auto crop = [](auto& a) { a.box = Box::centre_crop; };
    CHECK(problem({}, cifar, grey) == "image");
    CHECK(problem({}, {0, 32, 3}) == "image");
    CHECK(problem({}, cifar, {32, 16385, 3}) == "image");
    CHECK(problem({}, {32, 32, 2}, {32, 32, 2}) == "image");
    CHECK(problem_with(crop) == "");
    CHECK(problem_with(crop, cifar, large) == "box");
    const auto padded = [](unsigned pad, Augmentation::Padding padding) {
        return [=](auto& a) { a.box = Box::random_crop, a.pad = pad, a.padding = padding; };
    };
    using Padding = Augmentation::Padding;
    CHECK(problem_with(padded(3, Padding::zero), cifar, large) == "box");
    CHECK(problem_with(padded(4, Padding::zero), cifar, large) == "");
    CHECK(problem_with(padded(31, Padding::reflect)) == "");
    CHECK(problem_with(padded(32, Padding::reflect)) == "pad");
    CHECK(problem_with([](auto& a) { a.brightness = {-0.1f, 1}; }) == "brightness");
    CHECK(problem_with([](auto& a) { a.contrast = {nan, 1}; }) == "contrast");
    CHECK(problem_with([](auto& a) { a.saturation = {0, 1e9f}; }) == "saturation");
    CHECK(problem_with([](auto& a) { a.cutout = 32; }) == "");
    CHECK(problem_with([](auto& a) { a.cutout = 33; }) == "cutout");
    CHECK(problem_with([](auto& a) { a.blur.kernel = 63; }) == "");
    CHECK(problem_with([](auto& a) { a.blur.kernel = 63; }, {31, 40, 3}, {31, 40, 3}) == "blur");
    CHECK(problem_with([](auto& a) { a.trivial_augment = true; }, {4097, 4096, 1}, {4097, 4096, 1}) ==
          "image");
    CHECK_THROWS_AS(augmentation_launches({}, cifar, {2048, 2048, 3}, 1, 1000), std::invalid_argument);
}

} // namespace towers
