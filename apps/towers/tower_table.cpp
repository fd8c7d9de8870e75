#include "apps/towers/tower_table.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {

std::string tower_table(const Trainer& trainer) {
    const double seconds = trainer.seconds();
    if (seconds == 0) return "";
    const std::vector<TowerUse>& uses = trainer.use();
    std::size_t width = 6;
    for (std::size_t i = 0; i < uses.size(); ++i) width = std::max(width, trainer.tower(i).info().id.size());
    std::string table = fmt::format("{:<9} {:<{}}  share  examples/s  at work\n", "tower", "device", width);
    double sum = 0;
    std::uint64_t examples = 0;
    for (std::size_t i = 0; i < uses.size(); ++i) {
        const TowerUse& use = uses[i];
        const double rate = use.seconds > 0 ? double(use.examples) / use.seconds : 0;
        sum += rate;
        examples += use.examples;
        table += fmt::format("{:<9} {:<{}}  {:>5}  {:>10.1f}  {:>5.1f} %\n", fmt::format("tower_{}", i),
                             trainer.tower(i).info().id, width, use.share, rate, 100 * use.seconds / seconds);
    }
    const double together = double(examples) / seconds;
    return table +
           fmt::format("together, {:.1f} examples/s: {:.1f} % of the sum of their rates while at work\n",
                       together, 100 * together / sum);
}

} // namespace towers
