// How a trainer opens its devices and makes its towers.
#include "backends/error.h"
#include "backends/lost_device.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/reduce/ranked_reducer.h"
#include "engine/replica/ranked_towers.h"
#include "engine/trace/traced_device.h"
#include "engine/train/trainer.h"
#include "engine/tuning/tuning.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace towers {
namespace {

Splitting splitting_of(const Model& model, unsigned most) {
    Splitting splitting{.group = model.group(), .most = most, .obstacle = {}};
    if (const Node* const joining = model.joining_layer())
        splitting.obstacle =
            fmt::format("the batch norm of layer '{}' takes the whole global batch, which cannot be done in "
                        "micro-batches; give it groups of examples (group = N)",
                        joining->name);
    if (most == 0) return splitting;
    if (!splitting.obstacle.empty())
        throw UsageError(fmt::format("--micro-batch {}: {}", most, splitting.obstacle));
    if (most < splitting.group)
        throw UsageError(
            fmt::format("--micro-batch {}: batch norm takes groups of {} examples; give at least that many",
                        most, splitting.group));
    return splitting;
}

/// What a device is called, if it could not be opened.
DeviceInfo info_of(const std::string& id, const OpenOptions& options) {
    for (const Backend::Listing& listing : list_devices(options))
        for (const DeviceInfo& device : listing.devices)
            if (device.id == id) return device;
    DeviceInfo info;
    info.id = info.name = id;
    info.kind = DeviceKind::discrete_gpu;
    return info;
}

/// Towers whose devices are lost before the first step, in place of which there is something else as long as
/// one tower is left.
class Losses {
public:
    explicit Losses(std::size_t towers) : left_(towers) {}

    /// What `make` makes; after DeviceLost, what `make_lost` makes.
    template<class Make, class MakeLost>
    auto outlive(Make make, MakeLost make_lost) -> decltype(make()) {
        try {
            return make();
        } catch (const DeviceLost& lost) {
            if (--left_ == 0) throw;
            return make_lost(lost);
        }
    }

private:
    std::size_t left_;
};

} // namespace

std::unique_ptr<Device> Trainer::open_device(std::size_t tower) {
    const std::string id = device_of(options_.towers[tower]);
    OpenOptions open = options_.open;
    if (options_.tuning) open.choices = &options_.tuning->choices(id);
    std::unique_ptr<Device> device = options_.open_device(id, open);
    if (options_.tuning) options_.tuning->opened(device->info());
    if (!options_.trace) return device;
    std::string process = tower_process(tower, device->info());
    return std::make_unique<TracedDevice>(std::move(device), options_.trace, std::move(process));
    return device;
}

/// In the trace, by its name in the run.
std::string Trainer::tower_process(std::size_t tower, DeviceInfo info) const {
    if (options_.ranks) info.id = options_.towers[tower];
    return towers::tower_process(tower, info);
}

std::unique_ptr<TowerSet> Trainer::open_towers(const DataSource& data,
                                               const std::shared_ptr<const DataSource>& tests) {
    const Splitting splitting = splitting_of(recipe_.model, options_.micro_batch);
    const bool scales_loss = options_.loss_scale.has_value();
    UpdateSpec update = update_spec(recipe_, layout_, options_.quirks);
    update.scales_loss = scales_loss;
    const std::size_t all = options_.towers.size(); // of all ranks
    const auto& ranks = options_.ranks;
    const std::size_t before = ranks ? ranks->towers.first(ranks->courier.rank()) : 0;
    const std::size_t count = ranks ? ranks->towers.counts[ranks->courier.rank()] : all;
    Losses losses(options_.outlive_devices ? all : 1);
    std::vector<std::unique_ptr<Device>> devices;
    for (std::size_t i = 0; i < count; ++i)
        devices.push_back(losses.outlive(
            [&] { return open_device(before + i); },
            [&](const DeviceLost& lost) {
                return make_lost_device(info_of(device_of(options_.towers[before + i]), options_.open), lost);
            }));
    std::vector<Device*> opened;
    for (const auto& device : devices) opened.push_back(device.get());
    if (streams(options_.feed.feeding, data, opened)) open_reader(data, opened);
    const bool streams_tests =
        tests != nullptr && streams(options_.feed.feeding, *tests, opened, reader_ ? 0 : data.image_bytes());
    std::vector<std::unique_ptr<Tower>> towers;
    for (std::size_t i = 0; i < count; ++i) {
        const NetworkSpec any_share =
            network_spec(recipe_, layout_,
                         {.global_batch = options_.global_batch,
                          .stored = data.image_size(),
                          .slots = feed_.slots(),
                          .staged = reader_.has_value(),
                          .seed = options_.seed,
                          .distort = options_.distort,
                          .scales_loss = scales_loss,
                          .largest_allocation = devices[i]->info().largest_allocation});
        const Planner plan = [=](const Share& share, unsigned most) {
            NetworkSpec spec = any_share;
            spec.batch = share.examples;
            if (spec.staged)
                spec.slots = StagedImages::slots(
                    share.examples,
                    spec.mixes ? std::min(share.examples, spec.global_batch - share.examples) : 0);
            spec.most = most;
            if (share.alone) return plan_step_alone(spec, update);
            return all == 1 ? plan_single_step(spec, update) : plan_shared_step(spec);
        };
        Share share = to_probe_ ? Share{} : assignment_.to_take(0)[before + i];
        share.alone = share.alone && !ranks;
        share.examples = std::max(share.examples, recipe_.model.group());
        const auto make = [&](std::unique_ptr<Device> device) {
            auto tower =
                std::make_unique<Tower>(std::move(device), reader_ ? nullptr : &data, plan, share, splitting);
            if (tests == nullptr) return tower;
            const std::optional<std::size_t> slots =
                streams_tests ? std::nullopt : std::optional(tests_->slots());
            const auto plan_tests = [this, &info = tower->info(), stored = tests->image_size(),
                                     slots](unsigned batch) {
                return evaluation_plan(recipe_, stored, slots, batch, info);
            };
            tower->load_tests({.source = tests,
                               .streamed = streams_tests,
                               .readers = options_.feed.readers,
                               .plan = plan_tests,
                               .head = EvaluatedHead(recipe_.model, tests->label_sets())});
            return tower;
        };
        const DeviceInfo known = devices[i]->info();
        towers.push_back(
            losses.outlive([&] { return make(std::move(devices[i])); },
                           [&](const DeviceLost& lost) { return make(make_lost_device(known, lost)); }));
    }
    TowerSetOptions set{.host = options_.open,
                        .make_reducer = options_.make_reducer,
                        .patience = options_.patience,
                        .give_up = options_.give_up,
                        .next_batch = {},
                        .trace = options_.trace,
                        .caller = clock_};
    if (reader_) set.next_batch = [this] { return reader_->next(); };
    for (std::size_t i = 0; i < count; ++i)
        set.processes.push_back(tower_process(before + i, towers[i]->info()));
    if (all == 1) return make_lone_tower(std::move(towers[0]), set);
    if (!ranks) return make_tower_group(std::move(towers), update, set);
    set.has_ranks = true;
    set.make_reducer = [&courier = ranks->courier, links = ranks->links](
                           const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec,
                           std::vector<StagedByTower> staged, std::span<const ArenaRange> buckets) {
        return std::make_unique<RankedReducer>(courier, links, host, spin, spec, staged, buckets);
    };
    std::unique_ptr<TowerGroup> own = make_tower_group(std::move(towers), update, set);
    if (follows()) return own;
    return std::make_unique<RankedTowers>(ranks->courier, ranks->towers, std::move(own), options_.trace);
}

void Trainer::open_reader(const DataSource& data, Devices devices) {
    const unsigned readers = options_.feed.readers;
    reader_.emplace(
        data,
        [sampler = sampler_](std::uint64_t first, std::span<Example> examples) mutable {
            sampler.fill(first, examples);
        },
        ReadAhead{.batch = options_.global_batch,
                  .readers = readers > 0 ? readers : default_readers(devices),
                  .table_bytes = make_tables_.bytes(options_.global_batch)},
        make_tables_);
    std::string advice = "more --readers";
    if (data.info().pictures) advice += ", or pack the data into one file with 'towers data pack'";
    if (options_.feed.feeding == Feeding::streamed && !streams(Feeding::automatic, data, devices))
        advice += ", or --feed resident";
    data_watch_ = DataWatch(reader_->readers(), advice);
}

} // namespace towers
