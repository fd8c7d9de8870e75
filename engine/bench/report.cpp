#include "engine/bench/report.h"

#include <algorithm>
#include <stdexcept>

namespace towers {

double median_of(std::vector<double> values) {
    if (values.empty()) throw std::logic_error("bench: the median of no values");
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 != 0) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Spread spread_of(std::vector<double> values) {
    const double median = median_of(values); // which throws for no values
    const auto [min, max] = std::minmax_element(values.begin(), values.end());
    return {median, *min, *max};
}

} // namespace towers
