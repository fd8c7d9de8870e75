#include "tests/conformance/reference_average_pool.h"

namespace towers::reference {
namespace {

/// Calls `visit(x, y, share)` for each input element x that has weight `share` in the mean of output element
/// y.
template<class Visit>
void for_each_share(const AveragePoolShape& s, Visit visit) {
    for (int n = 0; n < int(s.batch); ++n)
        for (int oy = 0; oy < int(s.out_height); ++oy)
            for (int ox = 0; ox < int(s.out_width); ++ox) {
                std::vector<int> pixels;
                for (int ky = 0; ky < int(s.window_height); ++ky)
                    for (int kx = 0; kx < int(s.window_width); ++kx) {
                        const int iy = oy * int(s.stride_y) + ky - int(s.pad_top);
                        const int ix = ox * int(s.stride_x) + kx - int(s.pad_left);
                        if (iy >= 0 && ix >= 0 && iy < int(s.in_height) && ix < int(s.in_width))
                            pixels.push_back((n * int(s.in_height) + iy) * int(s.in_width) + ix);
                    }
                const double places =
                    s.padding_counts != 0 ? double(s.window_height) * s.window_width : double(pixels.size());
                const int out = (n * int(s.out_height) + oy) * int(s.out_width) + ox;
                for (const int in : pixels)
                    for (std::size_t c = 0; c < s.channels; ++c)
                        visit(std::size_t(in) * s.channels + c, std::size_t(out) * s.channels + c,
                              1 / places);
            }
}

} // namespace

Values average_pool(const AveragePoolShape& s, const Values& x) {
    Values y(std::size_t(s.batch) * s.out_height * s.out_width * s.channels);
    for_each_share(s, [&](auto in, auto out, double share) { y[out] += x[in] * share; });
    return y;
}

Values average_pool_gradient(const AveragePoolShape& s, const Values& dy) {
    Values dx(std::size_t(s.batch) * s.in_height * s.in_width * s.channels);
    for_each_share(s, [&](auto in, auto out, double share) { dx[in] += dy[out] * share; });
    return dx;
}

} // namespace towers::reference
