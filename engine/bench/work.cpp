#include "engine/bench/work.h"

#include <stdexcept>

namespace towers {
namespace {

constexpr double word = 4, quad = 16; // bytes

/// Elements of a convolution's operands, and the multiply-adds of any of its three passes.
struct ConvWork {
    double x, w, b, y, products;

    explicit ConvWork(const ConvShape& s)
        : x(double(s.batch) * s.in_height * s.in_width * s.in_channels),
          w(double(s.kernel_height) * s.kernel_width * s.in_channels * s.out_channels), b(s.out_channels),
          y(double(s.batch) * s.out_height * s.out_width * s.out_channels),
          products(y * s.kernel_height * s.kernel_width * s.in_channels) {}
};

struct PoolWork {
    double x, y, argmax;

    explicit PoolWork(const PoolShape& s)
        : x(double(s.batch) * s.in_height * s.in_width * s.channels),
          y(double(s.batch) * s.out_height * s.out_width * s.channels),
          argmax(double(s.batch) * s.out_height * s.out_width * ((s.channels + 3) / 4)) {}
};

Work work(const Conv2dForwardParams& p) {
    const ConvWork c(p.shape);
    return {2 * c.products, word * (c.x + c.w + c.b + c.y)};
}
Work work(const Conv2dBackwardDataParams& p) {
    const ConvWork c(p.shape);
    return {2 * c.products, word * (c.y + c.w + c.x + (p.relu != 0 ? c.x : 0))};
}
Work work(const Conv2dBackwardWeightsParams& p) {
    const ConvWork c(p.shape);
    return {2 * c.products, word * (c.x + c.y + p.splits * (c.w + c.b))};
}
Work work(const SumPartialsParams& p) { return {0, word * (p.parts + 1.0) * p.count}; }
Work work(const MaxPoolForwardParams& p) {
    const PoolWork w(p.shape);
    return {0, word * (w.x + w.y + w.argmax)};
}
Work work(const MaxPoolBackwardParams& p) {
    const PoolWork w(p.shape);
    return {0, word * (w.x + w.y + w.argmax)};
}
Work work(const LrnForwardParams& p) { return {0, word * 3 * p.pixels * p.channels}; }
Work work(const LrnBackwardParams& p) { return {0, word * 5 * p.pixels * p.channels}; }
Work work(const ReluBackwardParams& p) { return {0, word * 3 * p.count}; }
Work work(const SoftmaxCrossEntropyParams& p) { return {0, word * p.rows * (2.0 * p.classes + 3)}; }
Work work(const WeightDecayParams& p) { return {0, quad * 3 * p.quads + word * REDUCTION_CHUNKS(p.quads)}; }
Work work(const CountNonfiniteParams& p) { return {0, quad * p.quads + word * REDUCTION_CHUNKS(p.quads)}; }
Work work(const StepResultsParams& p) {
    return {0, word * (double(p.loss_count) + p.decay_count + p.nonfinite_count + RESULT_FLOATS)};
}
Work work(const SgdParams& p) { return {0, quad * 5 * p.quads}; }
Work work(const AverageGradientsParams& p) { return {0, quad * (p.towers + 1.0) * p.quads}; }
Work work(const DistortImagesParams& p) {
    const double pixels = 3.0 * p.crop_height * p.crop_width;
    return {0, p.count * (pixels + word * pixels + word * 4)}; // bytes in, floats out; example and labels
}
Work work(const DrawAugmentationsParams& p) { return {0, p.count * (word * 2 + quad * AUGMENT_DRAWS)}; }
double image_values(const AugmentShape& s) { return double(s.out_height) * s.out_width * s.channels; }
// Boxes vary about the image's size: as if each byte were read once.
Work work(const GreySumsParams& p) {
    return {0, p.count * (image_values(p.shape) + word * 2 + quad * AUGMENT_DRAWS + word * 2 * GREY_CHUNKS)};
}
Work work(const AugmentImagesParams& p) {
    const double values = image_values(p.shape);
    return {0, p.count * (values + word * values + word * 4 + quad * AUGMENT_DRAWS)};
}

} // namespace

Work work_of(const Launch& launch) {
    switch (launch.kernel) {
#define TOWERS_KERNEL(name, Params, size)                                                                    \
    case Kernel::name:                                                                                       \
        return work(launch.parameters.as<Params>());
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    }
    throw std::logic_error("bench: a kernel without a count of its work");
}

} // namespace towers
