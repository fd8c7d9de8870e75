#include "engine/train/data_watch.h"

#include "engine/plural.h"

#include <fmt/format.h>
#include <utility>

namespace towers {

std::string DataWatch::observe(double seconds, double waited, unsigned examples) {
    constexpr double window = 5, much = 0.05;
    if (told_ || std::exchange(first_, false)) return "";
    seconds_ += seconds;
    waited_ += waited;
    examples_ += examples;
    if (seconds_ < window) return "";
    const double share = waited_ / seconds_, rate = examples_ / seconds_;
    seconds_ = waited_ = examples_ = 0;
    if (share < much) return "";
    told_ = true;
    return fmt::format("the devices wait for data {:.0f} % of the time: {} bring{} {:.1f} examples/s; try {}",
                       100 * share, count_of(readers_, "reader"), readers_ == 1 ? "s" : "", rate, advice_);
}

} // namespace towers
