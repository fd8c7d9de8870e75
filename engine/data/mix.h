// Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019): which examples of a batch get a part of another
// one.
#pragma once

#include "engine/plan/shape.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// What an example has of its partner, as the kernels read it (shaders/params/mix.h): within the rectangle,
/// image * (1 - part) + partner's image * part.
struct Mix {
    std::uint32_t partner = 0; ///< its place in the global batch
    float part = 0;            ///< of the partner; 0: the example stays as it is
    std::uint32_t corner = 0;  ///< top << 16 | left, in pixels of the network's image
    std::uint32_t size = 0;    ///< height << 16 | width

    /// Of the partner's label in the target: `part` of the rectangle's part of the image.
    double partner_target(const Shape& image) const {
        return double(part) * double(size >> 16) * double(size & 0xffff) /
               (double(image.height) * double(image.width));
    }
    bool operator==(const Mix&) const = default;
};

/// A tensor of mixes has the shape [batch, mix_words].
constexpr std::size_t mix_words = sizeof(Mix) / sizeof(std::uint32_t);

/// As timm's Mixup; by default nothing is mixed.
struct Mixing {
    float mixup = 0;                 ///< alpha of Beta(alpha, alpha), of which the part is drawn; 0: no mixup
    float cutmix = 0;                ///< likewise of the rectangle's area; 0: no CutMix
    float probability = 1;           ///< of mixing at all
    float cutmix_probability = 0.5f; ///< of CutMix rather than mixup, where there are both
    bool by_example = false;         ///< draws for each example; false: once for the whole batch

    bool mixes() const { return (mixup > 0 || cutmix > 0) && probability > 0; }
};

/// The mixes of the global batch whose first example has position `first`, one for each of `examples`, 1 to
/// most_batch: a function of these numbers alone. The partners are a cycle through the whole batch, drawn
/// anew for each, so every example is the partner of one. `image`: the network's. All sides are below 2^16.
std::vector<Mix> mixes_of(const Mixing& mixing, std::uint64_t seed, std::uint64_t first,
                          std::uint32_t examples, const Shape& image);

} // namespace towers
