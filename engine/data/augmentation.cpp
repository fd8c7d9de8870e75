#include "engine/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <stdexcept>
#include <utility>

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

struct Sides {
    unsigned height, width;
};

Sides within(const ImageSize& stored, double height, double width) {
    const auto side = [](double value, unsigned most) {
        return std::clamp(unsigned(std::floor(value + 0.5)), 1u, most);
    };
    return {side(height, stored.height), side(width, stored.width)};
}

/// The box of every image, or the fallback if boxes are random; it lies in the middle.
Sides fixed_box(const Augmentation& a, const ImageSize& stored, const ImageSize& image) {
    switch (a.box) {
    case Box::centre: { // as tf.image.central_crop
        const auto margin = [&](unsigned side) {
            return std::min(unsigned((side - double(side) * double(a.fraction)) / 2), (side - 1) / 2);
        };
        return {stored.height - 2 * margin(stored.height), stored.width - 2 * margin(stored.width)};
    }
    case Box::centre_fit: {
        const double scale =
            std::min(double(stored.height) / image.height, double(stored.width) / image.width);
        return within(stored, image.height * scale * double(a.fraction),
                      image.width * scale * double(a.fraction));
    }
    case Box::random_area: {
        const double aspect = double(stored.width) / stored.height;
        const double wanted = std::clamp(aspect, double(a.aspect.low), double(a.aspect.high));
        return aspect < wanted ? within(stored, stored.width / wanted, stored.width)
                               : within(stored, stored.height, stored.height * wanted);
    }
    case Box::centre_crop:
        return within(stored, image.height, image.width);
    case Box::whole:
    case Box::random_crop:
        break;
    }
    return {stored.height, stored.width};
}

template<class Params>
void set_area_and_aspect(Params& p, const Range& area, const Range& aspect, const ImageSize& size) {
    // In units of which the whole image has 2^23 to 2^24, so that floats can count them.
    const double pixels = double(size.height) * size.width;
    int exponent = 0;
    std::frexp(pixels, &exponent); // pixels < 2^exponent
    const double units = std::ldexp(pixels, 24 - exponent);
    p.area_low = std::max(unsigned(std::floor(units * double(area.low) + 0.5)), 1u);
    const auto high = unsigned(std::min(std::floor(units * double(area.high) + 0.5), 16'777'215.0));
    p.area_span = std::max(high, p.area_low) - p.area_low;
    p.area_unit = float(std::ldexp(4.0, exponent - 24));
    // The middles of 256 equal parts
    const double step = std::pow(double(aspect.high) / double(aspect.low), 1.0 / 256);
    p.aspect_low = float(double(aspect.low) * std::sqrt(step));
    p.aspect_step = float(step);
}

/// The bits of the parts of the jitter that there are
unsigned jitter_of(const Augmentation& a) {
    unsigned jitter = 0;
    if (a.brightness != Range{1, 1}) jitter |= AUGMENT_BRIGHTNESS;
    if (a.contrast != Range{1, 1}) jitter |= AUGMENT_CONTRAST;
    if (a.saturation != Range{1, 1}) jitter |= AUGMENT_SATURATION;
    if (a.hue != Range{0, 0}) jitter |= AUGMENT_HUE;
    return jitter;
}

/// Whether augment_images alone cannot do the jitter
bool jitter_is_operation(const Augmentation& a) {
    return jitter_of(a) != 0 && (a.random_order || a.jitter_probability < 1);
}

/// What draw_operations draws, whether anything is needed of it or not
DrawOperationsParams operations_of(const Augmentation& a, const ImageSize& image) {
    DrawOperationsParams p{};
    p.height = image.height;
    p.width = image.width;
    p.rotation = a.rotation != Range{0, 0} ? 1 : 0;
    p.bilinear = a.rotation_bilinear ? 1 : 0;
    p.rotation_low = a.rotation.low;
    p.rotation_high = a.rotation.high;
    p.policy = a.trivial_augment               ? POLICY_TRIVIAL_AUGMENT
               : a.rand_augment.operations > 0 ? POLICY_RAND_AUGMENT
                                               : POLICY_NONE;
    p.policy_operations = a.trivial_augment ? 1 : a.rand_augment.operations;
    p.magnitude = a.rand_augment.magnitude;
    p.bins = a.trivial_augment ? 31 : a.rand_augment.bins;
    const double last = p.bins - 1;
    p.shear_step = float((a.trivial_augment ? 0.99 : 0.3) / last);
    p.rotate_step = float((a.trivial_augment ? 135 : 30) / last);
    p.factor_step = float((a.trivial_augment ? 0.99 : 0.9) / last);
    p.jitter = jitter_of(a);
    p.random_order = a.random_order ? 1 : 0;
    p.jitter_probability = a.jitter_probability;
    p.grayscale = a.grayscale;
    p.blur_taps = a.blur.kernel;
    p.blur_probability = a.blur.probability;
    p.sigma_low = a.blur.sigma.low;
    p.sigma_high = a.blur.sigma.high;
    return p;
}

bool needs_operations(const Augmentation& a) {
    return a.rotation != Range{0, 0} || a.trivial_augment || a.rand_augment.operations > 0 ||
           jitter_is_operation(a) || a.grayscale > 0 || a.blur.kernel > 0;
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
    if (const unsigned shorter = std::min(image.height, image.width); a.blur.kernel / 2 >= shorter)
        return AugmentationProblem{"blur",
                                   fmt::format("has a kernel of {} pixels; images of {} take at most {}",
                                               a.blur.kernel, text(image), 2 * shorter - 1)};
    constexpr unsigned most_pixels = 1u << 24;
    if (needs_operations(a) && std::uint64_t(image.height) * image.width > most_pixels)
        return AugmentationProblem{"image",
                                   fmt::format("has the size {}; rotation, policies, blur, grayscale and a "
                                               "jitter that is drawn take at most {} pixels",
                                               text(image), most_pixels)};
    return {};
}

const char* random_part(const Augmentation& a) {
    if (a.box == Box::random_area || a.box == Box::random_crop) return "box";
    if (a.flip != Augmentation::Flip::never) return "flip";
    if (a.flip_vertical > 0) return "flip_vertical";
    if (a.rotation != Range{0, 0}) return "rotation";
    if (a.rand_augment.operations > 0) return "rand_augment";
    if (a.trivial_augment) return "trivial_augment";
    if (a.brightness != Range{1, 1}) return "brightness";
    if (a.contrast != Range{1, 1}) return "contrast";
    if (a.saturation != Range{1, 1}) return "saturation";
    if (a.hue != Range{0, 0}) return "hue";
    if (a.grayscale > 0) return "grayscale";
    if (a.blur.kernel > 0) return "blur";
    if (a.cutout > 0) return "cutout";
    return a.erasing.probability > 0 ? "erasing" : nullptr;
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
    const Sides box = fixed_box(a, stored, image);
    draw.box_height = box.height;
    draw.box_width = box.width;
    draw.pad = a.pad;
    set_area_and_aspect(draw, a.area, a.aspect, stored);
    using Flip = Augmentation::Flip;
    draw.flip = a.flip == Flip::half          ? AUGMENT_FLIP_HALF
                : a.flip == Flip::alternating ? AUGMENT_FLIP_ALTERNATING
                : a.flip == Flip::probability ? AUGMENT_FLIP_PROBABILITY
                                              : AUGMENT_FLIP_NEVER;
    draw.flip_probability = a.flip_probability;
    draw.flip_vertical = a.flip_vertical;
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
    images.shape = {stored.height,        stored.width, stored.channels,
                    image.height,         image.width,  a.padding == Augmentation::Padding::reflect ? 1u : 0u,
                    a.antialias ? 1u : 0u};
    images.count = count;
    images.cutout = a.cutout;
    images.jitter = jitter_of(a);
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

    launches.operations = operations_of(a, image);
    if (needs_operations(a)) {
        DrawOperationsParams& operations = launches.operations;
        operations.seed_low = draw.seed_low;
        operations.seed_high = draw.seed_high;
        operations.count = count;
        TransformImagesParams transform{};
        transform.count = count;
        transform.height = image.height;
        transform.width = image.width;
        transform.channels = image.channels;
        transform.slots = OPERATION_SLOTS(operations);
        transform.scale_r = transform.scale_g = transform.scale_b = 1;
        for (transform.slot = 0; transform.slot < transform.slots; ++transform.slot)
            launches.transforms.push_back(transform);
        // The last one leaves the network's values.
        TransformImagesParams& last = launches.transforms.back();
        last.cutout = std::exchange(images.cutout, 0);
        last.centre_r = std::exchange(images.centre_r, 0.0f);
        last.centre_g = std::exchange(images.centre_g, 0.0f);
        last.centre_b = std::exchange(images.centre_b, 0.0f);
        last.scale_r = std::exchange(images.scale_r, 1.0f);
        last.scale_g = std::exchange(images.scale_g, 1.0f);
        last.scale_b = std::exchange(images.scale_b, 1.0f);
        images.jitter = 0;
    }

    launches.sums.shape = images.shape;
    launches.sums.count = count;
    launches.needs_sums = (images.jitter & AUGMENT_CONTRAST) != 0;

    const Augmentation::Erasing& erasing = a.erasing;
    launches.needs_erasing = erasing.probability > 0;
    DrawErasingParams& boxes = launches.draw_erasing;
    boxes.seed_low = draw.seed_low;
    boxes.seed_high = draw.seed_high;
    boxes.count = count;
    boxes.height = image.height;
    boxes.width = image.width;
    boxes.most = erasing.count;
    boxes.mode = erasing.mode == Augmentation::Erasing::Mode::rand    ? ERASING_RAND
                 : erasing.mode == Augmentation::Erasing::Mode::pixel ? ERASING_PIXEL
                                                                      : ERASING_CONST;
    boxes.probability = erasing.probability;
    set_area_and_aspect(boxes, erasing.area, erasing.aspect, image);
    EraseBoxesParams& erase = launches.erase;
    erase.seed_low = boxes.seed_low;
    erase.seed_high = boxes.seed_high;
    erase.count = count;
    erase.height = image.height;
    erase.width = image.width;
    erase.channels = image.channels;
    erase.most = boxes.most;
    erase.mode = boxes.mode;
    return launches;
}

} // namespace towers
