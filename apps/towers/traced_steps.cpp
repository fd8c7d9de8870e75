#include "apps/towers/pair_drawing.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/files/text.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace towers {
namespace {

struct Slice {
    std::uint64_t process, step;
    Spent on;
    double begin, end; ///< microseconds
};

struct Tracks {
    std::map<std::uint64_t, std::string> processes;
    std::map<std::uint64_t, std::string> rows; ///< by thread
    std::vector<Slice> slices;
};

/// What a slice shows; nothing for one within which others say more.
std::optional<Spent> spent(const std::string& row, const std::string& name, bool on_device) {
    if (on_device) return row == "compute" ? Spent::computing : Spent::copying;
    if (name.starts_with("average")) return Spent::averaging;
    // Waits for its own kernels and copies are no idle time.
    const bool own =
        name == "wait for kernels" || name == "wait for gradients" || name == "wait for parameters";
    if (row == "thread" && ((name.starts_with("wait") && !own) || name == "no share")) return Spent::waiting;
    return std::nullopt;
}

Tracks tracks_of(const nlohmann::json& events) {
    Tracks tracks;
    for (const nlohmann::json& event : events) {
        const auto process = event.at("pid").get<std::uint64_t>();
        const auto name = event.at("name").get<std::string>();
        if (event.at("ph") == "M") {
            const nlohmann::json& about = event.at("args");
            if (name == "process_name") tracks.processes[process] = about.at("name").get<std::string>();
            if (name == "thread_name")
                tracks.rows[event.at("tid").get<std::uint64_t>()] = about.at("name").get<std::string>();
            continue;
        }
        const auto on =
            spent(tracks.rows[event.at("tid").get<std::uint64_t>()], name, event.at("cat") == "device");
        if (!on) continue;
        const double begin = event.at("ts").get<double>();
        tracks.slices.push_back({process, event.at("args").at("step").get<std::uint64_t>(), *on, begin,
                                 begin + event.at("dur").get<double>()});
    }
    return tracks;
}

/// Joins stretches of a kind that touch or nearly so.
std::vector<Stretch> joined(std::vector<Stretch> stretches, double gap) {
    std::ranges::stable_sort(stretches, {},
                             [](const Stretch& each) { return std::pair(each.on, each.begin); });
    std::vector<Stretch> list;
    for (const Stretch& each : stretches)
        if (!list.empty() && list.back().on == each.on && each.begin - list.back().end <= gap)
            list.back().end = std::max(list.back().end, each.end);
        else
            list.push_back(each);
    return list;
}

} // namespace

TracedSteps read_trace(const std::filesystem::path& file, std::size_t steps) {
    const auto complain = [&](const char* what) {
        throw InputError(fmt::format("{}: {}; 'train --trace' writes one", file.string(), what));
    };
    Tracks tracks;
    try {
        tracks = tracks_of(nlohmann::json::parse(read_file(file)).at("traceEvents"));
    } catch (const nlohmann::json::exception&) {
        complain("is no trace of a run");
    }
    if (tracks.slices.empty()) complain("is a trace without steps");
    std::map<std::uint64_t, std::set<std::uint64_t>> computing; // processes, by step
    std::size_t most = 0;
    for (const Slice& slice : tracks.slices)
        if (slice.on == Spent::computing) {
            computing[slice.step].insert(slice.process);
            most = std::max(most, computing[slice.step].size());
        }
    TracedSteps shown;
    for (const auto& [step, processes] : computing)
        if (processes.size() == most) shown.last = step;
    shown.first = shown.last;
    while (shown.last - shown.first + 1 < steps && shown.first > 0 && computing.contains(shown.first - 1))
        --shown.first;

    double begin = std::numeric_limits<double>::infinity(), end = -begin;
    const auto is_shown = [&](const Slice& slice) {
        return slice.step >= shown.first && slice.step <= shown.last;
    };
    for (const Slice& slice : tracks.slices)
        // The last step's parameters may leave their device only when the next one begins.
        if (is_shown(slice) && (slice.on == Spent::computing || slice.on == Spent::averaging)) {
            begin = std::min(begin, slice.begin);
            end = std::max(end, slice.end);
        }
    shown.milliseconds = (end - begin) / 1000;
    for (const auto& [process, name] : tracks.processes) {
        std::vector<Stretch> stretches;
        for (const Slice& slice : tracks.slices)
            if (slice.process == process && is_shown(slice) && slice.begin < end && slice.end > begin)
                stretches.push_back({slice.on, std::max(0.0, (slice.begin - begin) / 1000),
                                     std::min(shown.milliseconds, (slice.end - begin) / 1000)});
        stretches = joined(std::move(stretches), shown.milliseconds / 1000);
        if (name == "host")
            shown.host = std::move(stretches);
        else if (!name.starts_with("host of rank"))
            shown.towers.push_back({as_printable(name), std::move(stretches)});
    }
    return shown;
}

} // namespace towers
