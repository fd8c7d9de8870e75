// The augmentation of images between the data set and the network, and its launches.
#pragma once

#include "backends/kernels.h"
#include "engine/data/source.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace towers {

struct Range {
    float low = 0, high = 0; ///< a value is drawn uniformly between them
    bool operator==(const Range&) const = default;
};

/// All settings, in the order in which they act. By default an image is only resized, if its size differs
/// from the network's.
struct Augmentation {
    /// The part of the stored image that becomes the network's image, resized if the sizes differ (bilinear
    /// between pixels' centres).
    enum class Box {
        whole,
        centre,      ///< the middle `fraction` of each side, whatever the aspect: Inception's evaluation
        centre_fit,  ///< the middle, with the network's aspect: `fraction` of the largest such box. As
                     ///< torchvision's Resize of the shorter side and CenterCrop
        centre_crop, ///< the middle, of the network's size
        random_area, ///< torchvision's RandomResizedCrop: `area`, `aspect`, any place. Up to ten tries, then
                     ///< the largest box in the middle whose aspect is within the range
        random_crop, ///< of the network's size, anywhere in the image with `pad` more pixels on each side
    };
    enum class Padding { zero, reflect }; ///< black, or mirrored about the outermost pixels

    Box box = Box::whole;
    float fraction = 1;               ///< of a side, above 0 to 1
    Range area = {0.08f, 1};          ///< of the stored image's area, above 0 to 1
    Range aspect = {0.75f, 4.0f / 3}; ///< width by height, 0.01 to 100; drawn log-uniformly in 256 steps
    unsigned pad = 0;                 ///< pixels
    Padding padding = Padding::zero;
    bool antialias = false; ///< a reduced box is averaged over, as by torchvision's resize

    /// Left to right
    enum class Flip {
        never,
        half,        ///< every second image
        alternating, ///< every second record in even epochs, the others in odd ones (airbench)
        probability, ///< `flip_probability`
    };
    Flip flip = Flip::never;
    float flip_probability = 0.5f;
    float flip_vertical = 0; ///< probability of upside down

    Range rotation = {0, 0};        ///< degrees, -360 to 360, counter-clockwise; black beyond the edges
    bool rotation_bilinear = false; ///< false: the nearest pixel

    /// torchvision's RandAugment; `operations` of 0: none. Magnitudes are numbered from 0 to `bins` - 1.
    struct RandAugment {
        unsigned operations = 0, magnitude = 9, bins = 31;
    };
    RandAugment rand_augment;
    bool trivial_augment = false; ///< torchvision's TrivialAugmentWide, instead

    /// Colour jitter, each value clamped to 0 to 255 after each part. Factors from 0; 1 changes nothing.
    /// torchvision's ColorJitter(b) is {max(0, 1 - b), 1 + b}; it draws the order of the parts.
    Range brightness = {1, 1};
    Range contrast = {1, 1};      ///< about the mean of the image's grey values
    Range saturation = {1, 1};    ///< about the pixel's grey value; nothing for grey images
    Range hue = {0, 0};           ///< turns, -0.5 to 0.5; nothing for grey images
    bool random_order = false;    ///< of these parts, else as here
    float jitter_probability = 1; ///< of them all

    float grayscale = 0; ///< probability of grey

    /// torchvision's GaussianBlur; a kernel of 0: none
    struct Blur {
        unsigned kernel = 0;     ///< pixels, odd
        Range sigma = {0.1f, 2}; ///< pixels
        float probability = 1;
    };
    Blur blur;

    /// How bytes become the network's values.
    enum class Values {
        bytes,       ///< 0 to 255
        signed_unit, ///< -1 to 1
        normalized,  ///< (byte / 255 - mean) / deviation
    };
    Values values = Values::bytes;
    std::array<float, 3> mean = {0, 0, 0}, deviation = {1, 1, 1}; ///< of each channel, bytes being 0 to 1

    unsigned cutout = 0; ///< side in pixels of a square, anywhere within the image, that becomes 0

    /// timm's RandomErasing, of the network's values
    struct Erasing {
        enum class Mode { constant, rand, pixel }; ///< 0, a normally distributed colour, or such noise
        float probability = 0;
        Range area = {0.02f, 1.0f / 3};  ///< of the image's, shared by its boxes
        Range aspect = {0.3f, 1 / 0.3f}; ///< height by width
        Mode mode = Mode::constant;
        unsigned count = 1; ///< most boxes of an image
    };
    Erasing erasing;
};

/// The name, as a recipe's key, of the first setting that changes images at random, if any.
const char* random_part(const Augmentation& augmentation);

/// The most bytes of a data set's images on a device, which the kernels' indices can address.
constexpr std::uint64_t most_record_bytes = (std::uint64_t(1) << 33) - 1;

/// An impossible setting; the caller knows where it was written.
struct AugmentationProblem {
    std::string setting; ///< as the member is called; `image` for the sizes of data and network
    std::string what;    ///< what is wrong and what would be right, without a full stop
};

/// The first problem of making images of size `image` from stored ones of size `stored`, if any, with
/// settings in the ranges that read_pipeline() checks.
std::optional<AugmentationProblem> find_problem(const Augmentation& augmentation, const ImageSize& stored,
                                                const ImageSize& image);

/// The launches for a batch, without their pointers, to run in this order with barriers between them. See
/// shaders/params/augment.h for the tensors' shapes.
struct AugmentationLaunches {
    DrawAugmentationsParams draw;
    GreySumsParams sums;
    AugmentImagesParams images;
    DrawOperationsParams operations;
    std::vector<TransformImagesParams> transforms; ///< each of what the one before has made
    DrawErasingParams draw_erasing;
    EraseBoxesParams erase;
    bool needs_sums, needs_erasing; ///< false: the launches and their tensors are not needed
    bool needs_operations() const { return !transforms.empty(); }
};

/// std::invalid_argument where find_problem() finds one, or for a batch of 2^31 values or more.
AugmentationLaunches augmentation_launches(const Augmentation& augmentation, const ImageSize& stored,
                                           const ImageSize& image, std::uint64_t seed, unsigned count);

} // namespace towers
