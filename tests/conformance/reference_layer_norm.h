// Layer normalization in double precision, from Ba, Kiros and Hinton 2016, and its derivatives.
#pragma once

#include "tests/conformance/reference.h"

namespace towers::reference {

/// x: [rows, channels]. gamma and beta are of the channels; either may be empty.
struct LayerNorm {
    uint rows, channels;
    double epsilon;
    Values gamma, beta;
};

struct LayerNormalized {
    Values y, mean, rstd; ///< mean, rstd: [rows]
};
LayerNormalized layer_norm(const LayerNorm& norm, const Values& x);

struct LayerNormGradients {
    Values x, gamma, beta;
};
LayerNormGradients layer_norm_gradients(const LayerNorm& norm, const Values& x, const Values& dy);

} // namespace towers::reference
