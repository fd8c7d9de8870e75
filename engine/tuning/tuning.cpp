#include "engine/tuning/tuning.h"

#include "backends/cache.h"
#include "backends/checksum.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/clock.h"
#include "engine/files/text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <spdlog/spdlog.h>

namespace towers {
namespace {

constexpr std::size_t shortlist = 3;
/// The estimate's choice stays unless another takes at most this part of its time: times are not exact.
constexpr double least_gain = 0.97;

/// The estimate's choice, the next ones by estimate, and the plainest, by which the others are judged.
std::vector<Candidate> shortened(std::span<const Candidate> all) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return std::pair(!all[a].used, all[a].config.cost) < std::pair(!all[b].used, all[b].config.cost);
    });
    if (order.size() > shortlist) order.erase(order.begin() + shortlist, order.end());
    std::ranges::sort(order);
    std::vector<Candidate> few;
    for (const std::size_t i : order) few.push_back(all[i]);
    if (order.back() + 1 < all.size()) few.push_back(all.back());
    return few;
}

bool has(std::span<const Candidate> candidates, const Chosen& chosen) {
    return std::ranges::any_of(candidates, [&](const Candidate& each) {
        return each.variant == chosen.variant && alike(each.config, chosen.config);
    });
}

bool is_for(const DeviceChoices& choices, const DeviceChoices& device) {
    return choices.backend == device.backend && choices.name == device.name;
}

} // namespace

DistinctLaunches distinct_launches(std::span<const Plan* const> plans) {
    DistinctLaunches distinct;
    for (const Plan* const plan : plans)
        for (const Level& level : plan->levels())
            for (const Operation& operation : level)
                if (const auto* const launch = std::get_if<Launch>(&operation.work))
                    ++distinct.try_emplace(key_of(*launch), PlannedLaunch{launch, plan}, operation.name, 0u)
                          .first->second.times;
    return distinct;
}

Tuning::Tuning(TuningOptions options) : options_(std::move(options)) {
    if (!options_.known.empty())
        known_ = choices_from_json(read_file(options_.known), as_printable(options_.known.string()));
}

void Tuning::opened(const DeviceInfo& info) {
    OfDevice& device = devices_[info.id];
    const bool again = !device.made.name.empty();
    if (again) return;
    const DeviceChoices none = choices_for(info);
    device.made.backend = none.backend;
    device.made.name = none.name;
    device.made.driver = none.driver;
    device.made.kernels = none.kernels;
    const auto known =
        std::ranges::find_if(known_, [&](const DeviceChoices& each) { return is_for(each, none); });
    if (known != known_.end())
        device.made.choices = known->choices;
    else if (options_.complete)
        throw InputError(fmt::format("{}: has no choices for {} ({}); name another file, or tune anew",
                                     as_printable(options_.known.string()), info.id,
                                     as_printable(info.name)));
    if (options_.effort == Effort::none || options_.cache.empty()) return;
    const std::string made_for = fmt::format("{}\n{}\n{}\n{}\n{}", none.backend, none.name, none.driver,
                                             none.kernels, options_.exact_products);
    device.kept_file =
        options_.cache / fmt::format("choices-{}-{:016x}.bin",
                                     options_.effort == Effort::full ? "full" : "quick", fnv1a(made_for));
    read_cache(device);
}

void Tuning::read_cache(OfDevice& device) const {
    const std::optional<std::string> kept = read_cached(device.kept_file);
    if (!kept) return;
    try {
        for (const DeviceChoices& each : choices_from_json(*kept, as_printable(device.kept_file.string())))
            if (is_for(each, device.made) && each.driver == device.made.driver &&
                each.kernels == device.made.kernels)
                device.kept = each.choices;
    } catch (const InputError& broken) {
        spdlog::warn("{}; it is ignored", broken.what());
    }
}

void Tuning::write_cache(const OfDevice& device) const {
    if (device.kept_file.empty()) return;
    DeviceChoices all = device.made;
    all.choices = device.kept;
    try {
        write_cached(device.kept_file, choices_to_json({&all, 1}));
        std::error_code none;
        std::filesystem::remove(std::filesystem::path(device.kept_file).replace_extension("json"),
                                none);      // an early version's
    } catch (const std::exception& error) { // the next run measures again
        spdlog::warn("{}; what was measured is not kept for other runs", error.what());
    }
}

bool Tuning::concerns(const DeviceInfo& info) const {
    return options_.effort != Effort::none || !devices_.at(info.id).made.choices.empty();
}

bool Tuning::tune(Device& device, std::span<const Plan* const> plans, const std::atomic<bool>* stop) {
    OfDevice& of = devices_.at(device.info().id);
    const DistinctLaunches launches = distinct_launches(plans);
    const bool replaced = replace_unknown(device, of.made.choices, launches);
    const bool measured = options_.effort != Effort::none && measure_missing(device, of, launches, stop);
    return replaced || measured;
}

/// They stay on record, so that a resumed run does not choose otherwise.
bool Tuning::replace_unknown(const Device& device, Choices& choices, const DistinctLaunches& launches) {
    bool any = false;
    for (const auto& [key, distinct] : launches) {
        const auto known = choices.find(key);
        if (known == choices.end()) continue;
        const std::vector<Candidate> candidates = device.candidates(*distinct.planned.launch);
        if (has(candidates, known->second)) continue;
        const auto used = std::ranges::find_if(candidates, &Candidate::used);
        if (used == candidates.end()) continue;
        Chosen& chosen = known->second;
        unknown_.emplace(key, fmt::format("'{}' by {} on {}", distinct.name,
                                          to_string(chosen.variant, chosen.config), device.info().id));
        chosen = {std::string(used->variant), used->config};
        any = true;
    }
    return any;
}

bool Tuning::measure_missing(Device& device, OfDevice& of, const DistinctLaunches& launches,
                             const std::atomic<bool>* stop) {
    const Clock::time_point begin = Clock::now();
    Choices chosen; // put into effect at the end, so that every recording before it is alike
    bool measured = false;
    for (const auto& [key, distinct] : launches) {
        if (stop != nullptr && *stop) break;
        if (of.made.choices.contains(key) || !is_measurable(distinct.planned)) continue;
        const std::vector<Candidate> candidates = device.candidates(*distinct.planned.launch);
        if (candidates.size() < 2) continue;
        if (const auto kept = of.kept.find(key); kept != of.kept.end() && has(candidates, kept->second)) {
            chosen.insert(*kept);
            ++found_;
            continue;
        }
        const std::optional<Chosen> best = choose_by_measuring(
            device, of.made.choices, distinct.planned,
            options_.effort == Effort::quick ? shortened(candidates) : candidates, distinct.times);
        ++(best ? measured_ : left_);
        if (best) {
            chosen.emplace(key, *best);
            of.kept[key] = *best;
            measured = true;
        } else if (const auto used = std::ranges::find_if(candidates, &Candidate::used);
                   used != candidates.end()) { // on record, so that a resumed run does not choose otherwise
            chosen.emplace(key, Chosen{std::string(used->variant), used->config});
        }
    }
    of.made.choices.insert(chosen.begin(), chosen.end());
    if (measured) write_cache(of);
    seconds_ += seconds_since(begin);
    return !chosen.empty();
}

/// None: nothing could be measured.
std::optional<Chosen> Tuning::choose_by_measuring(Device& device, Choices& choices,
                                                  const PlannedLaunch& planned,
                                                  std::span<const Candidate> candidates, double times) {
    std::vector<Measured> all;
    try {
        all = measure(device, choices, planned, candidates);
    } catch (const OutOfMemory&) {
        return {};
    }
    const Measured *used = nullptr, *best = nullptr;
    for (const Measured& each : all) {
        if (!each.us) continue;
        if (!each.right) {
            wrong_.insert(fmt::format("{} by {} on {}", kernel_info(planned.launch->kernel).name,
                                      to_string(each.candidate.variant, each.candidate.config),
                                      device.info().id));
            continue;
        }
        if (each.candidate.used) used = &each;
        if (best == nullptr || *each.us < *best->us) best = &each;
    }
    if (best == nullptr) return {};
    if (used != nullptr && *best->us > least_gain * *used->us) best = used;
    if (used != nullptr) {
        before_us_ += times * *used->us;
        after_us_ += times * *best->us;
    }
    return Chosen{std::string(best->candidate.variant), best->candidate.config};
}

std::string Tuning::summary() const {
    if (!unknown_.empty())
        spdlog::warn("{}: {} launch{} cannot run as chosen there, the first of them {}; the estimate decides "
                     "instead, which may change the last bits of results",
                     as_printable(options_.known.string()), unknown_.size(), unknown_.size() == 1 ? "" : "es",
                     unknown_.begin()->second);
    if (options_.effort == Effort::none) return "";
    if (!wrong_.empty())
        spdlog::warn("left out, because they compute something else: {}", fmt::join(wrong_, "; "));
    std::string text = fmt::format("tuned: {} launch{} measured in {:.1f} s", measured_,
                                   measured_ == 1 ? "" : "es", seconds_);
    if (measured_ > 0)
        text += fmt::format(", which take {:.2f} ms a step instead of {:.2f}", after_us_ * 1e-3,
                            before_us_ * 1e-3);
    if (found_ > 0) text += fmt::format("; {} known from earlier runs", found_);
    if (left_ > 0) text += fmt::format("; {} not measured for want of memory", left_);
    return text;
}

std::string Tuning::to_json() const {
    std::vector<DeviceChoices> all;
    for (const auto& [id, device] : devices_) {
        const auto same =
            std::ranges::find_if(all, [&](const DeviceChoices& each) { return is_for(each, device.made); });
        if (same == all.end())
            all.push_back(device.made);
        else // another card of the same kind
            same->choices.insert(device.made.choices.begin(), device.made.choices.end());
    }
    return choices_to_json(all);
}

} // namespace towers
