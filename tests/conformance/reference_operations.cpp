#include "tests/conformance/reference_operations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

namespace towers::reference {
namespace {

using Four = std::array<std::uint32_t, 4>;

/// An image that is black beyond its edges
struct Picture {
    const Values& values;
    int height, width, channels;

    bool has(int row, int column) const { return row >= 0 && row < height && column >= 0 && column < width; }
    double at(int row, int column, int channel) const {
        return has(row, column) ? values[std::size_t((row * width + column) * channels + channel)] : 0;
    }
    /// Makes another one of a function of row, column and channel.
    Values made(const std::function<double(int, int, int)>& value) const {
        Values result;
        for (int row = 0; row < height; ++row)
            for (int column = 0; column < width; ++column)
                for (int channel = 0; channel < channels; ++channel)
                    result.push_back(value(row, column, channel));
        return result;
    }
};

double byte(double x) { return std::floor(std::clamp(x, 0.0, 255.0) + 0.5001); }

/// What a device leaves of a blend's fraction: a whole number is one, even if its factor is rounded.
double whole_blend(double factor, double x, double z) {
    return std::clamp(std::floor(factor * x + (1 - factor) * z + 6e-5), 0.0, 255.0);
}

double grey(const double* x, int channels) {
    return channels == 1 ? x[0] : 0.2989 * x[0] + 0.587 * x[1] + 0.114 * x[2];
}

/// Where a pixel's centre comes from, from the image's middle: torchvision's matrices
std::array<double, 2> origin(uint kind, double magnitude, double x, double y, int height, int width) {
    switch (kind) {
    case OPERATION_SHEAR_X:
        return {x + magnitude * (y + height / 2.0), y};
    case OPERATION_SHEAR_Y:
        return {x, y + magnitude * (x + width / 2.0)};
    case OPERATION_TRANSLATE_X:
        return {x - std::trunc(magnitude), y};
    case OPERATION_TRANSLATE_Y:
        return {x, y - std::trunc(magnitude)};
    default: {
        const double angle = magnitude * std::numbers::pi / 180;
        return {std::cos(angle) * x - std::sin(angle) * y, std::sin(angle) * x + std::cos(angle) * y};
    }
    }
}

Values moved(const Picture& x, uint kind, double magnitude, bool bilinear) {
    return x.made([&](int row, int column, int channel) {
        const auto [across, down] = origin(kind, magnitude, column + 0.5 - x.width / 2.0,
                                           row + 0.5 - x.height / 2.0, x.height, x.width);
        const double from_column = across + x.width / 2.0 - 0.5, from_row = down + x.height / 2.0 - 0.5;
        if (!bilinear)
            return x.at(int(std::floor(from_row + 0.5)), int(std::floor(from_column + 0.5)), channel);
        double sum = 0, mask = 0;
        for (int r = int(std::floor(from_row)); r <= std::floor(from_row) + 1; ++r)
            for (int c = int(std::floor(from_column)); c <= std::floor(from_column) + 1; ++c) {
                const double weight = (1 - std::abs(r - from_row)) * (1 - std::abs(c - from_column));
                sum += weight * x.at(r, c, channel);
                mask += x.has(r, c) ? weight : 0;
            }
        return sum * mask;
    });
}

Values equalized(const Picture& x) {
    return x.made([&](int row, int column, int channel) {
        std::vector<int> counts(256);
        for (int k = 0; k < x.height * x.width; ++k)
            ++counts[std::size_t(x.at(k / x.width, k % x.width, channel))];
        const int last = *std::find_if(counts.rbegin(), counts.rend(), [](int n) { return n > 0; });
        const int step = (x.height * x.width - last) / 255;
        const auto value = std::size_t(x.at(row, column, channel));
        if (step == 0) return double(value);
        const int below = std::accumulate(counts.begin(), counts.begin() + std::ptrdiff_t(value), 0);
        return value == 0 ? 0.0 : double(std::min((below + step / 2) / step, 255));
    });
}

Values stretched(const Picture& x) {
    return x.made([&](int row, int column, int channel) {
        float least = 255, most = 0;
        for (int k = 0; k < x.height * x.width; ++k) {
            least = std::min(least, float(x.at(k / x.width, k % x.width, channel)));
            most = std::max(most, float(x.at(k / x.width, k % x.width, channel)));
        }
        const auto value = float(x.at(row, column, channel));
        if (least == most) return double(value);
        // torchvision's own arithmetic in float32, whose rounding decides what the whole part is
        const float scale = 1 / (most - least) * 255;
        return double(std::min(std::floor((value - least) * scale), 255.0f));
    });
}

Values blended(const Picture& x, uint kind, double factor) {
    double mean = 0;
    const auto grey_byte = [&](int row, int column) {
        double colour[3] = {};
        for (int c = 0; c < x.channels; ++c) colour[c] = x.at(row, column, c);
        return std::floor(grey(colour, x.channels) + 1e-6);
    };
    for (int k = 0; k < x.height * x.width; ++k)
        mean += grey_byte(k / x.width, k % x.width) / (x.height * x.width);
    return x.made([&](int row, int column, int channel) {
        const double value = x.at(row, column, channel);
        if (kind == OPERATION_BRIGHTNESS) return whole_blend(factor, value, 0);
        if (kind == OPERATION_CONTRAST) return whole_blend(factor, value, mean);
        if (kind == OPERATION_COLOR)
            return x.channels == 1 ? value : whole_blend(factor, value, grey_byte(row, column));
        if (row == 0 || column == 0 || row == x.height - 1 || column == x.width - 1) return value;
        double smooth = 4 * value / 13;
        for (int r = row - 1; r <= row + 1; ++r)
            for (int c = column - 1; c <= column + 1; ++c) smooth += x.at(r, c, channel) / 13;
        return whole_blend(factor, value, std::floor(smooth + 0.5));
    });
}

/// Python's colorsys
void turn_hue(double* x, double turns) {
    const double most = std::max({x[0], x[1], x[2]}), least = std::min({x[0], x[1], x[2]});
    if (most == least) return;
    const double range = most - least;
    double hue = x[0] == most   ? (x[1] - x[2]) / range
                 : x[1] == most ? 2 + (x[2] - x[0]) / range
                                : 4 + (x[0] - x[1]) / range;
    hue = std::fmod(hue / 6 + turns + 2, 1);
    const auto channel = [&](double n) {
        const double k = std::fmod(n + hue * 6, 6);
        return most - range * std::clamp(std::min(k, 4 - k), 0.0, 1.0);
    };
    const double r = channel(5), g = channel(3), b = channel(1);
    x[0] = r, x[1] = g, x[2] = b;
}

Values jittered(Values x, int channels, uint parts, uint order, const std::array<double, 4>& factors) {
    std::array<int, 4> sequence{0, 1, 2, 3};
    for (uint n = 0; n < order; ++n) std::ranges::next_permutation(sequence);
    const std::size_t pixels = x.size() / std::size_t(channels);
    for (const int part : sequence) {
        if ((parts >> part & 1) == 0) continue;
        double mean = 0;
        for (std::size_t k = 0; k < pixels; ++k)
            mean += grey(&x[k * std::size_t(channels)], channels) / double(pixels);
        for (std::size_t k = 0; k < pixels; ++k) {
            double* const colour = &x[k * std::size_t(channels)];
            const double own = grey(colour, channels);
            if (part == 3) {
                if (channels == 3) turn_hue(colour, factors[3]);
                continue;
            }
            if (part == 2 && channels == 1) continue;
            const double against = part == 0 ? 0 : part == 1 ? mean : own;
            for (int c = 0; c < channels; ++c)
                colour[c] =
                    std::clamp(against + (colour[c] - against) * factors[std::size_t(part)], 0.0, 255.0);
        }
    }
    if ((parts & AUGMENT_GRAYSCALE) != 0)
        for (std::size_t k = 0; k < pixels; ++k) {
            double* const colour = &x[k * std::size_t(channels)];
            std::fill_n(colour, channels, grey(colour, channels));
        }
    return x;
}

Values blurred(const Picture& x, double deviation, int taps, bool rows) {
    const auto mirrored = [](int at, int size) { return at < 0 ? -at : at >= size ? 2 * size - 2 - at : at; };
    double total = 0;
    for (int n = -taps / 2; n <= taps / 2; ++n) total += std::exp(-0.5 * n * n / deviation / deviation);
    return x.made([&](int row, int column, int channel) {
        double sum = 0;
        for (int n = -taps / 2; n <= taps / 2; ++n)
            sum += std::exp(-0.5 * n * n / deviation / deviation) / total *
                   (rows ? x.at(row, mirrored(column + n, x.width), channel)
                         : x.at(mirrored(row + n, x.height), column, channel));
        return sum;
    });
}

double fraction(std::uint32_t word) { return double(word >> 8) / double(1 << 24); }
int below(std::uint32_t word, int count) { return int(std::uint64_t(word) * std::uint64_t(count) >> 32); }
double between(std::uint32_t word, Range range) {
    return double(range.low) + (double(range.high) - double(range.low)) * fraction(word);
}

/// In whole parts of a degree
double angle_between(std::uint32_t word, Range range) {
    constexpr int units = 32768;
    const int first = int(range.low * units), last = int(range.high * units);
    return double(first + below(word, last - first + 1)) / units;
}

struct Random {
    std::uint64_t seed;
    uint record, epoch;
    Four words(std::uint32_t purpose, std::uint32_t number = 0) const {
        return philox4x32_10({record, epoch, purpose, number},
                             {std::uint32_t(seed), std::uint32_t(seed >> 32)});
    }
    /// Four words as two normally distributed numbers
    static std::array<double, 2> normal(const Four& w) {
        const auto one = [](std::uint32_t size, std::uint32_t turns) {
            return std::sqrt(-2 * std::log(1 - fraction(size))) *
                   std::sin(2 * std::numbers::pi * double(turns) / 4294967296.0);
        };
        return {one(w[0], w[1]), one(w[2], w[3])};
    }
    std::array<double, 3> colour(std::uint32_t purpose, std::uint32_t number) const {
        const auto a = normal(words(purpose, number)), b = normal(words(purpose, number + 1));
        return {a[0], a[1], b[0]};
    }
};

/// As torch.linspace(0, end, last + 1)[bin] computes it
float linspace(float end, double bin, double last) {
    const float step = end / float(last);
    return bin < std::floor((last + 1) / 2) ? step * float(bin) : std::fma(-step, float(last - bin), end);
}

/// torchvision's magnitude number `bin` of an operation, without its sign
double policy_magnitude(uint kind, bool trivial, double bin, double last, const ImageSize& image) {
    switch (kind) {
    case OPERATION_SHEAR_X:
    case OPERATION_SHEAR_Y:
        return (trivial ? 0.99 : 0.3) * bin / last;
    case OPERATION_TRANSLATE_X:
    case OPERATION_TRANSLATE_Y: {
        const double side = kind == OPERATION_TRANSLATE_X ? image.width : image.height;
        return std::floor(double(linspace(trivial ? 32 : float(150.0 / 331 * side), bin, last)));
    }
    case OPERATION_ROTATE:
        return (trivial ? 135 : 30) * bin / last;
    case OPERATION_BRIGHTNESS:
    case OPERATION_COLOR:
    case OPERATION_CONTRAST:
    case OPERATION_SHARPNESS:
        return (trivial ? 0.99 : 0.9) * bin / last;
    case OPERATION_POSTERIZE:
        return 8 - std::nearbyint(bin / (last / (trivial ? 6 : 4)));
    case OPERATION_SOLARIZE:
        return std::ceil(255 - 255 * bin / last - 1e-9);
    default:
        return 0;
    }
}

} // namespace

Values operated(const Values& x, const ImageSize& size, const Operation& operation) {
    Values bytes = x;
    for (double& value : bytes) value = byte(value);
    const auto picture = [&](const Values& values) {
        return Picture{values, int(size.height), int(size.width), int(size.channels)};
    };
    const double magnitude = operation.magnitude;
    switch (operation.kind) {
    case OPERATION_NONE:
        return x;
    case OPERATION_IDENTITY:
        return bytes;
    case OPERATION_BRIGHTNESS:
    case OPERATION_COLOR:
    case OPERATION_CONTRAST:
    case OPERATION_SHARPNESS:
        return blended(picture(bytes), operation.kind, 1 + magnitude);
    case OPERATION_POSTERIZE:
        for (double& value : bytes)
            value = std::floor(value / std::exp2(8 - magnitude)) * std::exp2(8 - magnitude);
        return bytes;
    case OPERATION_SOLARIZE:
        for (double& value : bytes) value = value >= magnitude ? 255 - value : value;
        return bytes;
    case OPERATION_AUTOCONTRAST:
        return stretched(picture(bytes));
    case OPERATION_EQUALIZE:
        return equalized(picture(bytes));
    case OPERATION_ROTATION:
        return moved(picture(x), OPERATION_ROTATE, magnitude, operation.more != 0);
    case OPERATION_JITTER:
        return jittered(x, int(size.channels), uint(magnitude), uint(operation.more), operation.factors);
    case OPERATION_BLUR_ROWS:
    case OPERATION_BLUR_COLUMNS:
        return blurred(picture(x), magnitude, int(operation.more), operation.kind == OPERATION_BLUR_ROWS);
    default:
        return moved(picture(bytes), operation.kind, magnitude, false);
    }
}

std::vector<Operation> drawn_operations(const Augmentation& a, const ImageSize& image,
                                        const std::array<double, 4>& factors, std::uint64_t seed, uint record,
                                        uint epoch) {
    const Random random{seed, record, epoch};
    std::vector<Operation> all;
    if (a.rotation != Range{0, 0})
        all.push_back({OPERATION_ROTATION, angle_between(random.words(0x140)[0], a.rotation),
                       a.rotation_bilinear ? 1.0 : 0.0});
    const bool trivial = a.trivial_augment;
    const uint count = trivial ? 1 : a.rand_augment.operations, bins = trivial ? 31 : a.rand_augment.bins;
    for (uint n = 0; n < count; ++n) {
        const Four w = random.words(0x120 + n);
        const auto kind = uint(OPERATION_IDENTITY) + uint(below(w[0], 14));
        const double bin = trivial ? below(w[2], 31) : double(a.rand_augment.magnitude);
        const double magnitude = policy_magnitude(kind, trivial, bin, bins - 1, image);
        const bool negative = kind >= OPERATION_SHEAR_X && kind <= OPERATION_SHARPNESS && w[1] % 2 == 1;
        all.push_back({kind, negative ? -magnitude : magnitude});
    }
    const bool bright = a.brightness != Range{1, 1}, contrast = a.contrast != Range{1, 1};
    const bool saturated = a.saturation != Range{1, 1}, hue = a.hue != Range{0, 0};
    if (bright || contrast || saturated || hue || a.grayscale > 0) {
        const Four w = random.words(0x141);
        uint parts = fraction(w[0]) < double(a.jitter_probability)
                         ? uint(bright) + 2 * uint(contrast) + 4 * uint(saturated) + 8 * uint(hue)
                         : 0;
        if (fraction(w[1]) < double(a.grayscale)) parts += 16;
        all.push_back({parts != 0 ? uint(OPERATION_JITTER) : uint(OPERATION_NONE), double(parts),
                       a.random_order ? double(below(w[2], 24)) : 0.0, factors});
    }
    if (a.blur.kernel > 0) {
        const Four w = random.words(0x142);
        const bool blurs = fraction(w[0]) < double(a.blur.probability);
        for (const uint kind : {OPERATION_BLUR_ROWS, OPERATION_BLUR_COLUMNS})
            all.push_back(
                {blurs ? kind : uint(OPERATION_NONE), between(w[1], a.blur.sigma), double(a.blur.kernel)});
    }
    return all;
}

std::vector<ErasedBox> drawn_boxes(const Augmentation::Erasing& e, const ImageSize& image, std::uint64_t seed,
                                   uint record, uint epoch) {
    const Random random{seed, record, epoch};
    const Four often = random.words(0x150);
    std::vector<ErasedBox> boxes(e.count, ErasedBox{});
    if (fraction(often[0]) >= double(e.probability)) return boxes;
    const int count = 1 + below(often[1], int(e.count));
    for (int number = 0; number < count; ++number) {
        ErasedBox& box = boxes[std::size_t(number)];
        for (int attempt = 0; attempt < 10; ++attempt) {
            const Four w = random.words(uint(0x160 + 10 * number + attempt));
            const double area = (double(e.area.low) +
                                 (double(e.area.high) - double(e.area.low)) * double(w[0]) / 4294967296.0) *
                                image.height * image.width / count;
            const double ratio = std::log(double(e.aspect.high) / double(e.aspect.low));
            const double aspect = double(e.aspect.low) * std::exp(ratio * ((w[1] >> 24) + 0.5) / 256);
            const int height = int(std::floor(std::sqrt(area * aspect) + 0.5));
            const int width = int(std::floor(std::sqrt(area / aspect) + 0.5));
            if (height >= int(image.height) || width >= int(image.width)) continue;
            box = {below(w[2], int(image.height) - height + 1),
                   below(w[3], int(image.width) - width + 1),
                   height,
                   width,
                   {}};
            break;
        }
        if (e.mode == Augmentation::Erasing::Mode::rand) box.colour = random.colour(uint(0x1c0 + number), 0);
    }
    return boxes;
}

std::array<double, 3> erasing_noise(std::uint64_t seed, uint record, uint epoch, uint box, uint k) {
    return Random{seed, record, epoch}.colour(0x1d0 + box, 2 * k);
}

} // namespace towers::reference
