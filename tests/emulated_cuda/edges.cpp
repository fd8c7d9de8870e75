// Tensors that end where their memory ends. Elsewhere, arenas and guard words lie behind a tensor, so that a
// kernel which reads too far and ignores what it read would do so unseen.
#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <cmath>

using namespace towers;
using namespace towers::test;

namespace {

void check_products(Sources sources) {
    OpenOptions options = open_options();
    options.sources = sources;
    const auto card = open_device("cuda:0", options);
    // Rows and columns of each pass are fewer than a tile's; sizes are powers of two, as the backend's blocks
    // are.
    const ConvShape shapes[] = {reference::same_conv(16, 1, 1, 64, 1, 1, 1, 8),
                                reference::same_conv(16, 1, 1, 8, 1, 1, 1, 64)};
    for (const ConvShape& s : shapes) {
        std::vector<Buffer> buffers;
        const auto tensor = [&](std::size_t words) {
            buffers.push_back(card->allocate(words * sizeof(float), Memory::staging));
            std::ranges::copy(random_floats(words, 1), buffers.back().host<float>().begin());
            return Tensor{buffers.back().address()};
        };
        const std::size_t in = std::size_t(s.batch) * s.in_channels,
                          out = std::size_t(s.batch) * s.out_channels;
        const std::size_t weights = std::size_t(s.in_channels) * s.out_channels;
        const Tensor x = tensor(in), w = tensor(weights), dy = tensor(out), b = tensor(64);
        const std::size_t inputs = buffers.size();
        Conv2dForwardParams forward{.shape = s, .bias = 1, .splits = 1};
        forward.x = x, forward.w = w, forward.b = b, forward.y = tensor(out);
        Conv2dBackwardDataParams data{.shape = s, .splits = 1};
        data.dy = dy, data.w = w, data.x = x, data.dx = tensor(in);
        Conv2dBackwardWeightsParams gradient{.shape = s, .bias = 1, .splits = 1};
        gradient.x = x, gradient.dy = dy, gradient.dw = tensor(weights), gradient.db = tensor(64);
        for (std::size_t i = inputs; i < buffers.size(); ++i)
            std::ranges::fill(buffers[i].host<float>(), std::nanf(""));
        card->run({{launch(kernels::conv2d_forward, forward), launch(kernels::conv2d_backward_data, data),
                    launch(kernels::conv2d_backward_weights, gradient)}});
        for (std::size_t i = inputs; i + 1 < buffers.size(); ++i) {
            INFO("output ", i - inputs);
            const bool is_finite =
                std::ranges::all_of(buffers[i].host<float>(), [](float each) { return std::isfinite(each); });
            CHECK(is_finite);
        }
    }
}

} // namespace

TEST_CASE("a product touches nothing behind its tensors, however little of a tile they fill") {
    check_products(Sources::best); // by quads
    check_products(Sources::shared);
}
