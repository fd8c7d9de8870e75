#include "engine/layers/layer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace towers {

#define TOWERS_LAYER(name, family) std::unique_ptr<const Layer> make_##name(Attributes& attributes);
#include "engine/layers/layers.def"
#undef TOWERS_LAYER

unsigned checked_channels(std::uint64_t channels) {
    if (channels > most_elements)
        throw LayerError(fmt::format("makes {} channels, more than a device can count; use fewer", channels));
    return unsigned(channels);
}

std::vector<Variable> Layer::variables(std::span<const Shape>) const { return {}; }

double Layer::flop(std::span<const Shape>) const { return 0; }

std::unique_ptr<const Layer> make_layer(const std::string& kind, Attributes& attributes) {
#define TOWERS_LAYER(name, family)                                                                           \
    if (kind == #name) return make_##name(attributes);
#include "engine/layers/layers.def"
#undef TOWERS_LAYER
    if (kind.find("transpose") != std::string::npos || kind.find("deconv") != std::string::npos)
        attributes.fail("kind",
                        "is \"" + kind +
                            "\", but there are no transposed convolutions: networks here tell classes "
                            "apart and make no images");
    attributes.fail("kind", fmt::format("is \"{}\", but there is no such layer; choose from {}", kind,
                                        fmt::join(layer_kinds(), ", ")));
}

std::vector<std::string> layer_kinds() {
    return {
#define TOWERS_LAYER(name, family) #name,
#include "engine/layers/layers.def"
#undef TOWERS_LAYER
    };
}

LayerFamily family_of(const std::string& kind) {
#define TOWERS_LAYER(name, family)                                                                           \
    if (kind == #name) return LayerFamily::family;
#include "engine/layers/layers.def"
#undef TOWERS_LAYER
    return LayerFamily::other;
}

std::vector<std::string> activation_kinds() {
    std::vector<std::string> kinds = layer_kinds();
    std::erase_if(kinds, [](const auto& kind) { return family_of(kind) != LayerFamily::activation; });
    return kinds;
}

} // namespace towers
