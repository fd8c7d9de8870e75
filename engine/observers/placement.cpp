#include "engine/observers/placement.h"

#include "engine/plan/work.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

bool are_alike(const PlacedOperation& a, const PlacedOperation& b) {
    return a.name == b.name && a.kernel == b.kernel && a.variant == b.variant && a.groups == b.groups &&
           a.times == b.times && a.bytes == b.bytes;
}

class Collector {
public:
    explicit Collector(const Device& device) : device_(device) {}

    void add(const Plan& plan, unsigned times) {
        for (const Level& level : plan.levels())
            for (const Operation& operation : level) add(place(operation, plan), times);
    }
    void add_copy(std::string name, double bytes) {
        if (bytes > 0)
            add({.name = std::move(name), .kernel = "copy", .variant = {}, .groups = {}, .bytes = bytes}, 1);
    }
    std::vector<PlacedOperation> operations() && { return std::move(operations_); }

private:
    PlacedOperation place(const Operation& operation, const Plan& plan) const {
        PlacedOperation placed{
            .name = operation.name, .kernel = kernel_name(operation), .variant = {}, .groups = {}};
        placed.bytes = cost_of(operation, plan).bytes;
        const auto* const launch = std::get_if<Launch>(&operation.work);
        if (launch == nullptr) return placed;
        for (const Candidate& each : device_.candidates(*launch))
            if (each.used) {
                placed.variant = to_string(each.variant, each.config);
                const auto& groups = each.config.groups;
                placed.groups = fmt::format("{}x{}x{}", groups.x, groups.y, groups.z);
            }
        return placed;
    }
    /// Adds to an operation of the same name: those of micro-batches of different sizes, which a trace does
    /// not tell apart.
    void add(PlacedOperation placed, unsigned times) {
        placed.times *= times;
        placed.bytes *= times;
        const auto same = std::ranges::find_if(operations_, [&](const PlacedOperation& each) {
            return each.name == placed.name && each.kernel == placed.kernel;
        });
        if (same == operations_.end()) return operations_.push_back(std::move(placed));
        same->times += placed.times;
        same->bytes += placed.bytes;
        if (same->variant != placed.variant) same->variant += " or " + placed.variant;
        if (same->groups != placed.groups) same->groups += " or " + placed.groups;
    }

    const Device& device_;
    std::vector<PlacedOperation> operations_;
};

std::vector<PlacedOperation> operations_of(const Tower& tower) {
    const TrainingPlan training = tower.plan();
    Collector collector(tower.session().device());
    for (std::size_t i = 0; i < training.micro_plans.size(); ++i)
        collector.add(training.micro_plans[i], unsigned(std::ranges::count(training.order, i)));
    collector.add(training.plan, 1);
    collector.add_copy("images", double(training.plan.bytes(Arena::staged_records))); // half of it, twice
    const double trained = double(training.trained.bytes);
    for (std::size_t i = 0; i < training.buckets.size(); ++i) {
        const double begin = double(training.buckets[i].offset), bytes = double(training.buckets[i].bytes);
        collector.add_copy(fmt::format("gradients {}", i), 2 * bytes);
        collector.add_copy(fmt::format("parameters {}", i),
                           2 * (std::min(trained, begin + bytes) - std::min(trained, begin)));
    }
    return std::move(collector).operations();
}

} // namespace

std::vector<Placement> placements(const Trainer& trainer, const std::vector<unsigned>& shares) {
    std::vector<Placement> all;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const Tower* const tower = trainer.own_tower(i);
        if (shares[i] == 0 || tower == nullptr) continue;
        Placement own{.towers = {i}, .share = shares[i], .operations = operations_of(*tower)};
        const auto same = std::ranges::find_if(all, [&](const Placement& each) {
            return each.share == own.share &&
                   trainer.own_tower(each.towers[0])->info().name == tower->info().name &&
                   std::ranges::equal(each.operations, own.operations, are_alike);
        });
        if (same == all.end())
            all.push_back(std::move(own));
        else
            same->towers.push_back(i);
    }
    return all;
}

} // namespace towers
