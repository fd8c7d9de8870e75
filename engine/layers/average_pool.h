// The mean of each window: shared code of average_pool and global_average_pool.
#pragma once

#include "engine/layers/layer.h"
#include "engine/layers/window.h"

namespace towers {

class AveragePool final : public Layer {
public:
    /// Without a window, takes the mean of the whole image.
    AveragePool(std::optional<Window> window, bool counts_padding)
        : window_(window), counts_padding_(counts_padding) {}

    Shape output(std::span<const Shape> in) const override;
    Computation computation(std::span<const Shape> in) const override;
    TensorId forward(LayerPlan& plan) const override;
    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override;

private:
    AveragePoolShape shape(const LayerPlan& plan) const;

    std::optional<Window> window_;
    bool counts_padding_;
};

} // namespace towers
