#include "engine/data/shapes.h"

#include "engine/data/formats.h"
#include "engine/data/in_parts.h"
#include "engine/data/philox.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace towers {

namespace {

constexpr unsigned usual_side = 32; // the lengths in pixels below are for this side

// The code below uses only +, -, *, / and sqrt, which IEEE 754 rounds alike everywhere; the sine differs
// between C libraries.
struct Point {
    float x, y;
};

float dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }

// A shape is a function: the signed distance in pixels, negative inside, of a point in the shape's own
// coordinates. `r` is its radius, or the width of a texture's stripes or squares.
using Shape = float (*)(Point p, float r);

float square_of(Point p, float half) { return std::max(std::abs(p.x), std::abs(p.y)) - half; }

float circle(Point p, float r) { return std::sqrt(dot(p, p)) - 0.9f * r; }

float square(Point p, float r) { return square_of(p, 0.8f * r); }

float triangle(Point p, float r) { // an edge is half a circumradius from the centre
    constexpr float sin120 = 0.8660254f;
    const float edges = std::max({p.y, dot(p, {sin120, -0.5f}), dot(p, {-sin120, -0.5f})});
    return edges - 0.55f * r;
}

float ring(Point p, float r) { return std::abs(std::sqrt(dot(p, p)) - 0.8f * r) - 0.2f * r; }

float frame(Point p, float r) { return std::abs(square_of(p, 0.75f * r)) - 0.18f * r; }

float cross(Point p, float r) {
    const float x = std::abs(p.x), y = std::abs(p.y);
    const float arm = 0.24f * r;
    return std::min(std::max(x - r, y - arm), std::max(x - arm, y - r));
}

// A pentagram is the set of points beyond at most one of a pentagon's five sides.
float star(Point p, float r) {
    constexpr float cos72 = 0.30901699f, sin72 = 0.95105652f, cos144 = -0.80901699f, sin144 = 0.58778525f;
    float first = p.y, second = -1e30f; // the two greatest
    for (const float side : {dot(p, {sin72, cos72}), dot(p, {-sin72, cos72}), dot(p, {sin144, cos144}),
                             dot(p, {-sin144, cos144})}) {
        second = std::max(second, std::min(first, side));
        first = std::max(first, side);
    }
    return second - cos72 * 1.15f * r;
}

// Unlike std::floor(), in vectors on every processor. |x| < 2^31
float floor_of(float x) {
    const auto whole = float(std::int32_t(x));
    return whole > x ? whole - 1.0f : whole;
}

// The distance from stripes of width `w` with gaps of `w`, along x.
float stripes(float x, float w) {
    const float phase = x / (2.0f * w);
    return (std::abs(phase - floor_of(phase) - 0.5f) - 0.25f) * 2.0f * w;
}

float rows(Point p, float r) { return stripes(p.y, 0.4f * r); }

float columns(Point p, float r) { return stripes(p.x, 0.4f * r); }

float checkers(Point p, float r) {
    const float across = stripes(p.x, 0.5f * r), down = stripes(p.y, 0.5f * r);
    return std::max(std::min(across, down), -std::max(across, down));
}

struct Place {
    Point centre, turn;
    float radius;
};

// How much of each pixel of row `y` the shape covers: 0 to 1, on its edge between them.
using Cover = void (*)(const Place& place, std::size_t y, std::span<float> row);

template<Shape shape>
void cover(const Place& place, std::size_t y, std::span<float> row) {
    const Point turn = place.turn;
    for (std::size_t x = 0; x < row.size(); ++x) {
        const Point p{float(std::int32_t(x)) - place.centre.x, float(y) - place.centre.y};
        const float distance = shape({dot(p, turn), turn.x * p.y - turn.y * p.x}, place.radius);
        row[x] = std::clamp(0.5f - distance, 0.0f, 1.0f);
    }
}

struct Class {
    const char* name;
    Cover cover;
    bool turns; // true: any rotation; false: a few degrees
};

constexpr std::array<Class, 10> classes = {{
    {"circle", cover<circle>, true},
    {"square", cover<square>, true},
    {"triangle", cover<triangle>, true},
    {"ring", cover<ring>, true},
    {"frame", cover<frame>, true},
    {"cross", cover<cross>, true},
    {"star", cover<star>, true},
    {"rows", cover<rows>, false},
    {"columns", cover<columns>, false},
    {"checkers", cover<checkers>, false},
}};

// The cosine and sine of a random angle: a random point in the disc, projected to its edge.
Point any_direction(PhiloxStream& random) {
    for (;;) {
        const Point p{random.between(-1.0f, 1.0f), random.between(-1.0f, 1.0f)};
        const float square = dot(p, p);
        if (square > 0.01f && square <= 1.0f) return {p.x / std::sqrt(square), p.y / std::sqrt(square)};
    }
}

Point nearly_upright(PhiloxStream& random) {
    const float tangent = random.between(-0.15f, 0.15f);
    const float scale = 1.0f / std::sqrt(1.0f + tangent * tangent);
    return {scale, tangent * scale};
}

using Colour = std::array<float, 3>;

float brightness(const Colour& c) { return (c[0] + c[1] + c[2]) / 3.0f; }

Colour any_colour(PhiloxStream& random) {
    return {random.between(0.0f, 255.0f), random.between(0.0f, 255.0f), random.between(0.0f, 255.0f)};
}

void draw(const Class& kind, PhiloxStream& random, const ImageSize& size, std::uint8_t* image) {
    const unsigned shorter = std::min(size.height, size.width);
    const float scale = float(shorter) / usual_side;
    const auto anywhere = [&](unsigned side) { // also along the longer side
        const float reach = 2.0f * scale + float(side - shorter) / 2.0f;
        return float(side - 1) / 2.0f + random.between(-reach, reach);
    };
    const float across = anywhere(size.width);
    const Point centre{across, anywhere(size.height)};
    const float radius = random.between(7.5f, 10.5f) * scale;
    const Point turn = kind.turns ? any_direction(random) : nearly_upright(random);
    Colour back = any_colour(random);
    Colour front = any_colour(random);
    while (std::abs(brightness(front) - brightness(back)) < 60.0f) front = any_colour(random);

    if (size.channels == 1) {
        back[0] = brightness(back);
        front[0] = brightness(front);
    }

    constexpr float noise = 12.0f; // at most, out of 255
    const Place place{centre, turn, radius};
    const std::size_t pixels = std::size_t(size.height) * size.width;
    std::vector<float> covers(size.width);
    std::vector<std::uint32_t> words(size.width);
    for (std::size_t y = 0; y < size.height; ++y) {
        kind.cover(place, y, covers);
        for (std::uint32_t& word : words) word = random.next();
        for (unsigned channel = 0; channel < size.channels; ++channel) {
            std::uint8_t* const row = image + channel * pixels + y * size.width;
            const float from = back[channel], to = front[channel];
            for (std::size_t x = 0; x < size.width; ++x) {
                const auto ten_bits = std::int32_t(words[x] >> (10 * channel) & 1023u);
                const float deviation = float(ten_bits) * (2.0f * noise / 1023.0f) - noise;
                const float value = from + (to - from) * covers[x] + deviation;
                row[x] = std::uint8_t(std::int32_t(std::clamp(value, 0.0f, 255.0f) + 0.5f));
            }
        }
    }
}

std::vector<std::string> class_names() {
    std::vector<std::string> names;
    for (const Class& kind : classes) names.emplace_back(kind.name);
    return names;
}

} // namespace

std::size_t shapes_count(Split split, const ImageSize& size) {
    constexpr std::size_t most_bytes = std::size_t(64) << 20, least = 500;
    const std::size_t bytes = std::max<std::size_t>(size.elements(), 1);
    const std::size_t usual = split == Split::train ? 10'000 : 2'000;
    const std::size_t that_fit = most_bytes / bytes / classes.size() * classes.size();
    return std::min(usual, std::max(that_fit, least));
}

Dataset make_shapes(Split split, std::uint64_t seed, ImageSize size, std::size_t count) {
    if (size.height == 0 || size.width == 0 || (size.channels != 1 && size.channels != 3))
        throw std::invalid_argument("shapes are drawn at one pixel or more, in 1 or 3 channels");
    if (count == 0) count = shapes_count(split, size);
    const RandomPurpose purpose =
        split == Split::train ? RandomPurpose::train_shapes : RandomPurpose::test_shapes;
    DataInfo info{.name = "shapes", .classes = class_names(), .image = size};
    std::vector<std::uint8_t> images(count * size.elements());
    std::vector<std::uint32_t> labels(count);
    constexpr std::size_t least_bytes = std::size_t(256) << 10;
    in_parts(count, least_bytes / size.elements(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            PhiloxStream random(seed, purpose, std::uint32_t(i)); // its own: an image depends on no other
            labels[i] = std::uint32_t(i % classes.size());
            draw(classes[labels[i]], random, size, images.data() + i * size.elements());
        }
    });
    return {std::move(info), std::move(images), std::move(labels)};
}

const DataFormat& shapes_format() {
    static constexpr DataFormat format{
        .key = "shapes",
        .name = "shapes",
        .more = "ten classes of drawn shapes",
        .files = {},
        .options = {},
        .recognizes = [](const DataRequest& request) { return request.source == "shapes"; },
        .open = [](const DataRequest& request) -> std::unique_ptr<DataSource> {
            const ImageSize size = request.image.height > 0 ? request.image : ImageSize{32, 32, 3};
            return std::make_unique<Dataset>(make_shapes(request.split, request.seed, size));
        }};
    return format;
}

} // namespace towers
