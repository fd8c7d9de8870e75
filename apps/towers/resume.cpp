#include "apps/towers/resume.h"

#include "apps/towers/common_flags.h"
#include "backends/error.h"
#include "engine/plural.h"
#include "engine/run/run_directory.h"
#include "engine/shares/shares.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace towers {
namespace {

bool have_ids(std::span<const DeviceRecord> devices, const std::string& towers) {
    return !devices.empty() && split_towers(towers) == ids_of(devices);
}

/// `devices`: of the towers that the settings name; empty: not known. `looks`: for where they are now.
Course course_of(TrainSettings settings, const OpenOptions& open, const Machine& machine,
                 std::vector<DeviceRecord> devices, bool looks) {
    std::vector<std::string> towers = split_towers(settings.towers); // they need not exist any more
    if (towers.empty()) towers = machine.select(settings.backend, "", open);
    // Runs from before automatic shares did not record that their shares were equal.
    if (settings.shares.empty() && towers.size() > 1) settings.shares = "even";
    const unsigned global =
        settings.global_batch ? *settings.global_batch : global_batch(settings.batch.value(), towers.size());
    FoundAgain found{std::move(towers), ""};
    looks = looks && !devices.empty();
    if (looks) found = machine.find(devices, open);
    if (looks && found.missing.empty()) settings.towers = fmt::format("{}", fmt::join(found.ids, ","));
    return {std::move(settings), std::move(found.ids), global, std::move(devices), std::move(found.missing)};
}

/// On which the run has started last, if that was not before this step.
std::vector<DeviceRecord> last_devices(const std::string& run, std::uint64_t step) {
    const std::vector<RunEvent> starts = starts_of(run);
    if (starts.empty() || starts.back().step < step) return {};
    return starts.back().towers;
}

/// `vulkan:0 (llvmpipe) is vulkan:1 now` for each device that has another id.
std::string moves(const Course& course) {
    std::vector<std::string> moved;
    for (std::size_t i = 0; i < course.devices.size(); ++i) {
        const auto& [id, name, uuid] = course.devices[i];
        const std::string& now = course.towers[i];
        const std::string move = fmt::format("{} ({}) is {} now", id, name, now);
        if (now != id && !now.empty() && std::ranges::find(moved, move) == moved.end()) moved.push_back(move);
    }
    return fmt::format("{}", fmt::join(moved, ", "));
}

} // namespace

std::vector<RunEvent> starts_of(const std::filesystem::path& run) {
    try {
        std::vector<RunEvent> events = read_times(times_path_in(run)).events;
        std::erase_if(events, [](const RunEvent& event) { return event.towers.empty(); });
        return events;
    } catch (const InputError& error) {
        spdlog::warn("{}; what it says of the run's devices is not used", error.what());
        return {};
    }
}

Past find_past(const std::string& run, std::optional<std::uint64_t> from, const Given& given,
               OpenOptions open, const Machine& machine) {
    FoundCheckpoint checkpoint = find_checkpoint(run, from);
    checkpoint.file.tensors.clear();
    const auto& [path, file] = checkpoint;
    const std::filesystem::path config = config_path_in(run);
    const bool has_config = std::filesystem::exists(config);
    TrainSettings trained;
    if (const auto text = checkpoint_settings(file))
        replace(trained, parse_settings(*text, path.string() + ", settings"));
    else if (has_config) // a checkpoint of an early version
        replace(trained, read_settings(config));
    if (!trained.batch && !trained.global_batch) replace(trained, given.file);
    if (!trained.batch && !trained.global_batch)
        throw InputError(fmt::format(
            "neither {} nor {} says which settings the run was trained with; give them with --config FILE",
            path.string(), config.string()));
    if (!trained.seed) trained.seed = checkpoint_number(file, "seed", path);
    if (trained.precision.empty()) trained.precision = name_of(Precision::fp32); // an early version's
    TrainSettings latest = trained;
    if (has_config) replace(latest, read_settings(config));
    std::optional<Circumstances> circumstances = circumstances_in(file, path);
    std::vector<DeviceRecord> devices;
    if (circumstances && have_ids(circumstances->devices(), trained.towers))
        devices = circumstances->devices();
    TrainSettings asked = latest, chosen;
    replace(asked, given);
    replace(chosen, given);
    open.timeout = device_timeout(asked.device_timeout);
    const bool looks = !is_cpu_only(chosen.backend, chosen.towers);
    const Course before = course_of(trained, open, machine, devices, looks);
    // The run may have gone on with other devices after this checkpoint, also with others of the same ids.
    if (std::vector<DeviceRecord> last = last_devices(run, checkpoint_number(file, "step", path));
        have_ids(last, latest.towers))
        devices = std::move(last);
    if (!have_ids(devices, latest.towers)) devices.clear();
    Course now = course_of(latest, open, machine, std::move(devices), looks);
    return {std::move(checkpoint), std::move(circumstances), before, std::move(now)};
}

TrainSettings settings_to_go_on_with(const Past& past) {
    TrainSettings settings = past.latest.settings;
    settings.batch.reset();
    settings.global_batch = past.latest.global_batch;
    settings.shares.clear();
    return settings;
}

void adopt_layout(TrainSettings& settings, const Past& past, const std::vector<std::string>& towers) {
    const Course& latest = past.latest;
    if (towers == latest.towers && settings.shares.empty()) settings.shares = latest.settings.shares;
    if (towers.size() == latest.towers.size() && settings.global_batch == latest.global_batch) {
        settings.batch = latest.settings.batch;
        settings.global_batch = latest.settings.global_batch;
    }
}

void print_changes(const Past& past, const TrainSettings& settings, unsigned global,
                   const Circumstances& now) {
    const Course& trained = past.trained;
    if (const std::string moved = moves(trained); !moved.empty()) fmt::print("moved: {}\n", moved);
    for (const std::string& change : changes_of_training(trained.settings, settings))
        fmt::print("changed: {}\n", change);
    if (global != trained.global_batch)
        fmt::print("changed: global batch from {} to {} examples a step\n", trained.global_batch, global);
    else if (settings.towers != trained.settings.towers)
        fmt::print("the global batch stays at {} examples a step\n", global);
    if (!past.circumstances || settings.towers != trained.settings.towers) return;
    for (const std::string& change : changes_of_devices(*past.circumstances, now))
        fmt::print("changed: {}\n", change);
    const std::vector<std::string> ids = ids_of(now.devices());
    const bool on_cpu = std::ranges::find(ids, "cpu") != ids.end();
    if (const unsigned usual = cpu_threads(0); on_cpu && settings.threads == 0 && now.threads != usual)
        fmt::print(
            "cpu goes on with {}, as before; --threads {} would use all processors, and change the last "
            "bits of the results\n",
            count_of(now.threads, "thread"), usual);
}

} // namespace towers
