#include "kernel.h"

KERNEL(check_finite, CheckFiniteParams, 256) {
    bool finite = true;
    FOR_RANGE(i, p.quads) {
        const vec4 x = p.x.at[i];
        finite = finite && is_finite(x.x) && is_finite(x.y) && is_finite(x.z) && is_finite(x.w);
    }
    if (!finite) OR_ATOMICALLY(p.nonfinite.at[0], as_uint(1.0f));
}
