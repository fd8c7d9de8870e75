#include "engine/layers/window.h"

#include "engine/layers/layer.h"

#include <fmt/format.h>

namespace towers {

std::array<Placed, 2> Window::place(const Shape& in) const {
    const std::array<unsigned, 2> sizes{in.height, in.width};
    std::array<Placed, 2> placed{};
    for (const std::size_t axis : {0, 1}) {
        const unsigned length = sizes[axis];
        if (padding == Padding::same) {
            const unsigned out = (length + stride[axis] - 1) / stride[axis];
            const unsigned covered = (out - 1) * stride[axis] + size[axis];
            placed[axis] = {out, covered > length ? (covered - length) / 2 : 0};
            continue;
        }
        const unsigned padded = length + before[axis] + after[axis];
        if (padded < size[axis])
            throw LayerError(
                fmt::format("has a window of {}x{}, larger than its input of {}x{} with padding; use a "
                            "smaller window or more padding",
                            size[0], size[1], in.height, in.width));
        placed[axis] = {(padded - size[axis]) / stride[axis] + 1, before[axis]};
    }
    return placed;
}

Window read_window(Attributes& attributes, const std::string& size_key,
                   std::optional<std::array<unsigned, 2>> stride) {
    constexpr unsigned most = 1024;
    Window window;
    window.size = attributes.pair(size_key, 1, most);
    window.stride = attributes.pair("stride", 1, most, stride);
    const Value* const pad = attributes.find("pad");
    if (pad == nullptr) return window;
    if (const auto* name = pad->as<std::string>()) {
        if (*name != "same" && *name != "valid")
            attributes.fail("pad",
                            fmt::format("is \"{}\"; give \"same\", \"valid\" or pixels: one number, [height, "
                                        "width], or [top, bottom, left, right]",
                                        *name));
        window.padding = *name == "same" ? Window::Padding::same : Window::Padding::valid;
        return window;
    }
    window.padding = Window::Padding::given;
    if (const auto* list = pad->as<Value::Array>(); list != nullptr && list->size() == 4) {
        const std::vector<unsigned> sides = attributes.wholes("pad", 4, 0, most);
        window.before = {sides[0], sides[2]};
        window.after = {sides[1], sides[3]};
    } else {
        window.before = window.after = attributes.pair("pad", 0, most);
    }
    for (const std::size_t axis : {0, 1})
        if (std::max(window.before[axis], window.after[axis]) >= window.size[axis])
            attributes.fail("pad",
                            fmt::format("is {}, so that a window of {}x{} lies in padding alone; give less",
                                        pad->text(), window.size[0], window.size[1]));
    return window;
}

} // namespace towers
