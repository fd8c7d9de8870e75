// Convolutions of random shapes on the CPU, each in every way that it has, with guards around all memory:
// oneDNN's code depends on shape, instruction set and threads, and not all of it is right.
#include "tests/conformance/choosing.h"

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

namespace towers {
namespace {

using namespace test;

/// Draws shapes that lie close to what code may do differently: whole vectors of channels, kernels larger
/// than the image, windows that see only padding, rows that are never read.
class Shapes {
public:
    explicit Shapes(unsigned seed, Precision precision) : random_(seed), precision_(precision) {}

    ConvShape next(double most_products) {
        for (;;) {
            const ConvShape s = draw();
            if (s.out_height != 0 && double(s.batch) * s.out_height * s.out_width * s.kernel_height *
                                             s.kernel_width * (s.in_channels / s.groups) * s.out_channels <
                                         most_products)
                return s;
        }
    }

private:
    uint between(uint least, uint most) { return least + uint(random_()) % (most - least + 1); }
    bool chance(unsigned percent) { return between(1, 100) <= percent; }
    uint one_of(const std::vector<uint>& values) { return values[between(0, uint(values.size()) - 1)]; }

    void draw_channels(ConvShape& s) {
        const uint kind = between(1, 100);
        if (precision_ != Precision::fp32) { // units take whole registers of them
            s.in_channels = one_of({16, 32, 48, 64, 96});
            s.out_channels = one_of({16, 32, 48, 80});
        } else if (kind <= 60) {
            s.in_channels = between(1, 33);
            s.out_channels = between(1, 33);
        } else if (kind <= 70) {
            s.in_channels = one_of({32, 48, 64, 96, 100, 128});
            s.out_channels = one_of({1, 8, 16, 24, 32, 64, 65});
        } else if (kind <= 85) {
            s.groups = one_of({2, 3, 4, 5, 8});
            s.in_channels = s.groups * one_of({1, 2, 3, 4, 5, 8, 12, 16, 17});
            s.out_channels = s.groups * one_of({1, 2, 3, 4, 6, 8, 16, 20});
        } else {
            s.groups = s.in_channels = between(2, 70);
            s.out_channels = s.groups * one_of({1, 1, 1, 2, 3});
        }
    }

    /// Output pixels along an axis and the padding before the image; 0 pixels: the window does not fit.
    std::pair<uint, uint> draw_padding(uint image, uint kernel, uint stride, uint dilation) {
        const uint reach = (kernel - 1) * dilation + 1, kind = between(1, 100);
        uint before = 0, behind = 0;
        if (kind <= 50) { // SAME
            const uint out = (image + stride - 1) / stride, wanted = (out - 1) * stride + reach;
            const uint all = wanted > image ? wanted - image : 0;
            before = all / 2, behind = all - all / 2;
        } else if (kind > 70) {
            before = between(0, reach);
            behind = kind > 90 ? between(0, reach) : before;
        }
        const uint padded = image + before + behind;
        return {padded < reach ? 0 : (padded - reach) / stride + 1, before};
    }

    ConvShape draw() {
        ConvShape s{.batch = between(1, 9), .groups = 1};
        draw_channels(s);
        s.in_height = chance(80) ? between(1, 40) : between(5, 70);
        s.in_width = chance(60) ? s.in_height : between(1, 70);
        s.kernel_height = one_of({1, 1, 1, 2, 3, 3, 4, 5, 6, 7});
        s.kernel_width = chance(60) ? s.kernel_height : between(1, 7);
        s.stride_y = one_of({1, 1, 1, 2, 2, 3});
        s.stride_x = chance(60) ? s.stride_y : between(1, 3);
        s.dilation_y = one_of({1, 1, 1, 1, 2, 3});
        s.dilation_x = chance(60) ? s.dilation_y : between(1, 2);
        std::tie(s.out_height, s.pad_top) =
            draw_padding(s.in_height, s.kernel_height, s.stride_y, s.dilation_y);
        std::tie(s.out_width, s.pad_left) =
            draw_padding(s.in_width, s.kernel_width, s.stride_x, s.dilation_x);
        if (s.out_width == 0) s.out_height = 0;
        return s;
    }

    std::mt19937 random_;
    Precision precision_;
};

/// CPU devices with guarded memory, for each number of threads
class Guarded {
public:
    explicit Guarded(Precision precision = Precision::fp32) : precision_(precision) {}
    Choosing& with(unsigned threads) {
        auto& slot = opened_[threads];
        if (!slot) {
            OpenOptions options = open_options();
            options.threads = threads;
            options.guarded = true;
            options.precision = precision_;
            slot = std::make_unique<Choosing>("cpu", options);
        }
        return *slot;
    }

private:
    Precision precision_;
    std::map<unsigned, std::unique_ptr<Choosing>> opened_;
};

void check(Guarded& guarded, const ConvShape& s, unsigned threads) {
    INFO(threads, " threads");
    Choosing& on = guarded.with(threads);
    CHECK(check_every_candidate(on, s) >= 3);
    if (s.groups > 1 && s.groups == s.in_channels && s.groups == s.out_channels)
        CHECK(check_every_candidate(on, s, true, {}, depthwise) >= 3);
}

void sweep(unsigned seed, unsigned count, double most_products, Precision precision) {
    Guarded guarded(precision);
    Shapes shapes(seed, precision);
    const unsigned threads[] = {1, 2, 3, 5, 8, 13, 24};
    for (unsigned i = 0; i < count; ++i)
        check(guarded, shapes.next(most_products), threads[i % std::size(threads)]);
}

} // namespace

TEST_CASE("1x1 convolutions with a stride on few channels stay within their memory") {
    Guarded guarded;
    for (const uint channels : {1u, 3u, 7u, 8u, 15u, 16u})
        for (const auto& [y, x] : {std::pair(2u, 2u), {1u, 2u}}) {
            const ConvShape s = reference::valid_conv(5, 64, 48, channels, {{1, 1}, {y, x}}, 24);
            for (const unsigned threads : {2u, 7u}) check(guarded, s, threads);
        }
}

TEST_CASE(
    "convolutions of random shapes stay within their memory and are right, in every way and with any number "
    "of threads") {
    sweep(1, 80, 3e5, Precision::fp32);
    sweep(1, 20, 1e6, Precision::bf16);
}

namespace {

/// `TOWERS_SWEEP` and `TOWERS_SWEEP_SEED` say how many shapes and which.
void long_sweep(Precision precision) {
    const auto number = [](const char* name, unsigned otherwise) {
        const char* const text = std::getenv(name);
        return text != nullptr ? unsigned(std::atoi(text)) : otherwise;
    };
    sweep(number("TOWERS_SWEEP_SEED", 2), number("TOWERS_SWEEP", 1500), 3e6, precision);
}

} // namespace

TEST_CASE("many convolutions of random shapes" * doctest::test_suite("slow")) { long_sweep(Precision::fp32); }

TEST_CASE("many convolutions of random shapes in bfloat16" * doctest::test_suite("slow")) {
    long_sweep(Precision::bf16);
}

} // namespace towers
