#include "engine/layers/window.h"

#include "engine/layers/layer.h"

#include <fmt/format.h>

namespace towers {
namespace {

/// Reads padding in pixels, given as one number for all sides, [height, width], or all four, and returns
/// [top, bottom, left, right].
std::optional<std::array<unsigned, 4>> read_sides(const Value& value, unsigned most) {
    const Value::Array one{value};
    const auto* const list = value.as<Value::Array>();
    std::vector<unsigned> sides;
    for (const Value& each : list != nullptr ? *list : one)
        if (const auto* whole = each.as<std::int64_t>(); whole != nullptr && *whole >= 0 && *whole <= most)
            sides.push_back(unsigned(*whole));
        else
            return {};
    switch (sides.size()) {
    case 1:
        if (list != nullptr) return {};
        return {{sides[0], sides[0], sides[0], sides[0]}};
    case 2:
        return {{sides[0], sides[0], sides[1], sides[1]}};
    case 4:
        return {{sides[0], sides[1], sides[2], sides[3]}};
    default:
        return {};
    }
}

} // namespace

std::array<Placed, 2> Window::place(const Shape& in) const {
    const std::array<unsigned, 2> sizes{in.height, in.width};
    std::array<Placed, 2> placed{};
    for (const std::size_t axis : {0, 1}) {
        const unsigned length = sizes[axis];
        if (padding == Padding::same) {
            const unsigned out = (length + stride[axis] - 1) / stride[axis];
            const unsigned covered = (out - 1) * stride[axis] + reach(axis);
            placed[axis] = {out, covered > length ? (covered - length) / 2 : 0};
            continue;
        }
        const unsigned padded = length + before[axis] + after[axis];
        if (padded < reach(axis))
            throw LayerError(
                fmt::format("has a window of {}x{}, larger than its input of {}x{} with padding; use a "
                            "smaller window{} or more padding",
                            reach(0), reach(1), in.height, in.width,
                            dilation == std::array{1u, 1u} ? "" : ", less dilation"));
        placed[axis] = {(padded - reach(axis)) / stride[axis] + 1, before[axis]};
    }
    return placed;
}

Window read_window(Attributes& attributes, const std::string& size_key,
                   std::optional<std::array<unsigned, 2>> stride, Dilation dilation) {
    constexpr unsigned most = 1024;
    Window window;
    window.size = attributes.pair(size_key, 1, most);
    window.stride = attributes.pair("stride", 1, most, stride);
    if (dilation == Dilation::read)
        window.dilation = attributes.pair("dilation", 1, most, std::array{1u, 1u});
    const Value* const pad = attributes.find("pad");
    if (pad == nullptr) return window;
    const auto* const name = pad->as<std::string>();
    if (name != nullptr && (*name == "same" || *name == "valid")) {
        window.padding = *name == "same" ? Window::Padding::same : Window::Padding::valid;
        return window;
    }
    window.padding = Window::Padding::given;
    const std::optional<std::array<unsigned, 4>> sides = read_sides(*pad, most);
    if (!sides)
        attributes.fail("pad",
                        fmt::format("is {}; give \"same\", \"valid\" or pixels from 0 to {}: one number, "
                                    "[height, width], or [top, bottom, left, right]",
                                    pad->text(), most));
    const auto [top, bottom, left, right] = *sides;
    window.before = {top, left};
    window.after = {bottom, right};
    for (const std::size_t axis : {0, 1})
        if (std::max(window.before[axis], window.after[axis]) >= window.reach(axis))
            attributes.fail("pad",
                            fmt::format("is {}, so that a window of {}x{} lies in padding alone; give less",
                                        pad->text(), window.reach(0), window.reach(1)));
    return window;
}

} // namespace towers
