#include "engine/data/pipeline.h"

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

Augmentation read_augmentation(Attributes attributes, Augmentation augmentation) {
    augmentation.box = attributes.choice("box", boxes, "whole");
    augmentation.fraction = float(attributes.number("fraction", 1e-3, 1, 1));
    augmentation.area = read_range(attributes, "area", 1e-6, 1, augmentation.area);
    augmentation.aspect = read_range(attributes, "aspect", 0.01, 100, augmentation.aspect);
    augmentation.pad = unsigned(attributes.whole("pad", 0, 1024, 0));
    augmentation.padding = attributes.choice("padding", {"zero", "reflect"}, "zero") == "zero"
                               ? Augmentation::Padding::zero
                               : Augmentation::Padding::reflect;
    augmentation.flip = attributes.flag("flip", false);
    augmentation.brightness = read_range(attributes, "brightness", 0, any_factor, augmentation.brightness);
    augmentation.contrast = read_range(attributes, "contrast", 0, any_factor, augmentation.contrast);
    augmentation.saturation = read_range(attributes, "saturation", 0, any_factor, augmentation.saturation);
    augmentation.hue = read_range(attributes, "hue", -0.5, 0.5, augmentation.hue);
    augmentation.cutout = unsigned(attributes.whole("cutout", 0, 1024, 0));
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
