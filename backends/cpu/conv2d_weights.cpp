#include "backends/arithmetic.h"
#include "backends/cpu/long_sums.h"
#include "backends/cpu/onednn_conv2d.h"
#include "backends/cpu/taps.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <omp.h>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

// The gradient of the weights of convolutions and dense layers by oneDNN, which adds up all pixels in one
// float32 after another. So a batch of many pixels is divided into pieces, whose gradients are added up in
// two levels. Threads share out the pieces; where these are few or the weights many, all threads compute one
// larger piece after another.

namespace towers {
namespace {

using dnnl::memory;

/// Images, or rows of one image
struct Piece {
    ConvShape shape;
    std::size_t x, dy; ///< where its pixels begin, in numbers
};

/// Output pixels of a thread's piece, and of all threads'. The gradient of equal pixels is then off by 2e-6
/// and 7e-6; undivided, by 7e-4 for 800,000 pixels.
constexpr std::size_t pixels_of_thread = 2048, pixels_of_all = 8192;
/// More weights take too long to add up for each piece, and too much memory for each thread.
constexpr std::size_t most_weights_of_thread = 65536;

/// Some rows of an image: those of the output, and what their windows see.
Piece rows_of(const ConvShape& s, std::size_t image, std::size_t first, std::size_t end) {
    const auto top = std::ptrdiff_t(first * s.stride_y) - std::ptrdiff_t(s.pad_top);
    const auto bottom = std::ptrdiff_t((end - 1) * s.stride_y + (s.kernel_height - 1) * s.dilation_y) -
                        std::ptrdiff_t(s.pad_top) + 1;
    const std::ptrdiff_t in_first = std::max<std::ptrdiff_t>(top, 0);
    const std::ptrdiff_t in_end = std::min<std::ptrdiff_t>(bottom, s.in_height);
    Piece piece{s, 0, ((image * s.out_height + first) * s.out_width) * s.out_channels};
    piece.shape.batch = 1;
    piece.shape.out_height = uint(end - first);
    piece.shape.in_height = uint(std::max<std::ptrdiff_t>(in_end - in_first, 0));
    piece.shape.pad_top = uint(in_first - top);
    piece.x = (image * s.in_height + std::size_t(in_first)) * s.in_width * s.in_channels;
    return piece;
}

/// Pieces of about so many output pixels
std::vector<Piece> pieces_of(const ConvShape& s, std::size_t most) {
    const std::size_t pixels = std::size_t(s.out_height) * s.out_width;
    std::vector<Piece> pieces;
    if (const std::size_t at_once = most / pixels; at_once != 0) {
        for (std::size_t image = 0; image < s.batch; image += at_once) {
            pieces.push_back(
                {s, image * s.in_height * s.in_width * s.in_channels, image * pixels * s.out_channels});
            pieces.back().shape.batch = uint(std::min(at_once, s.batch - image));
        }
        return pieces;
    }
    const std::size_t rows = std::max<std::size_t>(most / s.out_width, 1);
    for (std::size_t image = 0; image < s.batch; ++image)
        for (std::size_t row = 0; row < s.out_height; row += rows) {
            const Piece piece = rows_of(s, image, row, std::min<std::size_t>(row + rows, s.out_height));
            if (piece.shape.in_height != 0) pieces.push_back(piece); // else its windows see only padding
        }
    return pieces;
}

/// Whether oneDNN could write past its scratchpad: its 1x1 convolutions with a stride and without padding
/// first gather the pixels that they use, as many floats of each as a vector has, where it has room only for
/// the channels (github.com/uxlfoundation/oneDNN/issues/6035). Then the pixels are gathered here.
bool must_gather(const ConvShape& s) {
    constexpr unsigned widest_vector = 16;
    const bool padded = s.pad_top + s.pad_left != 0 || (s.out_height - 1) * s.stride_y >= s.in_height ||
                        (s.out_width - 1) * s.stride_x >= s.in_width;
    return s.kernel_height * s.kernel_width == 1 && s.stride_y * s.stride_x > 1 && !padded && s.groups == 1 &&
           s.in_channels < widest_vector;
}

/// What oneDNN computes of a gathered convolution
ConvShape gathered_shape(ConvShape s) {
    s.in_height = s.out_height;
    s.in_width = s.out_width;
    s.stride_y = s.stride_x = 1;
    return s;
}

/// Images and the gradient of the output, in the type that is multiplied
struct Factors {
    const std::byte *x, *dy;
    std::size_t bytes; ///< of a number

    Factors from(const Piece& piece) const { return {x + piece.x * bytes, dy + piece.dy * bytes, bytes}; }
};

/// The gradient of the weights, of pieces of one shape. Its scratch memory has oneDNN's own layout of dw, the
/// gathered pixels, then oneDNN's scratchpad.
class Gradient {
public:
    Gradient(CpuContext& context, const ConvShape& s, const Rounding& rounding)
        : shape_(s), gathers_(must_gather(s)),
          d_(descriptors(gathers_ ? gathered_shape(s) : s, false, rounding)),
          x_(tensor(context, d_.x, nullptr)), dy_(tensor(context, d_.dy, nullptr)),
          dw_(tensor(context, d_.w_user, nullptr)) {
        using dnnl::convolution_backward_weights, dnnl::inner_product_backward_weights;
        if (d_.dense)
            make<inner_product_backward_weights>(
                context,
                describe_backward<inner_product_backward_weights>(
                    context, describe_dense_forward(context, d_, d_.dy), d_.x, d_.w_user_any, d_.b, d_.dy));
        else
            make<convolution_backward_weights>(
                context,
                describe_backward<convolution_backward_weights>(
                    context, describe_conv_forward(context, d_, d_.dy), dnnl::algorithm::convolution_direct,
                    d_.x, d_.w_user_any, d_.b, d_.dy, d_.strides, d_.gaps, d_.pads_before, d_.pads_after));
    }

    /// Pieces of a batch differ in nothing else.
    bool takes(const ConvShape& s) const {
        return s.batch == shape_.batch && s.in_height == shape_.in_height &&
               s.out_height == shape_.out_height && s.pad_top == shape_.pad_top;
    }
    std::size_t scratch_bytes() const {
        const std::size_t of_reorder = reorder_ ? reorder_->scratch_bytes() : 0;
        return own_bytes() + gathered_bytes() + std::max(product_->scratch_bytes(), of_reorder);
    }
    /// `factors`: from this piece on
    void run(Factors factors, float* dw, const dnnl::stream& stream, std::byte* scratch) {
        auto* const pixels = reinterpret_cast<float*>(scratch + own_bytes());
        std::byte* const rest = scratch + own_bytes() + gathered_bytes();
        if (gathers_) { // only floats: see units_take()
            const auto* const x = reinterpret_cast<const float*>(factors.x);
            factors.x = reinterpret_cast<const std::byte*>(gathered(taps_of(shape_).front().in, 0,
                                                                    shape_.batch, {x, shape_.in_channels},
                                                                    shape_.in_channels, pixels)
                                                               .at);
        }
        x_.set_data_handle(const_cast<std::byte*>(factors.x));
        dy_.set_data_handle(const_cast<std::byte*>(factors.dy));
        dw_.set_data_handle(dw);
        if (reorder_) own_.set_data_handle(scratch);
        product_->run(stream, rest);
        if (reorder_) reorder_->run(stream, rest);
    }

private:
    template<class Primitive, class Description>
    void make(CpuContext& context, const Description& description) {
        own_ = dw_;
        if (description.diff_weights_desc() != d_.w_user) {
            own_ = tensor(context, description.diff_weights_desc(), nullptr);
            reorder_.emplace(reorder(context, own_, dw_));
        }
        product_.emplace(context, description, Primitive(description),
                         std::unordered_map<int, memory>{
                             {DNNL_ARG_SRC, x_}, {DNNL_ARG_DIFF_DST, dy_}, {DNNL_ARG_DIFF_WEIGHTS, own_}});
    }
    std::size_t own_bytes() const { return reorder_ ? aligned(own_.get_desc().get_size()) : 0; }
    std::size_t gathered_bytes() const { return gathers_ ? aligned(d_.x.get_size()) : 0; }

    ConvShape shape_;
    bool gathers_;
    Described d_;
    memory x_, dy_, dw_, own_; ///< own: dw as oneDNN computes it
    std::optional<Execution> product_, reorder_;
};

/// The gradient of some pieces, added up in two levels. Its scratch memory has dw of all pieces, of some, and
/// of one.
class Sum {
public:
    Sum(CpuContext& context, std::span<const Piece> pieces, std::size_t weights, unsigned threads,
        const Rounding& rounding)
        : pieces_(pieces.begin(), pieces.end()), weights_(weights), threads_(threads),
          stream_(context.engine) {
        omp_set_num_threads(int(threads)); // oneDNN plans for as many as it sees
        for (const Piece& piece : pieces_)
            if (gradient_of(piece) == gradients_.end())
                gradients_.push_back(std::make_unique<Gradient>(context, piece.shape, rounding));
        omp_set_num_threads(int(context.threads));
    }

    std::size_t scratch_bytes() const {
        std::size_t most = 0;
        for (const auto& each : gradients_) most = std::max(most, aligned(each->scratch_bytes()));
        return sums_bytes() + most;
    }
    void run(const Factors& factors, std::byte* scratch) {
        auto* const total = reinterpret_cast<float*>(scratch);
        float *const some = total + sums_bytes() / 3 / sizeof(float), *const one = some + (some - total);
        std::fill_n(total, weights_, 0.0f);
        std::fill_n(some, weights_, 0.0f);
        std::size_t added = 0;
        for (const Piece& piece : pieces_) {
            (*gradient_of(piece))->run(factors.from(piece), one, stream_, scratch + sums_bytes());
            move(some, one);
            if (++added % parts_of_sum == 0) move(total, some);
        }
        move(total, some);
    }

private:
    using Gradients = std::vector<std::unique_ptr<Gradient>>; ///< one for each shape of a piece

    Gradients::iterator gradient_of(const Piece& piece) {
        return std::ranges::find_if(gradients_, [&](const auto& each) { return each->takes(piece.shape); });
    }
    void move(float* total, float* part) const {
        if (threads_ == 1) return move_into(total, part, weights_);
#pragma omp parallel for num_threads(int(threads_))
        for (std::size_t thread = 0; thread < threads_; ++thread) {
            const std::size_t first = weights_ * thread / threads_, end = weights_ * (thread + 1) / threads_;
            move_into(total + first, part + first, end - first);
        }
    }
    std::size_t sums_bytes() const { return 3 * aligned(weights_ * sizeof(float)); }

    std::vector<Piece> pieces_;
    std::size_t weights_;
    unsigned threads_;
    dnnl::stream stream_;
    Gradients gradients_;
};

/// Both factors of a launch, rounded in scratch memory; in float32 its own tensors.
class BothFactors {
public:
    BothFactors(CpuContext& context, const Conv2dBackwardWeightsParams& p, const Rounding& rounding)
        : BothFactors(context, p, descriptors(p.shape, false, rounding), rounding) {}

    std::size_t scratch_bytes() const { return x_.scratch_bytes() + dy_.scratch_bytes(); }
    Factors load(std::byte* scratch) {
        x_.load(p_.x.at, scratch);
        dy_.load(p_.dy.at, scratch + x_.scratch_bytes());
        return {static_cast<std::byte*>(x_.wanted().get_data_handle()),
                static_cast<std::byte*>(dy_.wanted().get_data_handle()), bytes_};
    }

private:
    BothFactors(CpuContext& context, const Conv2dBackwardWeightsParams& p, const Described& d,
                const Rounding& rounding)
        : p_(p), x_(context, d.x_user, d.x, rounding), dy_(context, d.y_user, d.dy, rounding),
          bytes_(memory::data_type_size(rounding.type())) {}

    Conv2dBackwardWeightsParams p_;
    Factor x_, dy_;
    std::size_t bytes_;
};

/// `threads` share out the pieces; 1: all threads compute one after another.
Work in_pieces(CpuContext& context, const Conv2dBackwardWeightsParams& p, std::span<const Piece> pieces,
               std::size_t weights, unsigned threads, const Rounding& rounding) {
    auto sums = std::make_shared<std::vector<Sum>>();
    std::size_t own = 0;
    for (std::size_t thread = 0; thread < threads; ++thread) {
        const std::size_t first = pieces.size() * thread / threads,
                          end = pieces.size() * (thread + 1) / threads;
        sums->emplace_back(context, pieces.subspan(first, end - first), weights,
                           threads == 1 ? context.threads : 1, rounding);
        own = std::max(own, sums->back().scratch_bytes());
    }
    BothFactors both(context, p, rounding);
    const std::size_t of_factors = both.scratch_bytes();
    const Scratch scratch(context, of_factors + own * threads);
    return [p, weights, threads, sums, own, both, of_factors, scratch]() mutable {
        const Factors factors = both.load(scratch.bytes());
        std::byte* const of_threads = scratch.bytes() + of_factors;
        const auto run = [&](std::size_t thread) { (*sums)[thread].run(factors, of_threads + own * thread); };
        if (threads == 1) {
            run(0); // not within a parallel region, where oneDNN would use one thread
        } else {
            std::exception_ptr failure; // none may leave the parallel region
#pragma omp parallel for num_threads(int(threads))
            for (std::size_t thread = 0; thread < threads; ++thread) try {
                    run(thread);
                } catch (...) {
#pragma omp critical
                    failure = std::current_exception();
                }
            if (failure) std::rethrow_exception(failure);
        }
        for (std::size_t thread = 0; thread < threads; ++thread) {
            const auto* const total = reinterpret_cast<const float*>(of_threads + own * thread);
            for (std::size_t i = 0; i < weights; ++i)
                p.dw.at[i] = total[i] + (thread == 0 ? 0.0f : p.dw.at[i]);
        }
    };
}

Work undivided(CpuContext& context, const Conv2dBackwardWeightsParams& p, const Rounding& rounding) {
    auto gradient = std::make_shared<Gradient>(context, p.shape, rounding);
    BothFactors both(context, p, rounding);
    const std::size_t of_factors = both.scratch_bytes();
    const Scratch scratch(context, of_factors + gradient->scratch_bytes());
    return [&context, p, gradient, both, of_factors, scratch]() mutable {
        const Factors factors = both.load(scratch.bytes());
        gradient->run(factors, p.dw.at, context.stream, scratch.bytes() + of_factors);
    };
}

Work weights_gradient(CpuContext& context, const Conv2dBackwardWeightsParams& p, const Rounding& rounding) {
    const ConvShape& s = p.shape;
    const std::size_t weights =
        std::size_t(s.kernel_height) * s.kernel_width * (s.in_channels / s.groups) * s.out_channels;
    if (std::size_t(s.batch) * s.out_height * s.out_width <= pixels_of_all)
        return undivided(context, p, rounding);
    const std::vector<Piece> pieces = pieces_of(s, pixels_of_thread);
    if (weights <= most_weights_of_thread && pieces.size() >= 2 * context.threads)
        return in_pieces(context, p, pieces, weights, context.threads, rounding);
    return in_pieces(context, p, pieces_of(s, pixels_of_all), weights, 1, rounding);
}

} // namespace

Work conv2d_backward_weights(CpuContext& context, const Launch& launch, const Rounding& rounding) {
    const auto p = launch.parameters.as<Conv2dBackwardWeightsParams>();
    Work weights = weights_gradient(context, p, rounding);
    if (p.bias == 0) return weights;
    return [&context, p, weights = std::move(weights)] {
        weights();
        bias_gradient(context, p);
    };
}

std::span<const CpuVariant> conv2d_weights_overrides() {
    using Params = Conv2dBackwardWeightsParams;
    static constexpr CpuVariant overrides[] = {
        {{Kernel::conv2d_backward_weights, "oneDNN", onednn_config<Params>},
         in_float32<conv2d_backward_weights>},
        {{Kernel::depthwise_conv2d_backward_weights, "oneDNN", onednn_config<Params>},
         in_float32<conv2d_backward_weights>}};
    return overrides;
}

} // namespace towers
