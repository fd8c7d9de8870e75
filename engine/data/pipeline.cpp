#include "engine/data/pipeline.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace towers {
namespace {

constexpr double any_factor = 1e3;

Range read_range(Attributes& attributes, const char* key, double least, double most, const Range& otherwise) {
    const std::vector<double> both =
        attributes.numbers(key, 2, least, most, std::vector<double>{otherwise.low, otherwise.high});
    if (both[0] > both[1]) attributes.fail(key, "begins with the larger number; give [least, most]");
    return {float(both[0]), float(both[1])};
}

std::array<float, 3> read_channels(Attributes& attributes, const char* key, double least,
                                   const std::array<float, 3>& otherwise) {
    const Value* const value = attributes.find(key);
    if (value == nullptr) return otherwise;
    const auto* const list = value->as<Value::Array>();
    const std::size_t count = list != nullptr && list->size() == 1 ? 1 : 3; // grey or colour
    const std::vector<double> given = attributes.numbers(key, count, least, 1e6);
    return {float(given[0]), float(given[count / 2]), float(given[count - 1])};
}

constexpr std::pair<const char*, Augmentation::Box> boxes[] = {
    {"whole", Augmentation::Box::whole},
    {"centre", Augmentation::Box::centre},
    {"centre_fit", Augmentation::Box::centre_fit},
    {"centre_crop", Augmentation::Box::centre_crop},
    {"random_area", Augmentation::Box::random_area},
    {"random_crop", Augmentation::Box::random_crop}};

constexpr std::pair<const char*, Augmentation::Values> value_names[] = {
    {"bytes", Augmentation::Values::bytes},
    {"signed_unit", Augmentation::Values::signed_unit},
    {"normalized", Augmentation::Values::normalized}};

constexpr std::pair<const char*, Augmentation::Erasing::Mode> erasing_modes[] = {
    {"const", Augmentation::Erasing::Mode::constant},
    {"rand", Augmentation::Erasing::Mode::rand},
    {"pixel", Augmentation::Erasing::Mode::pixel}};

/// A probability, also as true (every second image) or false; nothing for another value.
std::optional<float> probability_of(const Value& value) {
    double number = -1;
    if (const auto* const yes = value.as<bool>()) number = *yes ? 0.5 : 0;
    if (const auto* const whole = value.as<std::int64_t>()) number = double(*whole);
    if (const auto* const real = value.as<double>()) number = *real;
    return number >= 0 && number <= 1 ? std::optional(float(number)) : std::nullopt;
}

void read_flips(Attributes& attributes, Augmentation& augmentation) {
    using Flip = Augmentation::Flip;
    if (const Value* const value = attributes.find("flip")) {
        const auto* const text = value->as<std::string>();
        const auto* const yes = value->as<bool>();
        const std::optional<float> probability = probability_of(*value);
        if (text != nullptr && *text == "alternating") {
            augmentation.flip = Flip::alternating;
        } else if (yes != nullptr) {
            augmentation.flip = *yes ? Flip::half : Flip::never;
        } else if (probability) {
            augmentation.flip = *probability > 0 ? Flip::probability : Flip::never;
            augmentation.flip_probability = *probability;
        } else {
            attributes.fail("flip", fmt::format("is {}; give true, false, a probability from 0 to 1 or "
                                                "\"alternating\"",
                                                value->text()));
        }
    }
    if (const Value* const value = attributes.find("flip_vertical")) {
        const std::optional<float> probability = probability_of(*value);
        if (!probability)
            attributes.fail(
                "flip_vertical",
                fmt::format("is {}; give true, false or a probability from 0 to 1", value->text()));
        augmentation.flip_vertical = *probability;
    }
}

Augmentation::RandAugment read_rand_augment(Attributes attributes) {
    Augmentation::RandAugment policy;
    policy.operations = unsigned(attributes.whole("operations", 0, MOST_POLICY_OPERATIONS, 2));
    policy.bins = unsigned(attributes.whole("bins", 2, 1000, policy.bins));
    policy.magnitude = unsigned(
        attributes.whole("magnitude", 0, policy.bins - 1, std::min(policy.magnitude, policy.bins - 1)));
    attributes.done();
    return policy;
}

Augmentation::Blur read_blur(Attributes attributes) {
    Augmentation::Blur blur;
    blur.kernel = unsigned(attributes.whole("kernel", 1, MOST_BLUR_TAPS));
    if (blur.kernel % 2 == 0)
        attributes.fail("kernel", fmt::format("is {}; give an odd number of pixels", blur.kernel));
    blur.sigma = read_range(attributes, "sigma", 0.01, any_factor, blur.sigma);
    blur.probability = float(attributes.number("probability", 0, 1, 1));
    attributes.done();
    return blur;
}

Augmentation::Erasing read_erasing(Attributes attributes) {
    Augmentation::Erasing erasing;
    erasing.probability = float(attributes.number("probability", 0, 1, 0.5));
    erasing.area = read_range(attributes, "area", 1e-6, 1, erasing.area);
    erasing.aspect = read_range(attributes, "aspect", 0.01, 100, erasing.aspect);
    erasing.mode = attributes.choice("mode", erasing_modes, "const");
    erasing.count = unsigned(attributes.whole("count", 1, MOST_ERASED_BOXES, 1));
    attributes.done();
    return erasing;
}

Augmentation read_augmentation(Attributes attributes, Augmentation augmentation) {
    augmentation.box = attributes.choice("box", boxes, "whole");
    augmentation.fraction = float(attributes.number("fraction", 1e-3, 1, 1));
    augmentation.area = read_range(attributes, "area", 1e-6, 1, augmentation.area);
    augmentation.aspect = read_range(attributes, "aspect", 0.01, 100, augmentation.aspect);
    augmentation.pad = unsigned(attributes.whole("pad", 0, 1024, 0));
    augmentation.padding = attributes.choice("padding", {"zero", "reflect"}, "zero") == "zero"
                               ? Augmentation::Padding::zero
                               : Augmentation::Padding::reflect;
    augmentation.antialias = attributes.flag("antialias", false);
    read_flips(attributes, augmentation);
    augmentation.rotation = read_range(attributes, "rotation", -360, 360, augmentation.rotation);
    augmentation.rotation_bilinear =
        attributes.choice("rotation_interpolation", {"nearest", "bilinear"}, "nearest") == "bilinear";
    if (attributes.has("rand_augment"))
        augmentation.rand_augment = read_rand_augment(attributes.table("rand_augment", "{ operations = 2 }"));
    augmentation.trivial_augment = attributes.flag("trivial_augment", false);
    if (augmentation.trivial_augment && augmentation.rand_augment.operations > 0)
        attributes.fail("trivial_augment", "is true, and there is a rand_augment; choose one of them");
    augmentation.brightness = read_range(attributes, "brightness", 0, any_factor, augmentation.brightness);
    augmentation.contrast = read_range(attributes, "contrast", 0, any_factor, augmentation.contrast);
    augmentation.saturation = read_range(attributes, "saturation", 0, any_factor, augmentation.saturation);
    augmentation.hue = read_range(attributes, "hue", -0.5, 0.5, augmentation.hue);
    augmentation.random_order = attributes.choice("jitter_order", {"fixed", "random"}, "fixed") == "random";
    augmentation.jitter_probability = float(attributes.number("jitter_probability", 0, 1, 1));
    augmentation.grayscale = float(attributes.number("grayscale", 0, 1, 0));
    if (attributes.has("blur")) augmentation.blur = read_blur(attributes.table("blur", "{ kernel = 3 }"));
    augmentation.cutout = unsigned(attributes.whole("cutout", 0, 1024, 0));
    if (attributes.has("erasing"))
        augmentation.erasing = read_erasing(attributes.table("erasing", "{ probability = 0.25 }"));
    attributes.done();
    return augmentation;
}

} // namespace

Pipeline read_pipeline(Attributes attributes) {
    Pipeline pipeline;
    pipeline.tutorial = attributes.choice("kind", {"augment", "tutorial"}, "augment") == "tutorial";
    if (!pipeline.tutorial) {
        Augmentation common;
        common.values = attributes.choice("values", value_names, "signed_unit");
        if (common.values == Augmentation::Values::normalized) {
            common.mean = read_channels(attributes, "mean", -1e6, common.mean);
            common.deviation = read_channels(attributes, "deviation", 1e-6, common.deviation);
        }
        pipeline.training = read_augmentation(attributes.table("train"), common);
        pipeline.evaluation = read_augmentation(attributes.table("evaluate"), common);
    }
    attributes.done();
    return pipeline;
}

} // namespace towers
