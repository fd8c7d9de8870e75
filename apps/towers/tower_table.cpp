#include "apps/towers/tower_table.h"

#include "engine/plural.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

std::string percent(double part, double whole) { return fmt::format("{:.1f} %", 100 * part / whole); }

std::string mebibytes(std::uint64_t bytes) {
    return fmt::format("{:.0f} MiB", std::max(1.0, double(bytes) / (1 << 20)));
}

/// `, waiting for data 1.2 %`, if it is not nothing.
std::string data_part(const Trainer& trainer) {
    const double waited = trainer.host_use().data;
    if (waited < 0.0005 * trainer.seconds()) return "";
    return fmt::format(", waiting for data {}", percent(waited, trainer.seconds()));
}

} // namespace

std::string tower_table(const Trainer& trainer) {
    const double seconds = trainer.seconds();
    if (seconds == 0) return "";
    const std::vector<TowerUse>& uses = trainer.use();
    std::vector<TowerFacts> facts;
    for (std::size_t i = 0; i < uses.size(); ++i) facts.push_back(trainer.facts(i));
    if (uses.size() == 1)
        return fmt::format("tower_0 ({}): step {}, {:.1f} examples/s of {}, {}{}\n", facts[0].name,
                           trainer.steps_done() - 1, double(uses[0].examples) / seconds,
                           count_of(uses[0].examples, "example"), mebibytes(facts[0].memory),
                           data_part(trainer));
    const auto name_of = [&](std::size_t tower) {
        const TowerFacts& its = facts[tower];
        return its.host.empty() ? its.name : fmt::format("{} ({})", its.name, its.host);
    };
    std::size_t width = 6;
    for (std::size_t i = 0; i < facts.size(); ++i) width = std::max(width, name_of(i).size());
    const auto line = [&](const std::string& tower, const std::string& device, const auto&... columns) {
        return fmt::format("{:<9} {:<{}}  {:>5}  {:>10}  {:>7}  {:>7}  {:>7}  {:>7}  {:>9}\n", tower, device,
                           width, columns...);
    };
    std::string table =
        line("tower", "device", "share", "examples/s", "compute", "copies", "others", "host", "memory");
    double sum = 0;
    std::uint64_t examples = 0;
    for (std::size_t i = 0; i < uses.size(); ++i) {
        const auto& [share, its_examples, times] = uses[i];
        const double rate = times.work > 0 ? double(its_examples) / times.work : 0;
        sum += rate;
        examples += its_examples;
        const double host = std::max(0.0, seconds - times.compute - times.copies - times.others);
        table += line(fmt::format("tower_{}", i), name_of(i), share, fmt::format("{:.1f}", rate),
                      percent(times.compute, seconds), percent(times.copies, seconds),
                      percent(times.others, seconds), percent(host, seconds), mebibytes(facts[i].memory));
    }
    const double together = double(examples) / seconds;
    const auto& [averaging, waiting, data] = trainer.host_use();
    return table + fmt::format("together, {:.1f} examples/s: {} of the sum of their rates while at work\n"
                               "the host: averaging {}, waiting for towers {}, other work {}{}\n",
                               together, percent(together, sum), percent(averaging, seconds),
                               percent(waiting, seconds),
                               percent(std::max(0.0, seconds - averaging - waiting - data), seconds),
                               data_part(trainer));
}

} // namespace towers
