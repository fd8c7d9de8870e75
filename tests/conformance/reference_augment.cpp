#include "tests/conformance/reference_augment.h"

#include <algorithm>
#include <cmath>

namespace towers::reference {
namespace {

using Box = Augmentation::Box;
using Four = std::array<std::uint32_t, 4>;

double fraction(std::uint32_t word) { return double(word >> 8) / double(1 << 24); }
double between(std::uint32_t word, Range range) {
    return double(range.low) + (double(range.high) - double(range.low)) * fraction(word);
}
int below(std::uint32_t word, int count) { return int(std::uint64_t(word) * std::uint64_t(count) >> 32); }
int rounded(double x) { return int(std::floor(x + 0.5)); }

double grey_of(const double* x, std::size_t channels) {
    return channels == 1 ? x[0] : 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2];
}

double clamped(double x) { return std::clamp(x, 0.0, 255.0); }

/// Foley and van Dam's conversions, as in Python's colorsys.
void turn_hue(double* x, double turns) {
    const double largest = std::max({x[0], x[1], x[2]}), least = std::min({x[0], x[1], x[2]});
    if (largest == least) return;
    const double saturation = (largest - least) / largest;
    const double rc = (largest - x[0]) / (largest - least), gc = (largest - x[1]) / (largest - least),
                 bc = (largest - x[2]) / (largest - least);
    double hue = x[0] == largest ? bc - gc : x[1] == largest ? 2 + rc - bc : 4 + gc - rc;
    hue = hue / 6 + turns;
    hue -= std::floor(hue);
    const int sextant = int(hue * 6);
    const double f = hue * 6 - sextant;
    const double p = largest * (1 - saturation), q = largest * (1 - saturation * f),
                 t = largest * (1 - saturation * (1 - f));
    const double colours[6][3] = {{largest, t, p}, {q, largest, p}, {p, largest, t},
                                  {p, q, largest}, {t, p, largest}, {largest, p, q}};
    std::copy_n(colours[sextant % 6], 3, x);
}

} // namespace

Draw AugmentedExample::draw() const {
    const Augmentation& a = settings;
    const auto words = [&](std::uint32_t purpose) {
        return philox4x32_10({record, epoch, purpose, 0}, {std::uint32_t(seed), std::uint32_t(seed >> 32)});
    };
    const Four place = words(0x100), light = words(0x101), cut = words(0x102);
    const int height = int(stored.height), width = int(stored.width), pad = int(a.pad);
    const int out_height = int(image.height), out_width = int(image.width);

    Draw d{};
    const auto centre = [&](int h, int w) {
        d.height = h;
        d.width = w;
        d.top = (height - h) / 2;
        d.left = (width - w) / 2;
    };
    switch (a.box) {
    case Box::whole:
        centre(height, width);
        break;
    case Box::centre:
        d.top = int((height - height * double(a.fraction)) / 2);
        d.left = int((width - width * double(a.fraction)) / 2);
        d.height = height - 2 * d.top;
        d.width = width - 2 * d.left;
        break;
    case Box::centre_fit: {
        const double scale =
            double(a.fraction) * std::min(double(height) / out_height, double(width) / out_width);
        centre(rounded(out_height * scale), rounded(out_width * scale));
        break;
    }
    case Box::centre_crop:
        centre(out_height, out_width);
        break;
    case Box::random_crop:
        d = {below(place[0], height + 2 * pad - out_height + 1) - pad,
             below(place[1], width + 2 * pad - out_width + 1) - pad,
             out_height,
             out_width,
             0,
             0,
             0,
             0,
             false,
             false,
             0,
             0};
        break;
    case Box::random_area: {
        bool found = false;
        for (std::uint32_t attempt = 0; attempt < 10 && !found; ++attempt) {
            const Four w = words(0x110 + attempt);
            const double low = double(a.area.low), high = double(a.area.high);
            const double area = (low + (high - low) * double(w[0]) / 4294967296.0) * height * width;
            const double ratio = std::log(double(a.aspect.high) / double(a.aspect.low));
            const double aspect = double(a.aspect.low) * std::exp(ratio * ((w[1] >> 24) + 0.5) / 256);
            d.width = rounded(std::sqrt(area * aspect));
            d.height = rounded(std::sqrt(area / aspect));
            found = d.width >= 1 && d.width <= width && d.height >= 1 && d.height <= height;
            d.top = below(w[2], height - d.height + 1);
            d.left = below(w[3], width - d.width + 1);
        }
        if (found) break;
        const double ratio = double(width) / height;
        if (ratio < double(a.aspect.low))
            centre(rounded(width / double(a.aspect.low)), width);
        else if (ratio > double(a.aspect.high))
            centre(height, rounded(height * double(a.aspect.high)));
        else
            centre(height, width);
        break;
    }
    }
    d.brightness = between(light[0], a.brightness);
    d.contrast = between(light[1], a.contrast);
    d.saturation = between(light[2], a.saturation);
    d.hue = between(light[3], a.hue);
    using Flip = Augmentation::Flip;
    const Four flips = words(0x103);
    const Four once = philox4x32_10({record, 0, 0x104, 0}, {std::uint32_t(seed), std::uint32_t(seed >> 32)});
    d.flip = (a.flip == Flip::half && place[2] % 2 == 1) ||
             (a.flip == Flip::alternating && once[0] % 2 != epoch % 2) ||
             (a.flip == Flip::probability && fraction(flips[0]) < double(a.flip_probability));
    d.flip_vertical = fraction(flips[1]) < double(a.flip_vertical);
    d.cut_top = uint(below(cut[0], int(image.height - a.cutout) + 1));
    d.cut_left = uint(below(cut[1], int(image.width - a.cutout) + 1));
    return d;
}

Values AugmentedExample::resized(const std::uint8_t* bytes, const Draw& d) const {
    const auto stored_value = [&](std::size_t channel, int y, int x) -> double {
        const auto mirrored = [](int at, int size) {
            return at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
        };
        const int height = int(stored.height), width = int(stored.width);
        if (settings.padding == Augmentation::Padding::reflect) {
            y = mirrored(y, height);
            x = mirrored(x, width);
        }
        if (y < 0 || y >= height || x < 0 || x >= width) return 0;
        return bytes[(channel * stored.height + std::size_t(y)) * stored.width + std::size_t(x)];
    };
    Values result(std::size_t(image.height) * image.width * image.channels);
    for (std::size_t i = 0; i < result.size(); ++i) {
        const std::size_t channel = i % image.channels, column = i / image.channels % image.width,
                          row = i / image.channels / image.width;
        const std::size_t from = d.flip ? image.width - 1 - column : column;
        const std::size_t from_row = d.flip_vertical ? image.height - 1 - row : row;
        const auto along = [](std::size_t at, uint out, int box) {
            return std::clamp((double(at) + 0.5) * box / out - 0.5, 0.0, double(box - 1));
        };
        const double y = along(from_row, image.height, d.height), x = along(from, image.width, d.width);
        // A triangle, as wide as a pixel of the image where that is wider than one of the box
        const auto reach = [&](uint out, int box) {
            return settings.antialias ? std::max(1.0, double(box) / out) : 1.0;
        };
        const double high = reach(image.height, d.height), wide = reach(image.width, d.width);
        const auto middle = [](std::size_t at, uint out, int box) {
            return (double(at) + 0.5) * box / out - 0.5;
        };
        const double y_centre = settings.antialias ? middle(from_row, image.height, d.height) : y;
        const double x_centre = settings.antialias ? middle(from, image.width, d.width) : x;
        double value = 0, weights = 0;
        for (int down = 0; down < d.height; ++down)
            for (int across = 0; across < d.width; ++across) {
                const double weight = std::max(0.0, 1 - std::abs(y_centre - down) / high) *
                                      std::max(0.0, 1 - std::abs(x_centre - across) / wide);
                if (weight > 0) value += weight * stored_value(channel, d.top + down, d.left + across);
                weights += weight;
            }
        result[i] = value / weights;
    }
    return result;
}

Values AugmentedExample::grey(const std::uint8_t* bytes) const {
    const Draw d = draw();
    Values x = resized(bytes, d), greys;
    for (double& value : x) value = clamped(value * d.brightness);
    for (std::size_t i = 0; i < x.size(); i += image.channels)
        greys.push_back(grey_of(&x[i], image.channels));
    return greys;
}

Values AugmentedExample::make(const std::uint8_t* bytes) const {
    const Draw d = draw();
    const std::size_t channels = image.channels;
    Values x = resized(bytes, d);
    for (double& value : x) value = clamped(value * d.brightness);

    const Values greys = grey(bytes);
    double mean = 0;
    for (const double value : greys) mean += value / double(greys.size());
    for (double& value : x) value = clamped(mean + (value - mean) * d.contrast);

    for (std::size_t i = 0; i < x.size(); i += channels) {
        const double own = grey_of(&x[i], channels);
        for (std::size_t c = 0; c < channels; ++c) x[i + c] = clamped(own + (x[i + c] - own) * d.saturation);
        if (channels == 3) turn_hue(&x[i], d.hue);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t c = i % channels, column = i / channels % image.width,
                          row = i / channels / image.width;
        if (settings.values == Augmentation::Values::signed_unit) x[i] = x[i] / 255 * 2 - 1;
        if (settings.values == Augmentation::Values::normalized)
            x[i] = (x[i] / 255 - double(settings.mean[c])) / double(settings.deviation[c]);
        if (row >= d.cut_top && row < d.cut_top + settings.cutout && column >= d.cut_left &&
            column < d.cut_left + settings.cutout)
            x[i] = 0;
    }
    return x;
}

} // namespace towers::reference
