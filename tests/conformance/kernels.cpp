#include "tests/conformance/harness.h"

#include <algorithm>

namespace towers {

TEST_CASE("no kernel can be added without a conformance test") {
    for (std::size_t i = 0; i < all_kernels().size(); ++i) {
        INFO(std::string(all_kernels()[i].name), " has no KERNEL_TEST in tests/conformance");
        CHECK(std::ranges::count(test::covered_kernels(), Kernel(i)) == 1);
    }
}

} // namespace towers
