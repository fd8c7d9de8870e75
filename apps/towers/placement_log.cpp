#include "apps/towers/placement_log.h"

#include "apps/towers/open_run.h"
#include "engine/files/text.h"
#include "engine/plural.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace towers {
namespace {

std::string as_size(double bytes) {
    if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
    return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

/// The width of a column whose title and fields these are.
template<class Field>
std::size_t width_of(std::size_t title, const std::vector<PlacedOperation>& operations, const Field& field) {
    for (const PlacedOperation& each : operations) title = std::max(title, std::size(each.*field));
    return title;
}

std::string title_of(const Trainer& trainer, const Placement& placement) {
    const std::vector<std::size_t>& towers = placement.towers;
    const TowerFacts first = trainer.facts(towers[0]);
    const std::string pieces = to_string(first.at_once);
    return fmt::format("{}: {} ({}), {} a step{}{}{}",
                       listed(towers, [](std::size_t i) { return fmt::format("tower_{}", i); }),
                       listed(towers, [&](std::size_t i) { return trainer.facts(i).name; }),
                       as_printable(first.info.name), count_of(placement.share, "example"),
                       pieces.empty() ? "" : " in ", pieces, operands_of(trainer, towers[0]));
}

/// A line of the second table.
struct Timed {
    const PlacedOperation* operation;
    std::string row;
    double seconds; ///< all its towers', in all kept steps
};

std::string times_of(const PlacementLog::Table& table, const std::vector<Trace::DeviceWork>& work,
                     double steps) {
    double kernels = 0;
    std::map<std::pair<std::string, std::string>, Timed> timed; // by row and name
    for (const Trace::DeviceWork& each : work) {
        if (std::ranges::find(table.processes, each.process) == table.processes.end()) continue;
        const std::string kernel = each.kernel != nullptr ? each.kernel : "copy";
        const auto placed = std::ranges::find_if(table.placement.operations, [&](const auto& operation) {
            return operation.name == each.name && operation.kernel == kernel;
        });
        if (placed == table.placement.operations.end()) continue; // of another share or a test pass
        if (each.row == "compute") kernels += each.seconds;
        timed.try_emplace({each.row, each.name}, Timed{&*placed, each.row, 0}).first->second.seconds +=
            each.seconds;
    }
    const double towers = double(table.processes.size());
    if (timed.empty()) return fmt::format("\n{}: its device has no clock\n", table.title);
    std::vector<Timed> all;
    for (const auto& [key, each] : timed) all.push_back(each);
    std::ranges::stable_sort(all, std::ranges::greater(), &Timed::seconds);
    const std::size_t name = width_of(9, table.placement.operations, &PlacedOperation::name);
    std::string text = fmt::format("\n{}: {:.2f} ms of operations a step{}\n{:<{}}  {:>11}  {:>7}  {}\n",
                                   table.title, kernels * 1e3 / steps / towers, towers > 1 ? " on each" : "",
                                   "operation", name, "us a step", "share", "runs as");
    for (const Timed& each : all) {
        const bool beside = each.row != "compute";
        text += fmt::format("{:<{}}  {:>11.1f}  {:>7}  {}\n", each.operation->name, name,
                            each.seconds * 1e6 / steps / towers,
                            beside ? "beside" : fmt::format("{:.1f} %", 100 * each.seconds / kernels),
                            each.operation->variant.empty()
                                ? each.operation->kernel
                                : fmt::format("{}, {}", each.operation->kernel, each.operation->variant));
    }
    return text;
}

} // namespace

PlacementLog placement_log(const Trainer& trainer, const std::vector<unsigned>& shares) {
    PlacementLog log;
    for (Placement& each : placements(trainer, shares)) {
        PlacementLog::Table table{.placement = {}, .title = title_of(trainer, each), .processes = {}};
        for (const std::size_t tower : each.towers)
            table.processes.push_back(tower_process(tower, trainer.facts(tower).info));
        table.placement = std::move(each);
        log.tables.push_back(std::move(table));
    }
    return log;
}

std::string placement_text(const PlacementLog& log) {
    std::string text;
    for (const PlacementLog::Table& table : log.tables) {
        const std::vector<PlacedOperation>& all = table.placement.operations;
        const std::size_t name = width_of(9, all, &PlacedOperation::name);
        const std::size_t kernel = width_of(6, all, &PlacedOperation::kernel);
        const std::size_t variant = width_of(7, all, &PlacedOperation::variant);
        const std::size_t groups = width_of(10, all, &PlacedOperation::groups);
        text +=
            fmt::format("\n{}\n{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>5}  {:>9}\n", table.title, "operation",
                        name, "kernel", kernel, "runs as", variant, "workgroups", groups, "times", "bytes");
        for (const PlacedOperation& each : all)
            text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>5}  {:>9}\n", each.name, name,
                                each.kernel, kernel, or_dash(each.variant), variant, or_dash(each.groups),
                                groups, each.times, as_size(each.bytes));
    }
    return text + "\n";
}

std::string placement_times(const PlacementLog& log, const Trace& trace) {
    const auto [first, last] = trace.steps();
    if (first == Trace::none) return "";
    const std::vector<Trace::DeviceWork> work = trace.device_work();
    std::string text = fmt::format("\nmeasured in steps {} to {}, each operation alone\n", first, last);
    for (const PlacementLog::Table& table : log.tables)
        text += times_of(table, work, double(last - first + 1));
    return text;
}

} // namespace towers
