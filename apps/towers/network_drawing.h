// The drawing of a network: which boxes it has, and where they and the lines between them are.
#pragma once

#include "engine/model/model.h"

#include <cstddef>
#include <string>
#include <vector>

namespace towers {

/// A layer, with those after it that work element by element. Coordinates are pixels.
struct NetworkBox {
    std::string name;  ///< of its first layer, without what the lines in `kinds` say
    std::string kinds; ///< `conv2d 3x3, batch_norm, relu`
    std::string shape; ///< of its output: `32 × 32 × 16`
    std::size_t parameters = 0;
    double x = 0, y = 0; ///< the upper left corner
};

/// Consecutive parts of the network that are alike are drawn once.
struct NetworkRepeat {
    unsigned times = 0;
    double x = 0, y = 0, width = 0, height = 0;
};

struct NetworkDrawing {
    static constexpr double box_width = 158, box_height = 50;
    double width = 0, height = 0;
    std::vector<NetworkBox> boxes;
    std::vector<std::string> lines; ///< paths as SVG writes them
    std::vector<NetworkRepeat> repeats;
};

NetworkDrawing draw_network(const Model& model);

} // namespace towers
