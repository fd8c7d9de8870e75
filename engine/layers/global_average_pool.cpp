// The mean of the whole image.
#include "engine/layers/average_pool.h"

namespace towers {

std::unique_ptr<const Layer> make_global_average_pool(Attributes&) {
    return std::make_unique<AveragePool>(std::nullopt, false);
}

} // namespace towers
