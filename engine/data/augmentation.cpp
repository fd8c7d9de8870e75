#include "engine/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <stdexcept>

namespace towers {
namespace {

using Box = Augmentation::Box;
using Problem = std::optional<AugmentationProblem>;

constexpr unsigned largest_side = 1u << 14;

std::string text(const ImageSize& size) {
    return fmt::format("{}x{}x{}", size.height, size.width, size.channels);
}

Problem check_factor(const char* setting, const Range& range) {
    constexpr float most = 100;
    if (range.low >= 0 && range.low <= range.high && range.high <= most) return {};
    return AugmentationProblem{
        setting, fmt::format("is {} to {}; the lower value comes first and both lie at least at 0 and at "
                             "most {}",
                             range.low, range.high, most)};
}

Problem check_sizes(const ImageSize& stored, const ImageSize& image) {
    for (const ImageSize& size : {stored, image}) {
        const auto sound = [](unsigned side) { return side >= 1 && side <= largest_side; };
        if (!sound(size.height) || !sound(size.width))
            return AugmentationProblem{
                "image", fmt::format("has the size {}; sides are 1 to {} pixels", text(size), largest_side)};
        if (size.channels != 1 && size.channels != 3)
            return AugmentationProblem{
                "image", fmt::format("has the size {}; images have 1 or 3 channels", text(size))};
    }
    if (stored.channels != image.channels)
        return AugmentationProblem{
            "image", fmt::format("has {} channels in the data and {} in the network; they must be the same",
                                 stored.channels, image.channels)};
    return {};
}

Problem check_box(const Augmentation& a, const ImageSize& stored, const ImageSize& image) {
    const unsigned pad = a.box == Box::random_crop ? a.pad : 0;
    const unsigned shorter = std::min(stored.height, stored.width);
    if (a.padding == Augmentation::Padding::reflect && pad >= shorter)
        return AugmentationProblem{"pad", fmt::format("is {}; a mirror image of {} has less than {} pixels",
                                                      pad, text(stored), shorter)};
    const bool cropped = a.box == Box::centre_crop || a.box == Box::random_crop;
    if (cropped && (image.height > stored.height + 2 * pad || image.width > stored.width + 2 * pad))
        return AugmentationProblem{
            "box", fmt::format("is a crop of {} and the data's images have {}{}; choose a box that is "
                               "resized, or images that are large enough",
                               text(image), text(stored),
                               pad > 0 ? fmt::format(" with {} pixels of padding", pad) : "")};
    return {};
}

struct Rectangle {
    unsigned top, left, height, width;
};

Rectangle centred(const ImageSize& stored, double height, double width) {
    const auto side = [](double value, unsigned most) {
        return std::clamp(unsigned(std::floor(value + 0.5)), 1u, most);
    };
    const unsigned h = side(height, stored.height), w = side(width, stored.width);
    return {(stored.height - h) / 2, (stored.width - w) / 2, h, w};
}

/// The box of every image, or the fallback if boxes are random.
Rectangle fixed_box(const Augmentation& a, const ImageSize& stored, const ImageSize& image) {
    switch (a.box) {
    case Box::centre: { // as tf.image.central_crop
        const auto margin = [&](unsigned side) {
            return std::min(unsigned((side - double(side) * double(a.fraction)) / 2), (side - 1) / 2);
        };
        const unsigned top = margin(stored.height), left = margin(stored.width);
        return {top, left, stored.height - 2 * top, stored.width - 2 * left};
    }
    case Box::centre_fit: {
        const double scale =
            std::min(double(stored.height) / image.height, double(stored.width) / image.width);
        return centred(stored, image.height * scale * double(a.fraction),
                       image.width * scale * double(a.fraction));
    }
    case Box::random_area: {
        const double aspect = double(stored.width) / stored.height;
        const double wanted = std::clamp(aspect, double(a.aspect.low), double(a.aspect.high));
        return aspect < wanted ? centred(stored, stored.width / wanted, stored.width)
                               : centred(stored, stored.height, stored.height * wanted);
    }
    case Box::centre_crop:
        return centred(stored, image.height, image.width);
    case Box::whole:
    case Box::random_crop:
        break;
    }
    return {0, 0, stored.height, stored.width};
}

void set_area_and_aspect(DrawAugmentationsParams& p, const Augmentation& a, const ImageSize& stored) {
    // In units of which the whole image has 2^23 to 2^24, so that floats can count them.
    const double pixels = double(stored.height) * stored.width;
    int exponent = 0;
    std::frexp(pixels, &exponent); // pixels < 2^exponent
    const double units = std::ldexp(pixels, 24 - exponent);
    p.area_low = std::max(unsigned(std::floor(units * double(a.area.low) + 0.5)), 1u);
    const auto high = unsigned(std::min(std::floor(units * double(a.area.high) + 0.5), 16'777'215.0));
    p.area_span = std::max(high, p.area_low) - p.area_low;
    p.area_unit = float(std::ldexp(4.0, exponent - 24));
    // The middles of 256 equal parts
    const double step = std::pow(double(a.aspect.high) / double(a.aspect.low), 1.0 / 256);
    p.aspect_low = float(double(a.aspect.low) * std::sqrt(step));
    p.aspect_step = float(step);
}

} // namespace

Problem find_problem(const Augmentation& a, const ImageSize& stored, const ImageSize& image) {
    if (Problem problem = check_sizes(stored, image)) return problem;
    if (Problem problem = check_box(a, stored, image)) return problem;
    if (Problem problem = check_factor("brightness", a.brightness)) return problem;
    if (Problem problem = check_factor("contrast", a.contrast)) return problem;
    if (Problem problem = check_factor("saturation", a.saturation)) return problem;
    if (const unsigned shorter = std::min(image.height, image.width); a.cutout > shorter)
        return AugmentationProblem{"cutout", fmt::format("is {} pixels; images of {} take at most {}",
                                                         a.cutout, text(image), shorter)};
    return {};
}

AugmentationLaunches augmentation_launches(const Augmentation& a, const ImageSize& stored,
                                           const ImageSize& image, std::uint64_t seed, unsigned count) {
    if (const Problem problem = find_problem(a, stored, image))
        throw std::invalid_argument(fmt::format("augmentation: {} {}", problem->setting, problem->what));
    if (count * image.elements() >= std::uint64_t(1) << 31)
        throw std::invalid_argument(
            fmt::format("augmentation: a batch of {} images of {} is too large", count, text(image)));

    AugmentationLaunches launches{};
    DrawAugmentationsParams& draw = launches.draw;
    draw.seed_low = uint(seed);
    draw.seed_high = uint(seed >> 32);
    draw.count = count;
    draw.height = stored.height;
    draw.width = stored.width;
    draw.out_height = image.height;
    draw.out_width = image.width;
    draw.box = a.box == Box::random_area   ? AUGMENT_BOX_AREA
               : a.box == Box::random_crop ? AUGMENT_BOX_PADDED
                                           : AUGMENT_BOX_FIXED;
    const Rectangle box = fixed_box(a, stored, image);
    draw.box_top = box.top;
    draw.box_left = box.left;
    draw.box_height = box.height;
    draw.box_width = box.width;
    draw.pad = a.pad;
    set_area_and_aspect(draw, a, stored);
    draw.flip = a.flip ? 1 : 0;
    draw.cutout = a.cutout;
    draw.brightness_low = a.brightness.low;
    draw.brightness_high = a.brightness.high;
    draw.contrast_low = a.contrast.low;
    draw.contrast_high = a.contrast.high;
    draw.saturation_low = a.saturation.low;
    draw.saturation_high = a.saturation.high;
    draw.hue_low = a.hue.low;
    draw.hue_high = a.hue.high;

    AugmentImagesParams& images = launches.images;
    images.shape = {stored.height, stored.width, stored.channels,
                    image.height,  image.width,  a.padding == Augmentation::Padding::reflect ? 1u : 0u};
    images.count = count;
    images.cutout = a.cutout;
    if (a.brightness != Range{1, 1}) images.jitter |= AUGMENT_BRIGHTNESS;
    if (a.contrast != Range{1, 1}) images.jitter |= AUGMENT_CONTRAST;
    if (a.saturation != Range{1, 1}) images.jitter |= AUGMENT_SATURATION;
    if (a.hue != Range{0, 0}) images.jitter |= AUGMENT_HUE;
    std::array<float, 3> centre{}, scale{1, 1, 1};
    for (std::size_t c = 0; c < 3; ++c)
        if (a.values == Augmentation::Values::signed_unit) {
            centre[c] = 127.5f;
            scale[c] = 1 / 127.5f;
        } else if (a.values == Augmentation::Values::normalized) {
            centre[c] = 255 * a.mean[c];
            scale[c] = 1 / (255 * a.deviation[c]);
        }
    images.centre_r = centre[0];
    images.centre_g = centre[1];
    images.centre_b = centre[2];
    images.scale_r = scale[0];
    images.scale_g = scale[1];
    images.scale_b = scale[2];

    launches.sums.shape = images.shape;
    launches.sums.count = count;
    launches.needs_sums = (images.jitter & AUGMENT_CONTRAST) != 0;
    return launches;
}

} // namespace towers
