#include "engine/tuning/tuning.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/clock.h"
#include "engine/files/text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <iterator>
#include <spdlog/spdlog.h>
#include <utility>

namespace towers {
namespace {

/// The estimate's choice stays unless another takes at most this part of its time: times are not exact.
constexpr double least_gain = 0.97;

/// The candidate that was chosen; none: the device does not have it.
std::optional<Candidate> find_in(std::span<const Candidate> candidates, const NearChoice& near) {
    if (near.chosen == nullptr) return {};
    std::vector<Candidate> likes; // of the variant
    std::vector<LaunchConfig> configs;
    for (const Candidate& each : candidates) {
        if (each.variant != near.chosen->variant) continue;
        likes.push_back(each);
        configs.push_back(each.config);
    }
    const LaunchConfig* const config = as_chosen(configs, near);
    if (config == nullptr) return {};
    return likes[std::size_t(config - configs.data())];
}

std::optional<Candidate> used_of(std::span<const Candidate> candidates) {
    const auto used = std::ranges::find_if(candidates, &Candidate::used);
    if (used == candidates.end()) return {};
    return *used;
}

/// Whether a device's launches are measured.
bool measures(Effort effort, DeviceKind kind) {
    const bool is_card = kind != DeviceKind::cpu && kind != DeviceKind::software;
    return effort != Effort::none && (effort != Effort::automatic || is_card);
}

Chosen as_chosen(const Candidate& candidate) { return {std::string(candidate.variant), candidate.config}; }

/// Shows what is being done as long as it lasts.
class ProgressLine {
public:
    explicit ProgressLine(const std::function<void(const std::string&)>& show) : show_(show) {}
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;
    ~ProgressLine() {
        if (shown_) show_("");
    }
    void show(const std::string& line) {
        if (show_ == nullptr) return;
        show_(line);
        shown_ = true;
    }

private:
    const std::function<void(const std::string&)>& show_;
    bool shown_ = false;
};

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
        known_ =
            choices_from_json(options_.known_text.empty() ? read_file(options_.known) : options_.known_text,
                              as_printable(options_.known.string()));
}

void Tuning::opened(const DeviceInfo& info) {
    OfDevice& device = devices_[info.id];
    const bool again = !device.made.name.empty();
    if (again) return;
    const DeviceChoices none = choices_for(info, options_.precision);
    device.made.backend = none.backend;
    device.made.name = none.name;
    device.made.driver = none.driver;
    device.made.kernels = none.kernels;
    device.made.precision = none.precision;
    device.made.rank = options_.rank;
    const auto is_known = [&](const DeviceChoices& each) { return is_for(each, none); };
    auto known = std::ranges::find_if(
        known_, [&](const DeviceChoices& each) { return is_known(each) && each.rank == options_.rank; });
    if (known == known_.end()) known = std::ranges::find_if(known_, is_known);
    if (known != known_.end())
        device.made.choices = known->choices;
    else if (options_.complete)
        throw InputError(fmt::format("{}: has no choices for {} ({}); name another file, or tune anew",
                                     as_printable(options_.known.string()), info.id,
                                     as_printable(info.name)));
    if (!measures(options_.effort, info.kind)) return;
    const std::string kind = fmt::format("{}\n{}\n{}", none.backend, none.name, none.driver);
    const auto kept = kept_.find(kind);
    device.kept = kept != kept_.end()
                      ? &kept->second
                      : &kept_
                             .emplace(kind, KeptChoices::read(none, options_.exact_products, options_.effort,
                                                              options_.cache))
                             .first->second;
}

bool Tuning::concerns(const DeviceInfo& info) const {
    return measures(options_.effort, info.kind) || !devices_.at(info.id).made.choices.empty();
}

bool Tuning::tune(Device& device, std::span<const Plan* const> plans, const std::atomic<bool>* stop) {
    OfDevice& of = devices_.at(device.info().id);
    const DistinctLaunches launches = distinct_launches(plans);
    const bool replaced = replace_unknown(device, of.made.choices, launches);
    const bool decided = of.kept != nullptr && decide(device, of, launches, stop);
    return replaced || decided;
}

/// They stay on record, so that a resumed run does not choose otherwise.
bool Tuning::replace_unknown(const Device& device, Choices& choices, const DistinctLaunches& launches) {
    bool any = false;
    for (const auto& [key, distinct] : launches) {
        const NearChoice known = find_near(&choices, *distinct.planned.launch);
        if (known.chosen == nullptr) continue;
        const std::vector<Candidate> candidates = device.candidates(*distinct.planned.launch);
        if (find_in(candidates, known)) continue;
        const std::optional<Candidate> used = used_of(candidates);
        if (!used) continue;
        unknown_.emplace(key, fmt::format("'{}' by {} on {}", distinct.name,
                                          to_string(known.chosen->variant, known.chosen->config),
                                          device.info().id));
        choices.insert_or_assign(key, as_chosen(*used));
        any = true;
    }
    return any;
}

std::vector<Tuning::Undecided> Tuning::undecided(const Device& device, const OfDevice& of,
                                                 const DistinctLaunches& launches) {
    std::vector<Undecided> all;
    for (const auto& [key, distinct] : launches) {
        const Launch& launch = *distinct.planned.launch;
        const Choices& made = of.made.choices;
        const bool is_made = options_.effort == Effort::automatic ? find_near(&made, launch).chosen != nullptr
                                                                  : made.contains(key);
        if (!is_measurable(distinct.planned)) continue;
        if (is_made) {
            ++recorded_;
            continue;
        }
        Undecided each{&key, &distinct, device.candidates(launch), {}, {}, 0};
        if (each.candidates.size() < 2) continue;
        each.used = used_of(each.candidates);
        const Choices& kept = of.kept->of.choices;
        each.kept = find_in(each.candidates, options_.changing_shares ? find_near(&kept, launch)
                                                                      : NearChoice{find(&kept, launch)});
        if (each.used && std::isfinite(each.used->config.cost))
            each.time = distinct.times * each.used->config.cost;
        all.push_back(std::move(each));
    }
    std::ranges::stable_sort(all, std::greater(), &Undecided::time);
    return all;
}

bool Tuning::decide(Device& device, OfDevice& of, const DistinctLaunches& launches,
                    const std::atomic<bool>* stop) {
    const Clock::time_point begin = Clock::now();
    const auto is_stopped = [&] { return stop != nullptr && *stop; };
    const auto is_late = [&] { return of.seconds + seconds_since(begin) > options_.budget; };
    const Measuring how{.only_fastest = true, .is_over = [&] { return is_stopped() || is_late(); }};
    ProgressLine progress(options_.progress);
    Choices chosen; // put into effect at the end, so that every recording before it is alike
    bool is_new = false;
    const std::vector<Undecided> all = undecided(device, of, launches);
    for (std::size_t i = 0; i < all.size() && !is_stopped(); ++i) {
        const auto& [key, launch, candidates, used, kept, time] = all[i];
        std::optional<Candidate> choice = kept;
        bool keep = !kept;
        if (kept) {
            ++found_;
        } else if (options_.effort == Effort::automatic &&
                   find_near(&chosen, *launch->planned.launch).chosen != nullptr) {
            continue; // of another micro-batch
        } else if (const std::vector<Candidate> worth = worth_measuring(candidates, options_.effort);
                   worth.empty()) {
            ++sure_;
        } else if (is_late()) {
            ++late_;
        } else {
            progress.show(fmt::format("tuning {}: {} of {} launches, {}", device.info().id, i + 1, all.size(),
                                      launch->name));
            choice = choose_by_measuring(device, of.made.choices, *launch, worth, how);
            if (!choice) keep = is_late(); // another time memory may suffice
            ++(choice ? measured_ : is_late() ? late_ : large_);
        }
        if (is_stopped()) break;
        if (!choice) choice = used; // on record, so that a resumed run does not choose otherwise
        if (!choice) continue;
        chosen.emplace(*key, as_chosen(*choice));
        if (keep) of.kept->of.choices[*key] = as_chosen(*choice);
        is_new = is_new || keep;
    }
    of.made.choices.insert(chosen.begin(), chosen.end());
    if (is_new) of.kept->write();
    const double seconds = seconds_since(begin);
    of.seconds += seconds;
    seconds_ += seconds;
    return !chosen.empty();
}

/// None: nothing could be measured.
std::optional<Candidate> Tuning::choose_by_measuring(Device& device, Choices& choices,
                                                     const DistinctLaunch& launch,
                                                     std::span<const Candidate> candidates,
                                                     const Measuring& how) {
    std::vector<Measured> all;
    try {
        all = measure(device, choices, launch.planned, candidates, how);
    } catch (const OutOfMemory&) {
        return {};
    }
    const Measured *used = nullptr, *best = nullptr;
    for (const Measured& each : all) {
        const Candidate& candidate = each.candidate;
        if (each.is_wrong())
            wrong_.insert(fmt::format("{} by {} on {}", kernel_info(launch.planned.launch->kernel).name,
                                      to_string(candidate.variant, candidate.config), device.info().id));
        if (candidate.used && !each.us) return {}; // It runs in a step, so that only memory can lack here.
        if (!each.us || each.is_wrong()) continue;
        if (candidate.used) used = &each;
        if (best == nullptr || *each.us < *best->us) best = &each;
    }
    if (best == nullptr) return {};
    if (used != nullptr && *best->us > least_gain * *used->us) best = used;
    if (used != nullptr) {
        before_us_ += launch.times * *used->us;
        after_us_ += launch.times * *best->us;
    }
    return best->candidate;
}

void Tuning::add(const std::string& choices) {
    std::ranges::move(choices_from_json(choices, "another rank"), std::back_inserter(others_));
}

bool Tuning::has_choices() const {
    return options_.effort != Effort::automatic ||
           std::ranges::any_of(devices_,
                               [](const auto& device) { return !device.second.made.choices.empty(); }) ||
           std::ranges::any_of(others_, [](const DeviceChoices& each) { return !each.choices.empty(); });
}

std::string Tuning::summary() const {
    if (!unknown_.empty())
        spdlog::warn("{}: {} launch{} cannot run as chosen there, the first of them {}; the estimate decides "
                     "instead, which may change the last bits of results",
                     as_printable(options_.known.string()), unknown_.size(), unknown_.size() == 1 ? "" : "es",
                     unknown_.begin()->second);
    const bool is_silent =
        options_.effort == Effort::automatic && measured_ + found_ + sure_ + late_ + large_ == 0;
    if (options_.effort == Effort::none || is_silent) return "";
    if (!wrong_.empty())
        spdlog::warn("left out, because they compute something else: {}", fmt::join(wrong_, "; "));
    std::string text = fmt::format("tuned: {} launch{} measured in {:.1f} s", measured_,
                                   measured_ == 1 ? "" : "es", seconds_);
    if (measured_ > 0)
        text += fmt::format(", which take {:.2f} ms a step instead of {:.2f}", after_us_ * 1e-3,
                            before_us_ * 1e-3);
    const auto add = [&](unsigned launches, const std::string& what) {
        if (launches > 0) text += fmt::format("; {} {}", launches, what);
    };
    add(found_, "known already");
    if (options_.effort != Effort::automatic) add(recorded_, "as the run has recorded");
    add(sure_, "by the estimate, which is sure enough");
    add(late_, fmt::format("by the estimate, since {:.0f} s were over", options_.budget));
    add(large_, "not measured for want of memory");
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
    all.insert(all.end(), others_.begin(), others_.end());
    return choices_to_json(all);
}

} // namespace towers
