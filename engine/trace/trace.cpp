#include "engine/trace/trace.h"

#include "engine/files/output.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace towers {
namespace {

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }
double microseconds(std::int64_t nanoseconds) { return double(nanoseconds) / 1e3; }

/// An event that names or orders a process or a thread.
nlohmann::json metadata(const char* what, std::size_t pid, std::size_t tid, const nlohmann::json& arguments) {
    return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", arguments}};
}

} // namespace

std::string tower_process(std::size_t tower, const DeviceInfo& info) {
    return fmt::format("tower_{}: {} ({})", tower, info.id, info.name);
}

Trace::Track Trace::add_track(const std::string& process, const std::string& name) {
    const std::lock_guard lock(mutex_);
    rows_.push_back({process_of(process), name});
    return {rows_.size() - 1};
}

Trace::ClockId Trace::add_clock(const std::string& process) {
    const std::lock_guard lock(mutex_);
    clocks_.push_back({process_of(process), {}});
    return {clocks_.size() - 1};
}

std::size_t Trace::process_of(const std::string& name) {
    const auto found = std::ranges::find(processes_, name);
    if (found != processes_.end()) return std::size_t(found - processes_.begin());
    processes_.push_back(name);
    return processes_.size() - 1;
}

/// The first step that is kept.
std::uint64_t Trace::first_step() const { return step_ - std::min(step_, most_steps_ - 1); }

bool Trace::is_kept(std::uint64_t step) const { return step != none && step >= first_step(); }

void Trace::begin_step(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
    // Slices come nearly in order of steps; an old one that follows a newer one is dropped together with it.
    while (!slices_.empty() && slices_.front().step < first_step()) slices_.pop_front();
    for (DeviceClock& clock : clocks_) clock.offset.forget_before(first_step());
}

std::uint64_t Trace::step() const {
    const std::lock_guard lock(mutex_);
    return step_;
}

void Trace::set_testing(bool testing) {
    const std::lock_guard lock(mutex_);
    testing_ = testing;
}

bool Trace::is_testing() const {
    const std::lock_guard lock(mutex_);
    return testing_;
}

void Trace::add(Slice slice) {
    const std::lock_guard lock(mutex_);
    if (!is_kept(slice.step)) return;
    slices_.push_back(std::move(slice));
}

void Trace::add(Track track, std::string name, Clock::time_point begin, Clock::time_point end) {
    add({.track = track,
         .name = std::move(name),
         .step = step(),
         .begin = host_seconds(begin),
         .end = host_seconds(end)});
}

void Trace::begins(ClockId clock, std::uint64_t step, double submitted, double begun) {
    const std::lock_guard lock(mutex_);
    if (is_kept(step)) clocks_[clock.index].offset.begins(step, submitted, begun);
}

void Trace::ends(ClockId clock, std::uint64_t step, double ended, double known) {
    const std::lock_guard lock(mutex_);
    if (is_kept(step)) clocks_[clock.index].offset.ends(step, ended, known);
}

void Trace::note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(text);
}

std::vector<std::string> Trace::notes() const {
    const std::lock_guard lock(mutex_);
    return notes_;
}

std::vector<Trace::DeviceWork> Trace::device_work() const {
    const std::lock_guard lock(mutex_);
    std::vector<DeviceWork> works;
    std::map<std::tuple<std::size_t, std::string, const char*>, std::size_t> known; // by track, name, kernel
    for (const Slice& slice : slices_) {
        if (slice.clock.index == on_host_clock || slice.of_test || !is_kept(slice.step)) continue;
        const Row& row = rows_[slice.track.index];
        const auto [entry, is_new] =
            known.try_emplace({slice.track.index, slice.name, slice.kernel}, works.size());
        if (is_new) works.push_back({processes_[row.process], row.name, slice.name, slice.kernel});
        works[entry->second].seconds += slice.end - slice.begin;
    }
    return works;
}

std::pair<std::uint64_t, std::uint64_t> Trace::steps() const {
    const std::lock_guard lock(mutex_);
    std::pair<std::uint64_t, std::uint64_t> kept{none, none};
    for (const Slice& slice : slices_) {
        if (!is_kept(slice.step)) continue;
        kept.first = std::min(kept.first, slice.step);
        kept.second = kept.second == none ? slice.step : std::max(kept.second, slice.step);
    }
    return kept;
}

std::string Trace::to_json() const {
    const std::lock_guard lock(mutex_);
    using nlohmann::json;
    json rows = json::array(), clocks = json::array(), slices = json::array();
    for (const Row& row : rows_) rows.push_back({processes_[row.process], row.name});
    for (const DeviceClock& clock : clocks_)
        clocks.push_back({processes_[clock.process], clock.offset.seconds(), clock.offset.uncertainty()});
    for (const Slice& slice : slices_)
        if (is_kept(slice.step))
            slices.push_back({slice.track.index, slice.name, slice.kernel == nullptr ? "" : slice.kernel,
                              slice.step, slice.clock.index, slice.begin, slice.end, slice.of_test});
    return json{{"rows", rows}, {"clocks", clocks}, {"slices", slices}, {"notes", notes_}}.dump(
        -1, ' ', false, json::error_handler_t::replace);
}

void Trace::add(const std::string& text, const ClockOffset& clock) {
    const auto json = nlohmann::json::parse(text);
    const std::lock_guard lock(mutex_);
    const std::size_t first_row = rows_.size(), first_clock = clocks_.size();
    for (const auto& row : json.at("rows")) {
        rows_.push_back({process_of(row[0]), row[1]});
        const std::pair label(rows_.back().process,
                              fmt::format("rank's clock within {:.0f} us", clock.uncertainty() * 1e6));
        if (std::ranges::find(labels_, label) == labels_.end()) labels_.push_back(label);
    }
    for (const auto& its : json.at("clocks")) {
        const double offset = its[1].get<double>() + clock.seconds();
        clocks_.push_back({process_of(its[0]), {}});
        ClockOffset& bounds = clocks_.back().offset;
        if (its[2].is_null()) { // a bound is missing
            bounds.begins(step_, offset, 0);
            continue;
        }
        const double uncertainty = its[2].get<double>() + clock.uncertainty();
        bounds.begins(step_, offset - uncertainty, 0);
        bounds.ends(step_, 0, offset + uncertainty);
    }
    for (const auto& its : json.at("slices")) {
        Slice slice{.track = {first_row + its[0].get<std::size_t>()},
                    .name = its[1],
                    .step = its[3],
                    .clock = {its[4]},
                    .begin = its[5],
                    .end = its[6],
                    .of_test = its[7]};
        if (const std::string kernel = its[2]; !kernel.empty())
            slice.kernel = kernels_.insert(kernel).first->c_str();
        if (slice.clock.index != on_host_clock) {
            slice.clock.index += first_clock;
        } else {
            slice.begin += clock.seconds();
            slice.end += clock.seconds();
        }
        if (is_kept(slice.step)) slices_.push_back(std::move(slice));
    }
    for (const std::string note : json.at("notes")) notes_.push_back(note);
}

void Trace::write(const std::filesystem::path& path) const {
    const std::lock_guard lock(mutex_);
    std::string text;
    // Writes each event on its own line, so that people can read and search the file.
    text += "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    const char* separator = "";
    const auto write = [&](const nlohmann::json& event) {
        // A driver's name may not be valid UTF-8.
        text += separator + event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        separator = ",\n";
    };
    // Numbers begin at 1, since viewers take 0 for an idle processor.
    for (std::size_t i = 0; i < processes_.size(); ++i) {
        write(metadata("process_name", i + 1, 0, {{"name", processes_[i]}}));
        write(metadata("process_sort_index", i + 1, 0, {{"sort_index", i}}));
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        write(metadata("thread_name", rows_[i].process + 1, i + 1, {{"name", rows_[i].name}}));
        write(metadata("thread_sort_index", rows_[i].process + 1, i + 1, {{"sort_index", i}}));
    }
    for (const DeviceClock& clock : clocks_)
        if (const double uncertainty = clock.offset.uncertainty(); std::isfinite(uncertainty))
            write(metadata("process_labels", clock.process + 1, 0,
                           {{"labels", fmt::format("device's clock within {:.0f} us", uncertainty * 1e6)}}));
    for (const auto& [process, label] : labels_)
        write(metadata("process_labels", process + 1, 0, {{"labels", label}}));
    const auto on_host = [&](const Slice& slice, double moment) {
        return moment +
               (slice.clock.index == on_host_clock ? 0 : clocks_[slice.clock.index].offset.seconds());
    };
    double first = std::numeric_limits<double>::infinity();
    for (const Slice& slice : slices_)
        if (is_kept(slice.step)) first = std::min(first, on_host(slice, slice.begin));
    for (const Slice& slice : slices_) {
        if (!is_kept(slice.step)) continue;
        // Both ends are rounded to nanoseconds, so that nested slices stay nested.
        const std::int64_t begin = nanoseconds(on_host(slice, slice.begin) - first);
        const std::int64_t end = nanoseconds(on_host(slice, slice.end) - first);
        nlohmann::json event{{"ph", "X"},
                             {"name", slice.name},
                             {"cat", slice.clock.index == on_host_clock ? "host" : "device"},
                             {"pid", rows_[slice.track.index].process + 1},
                             {"tid", slice.track.index + 1},
                             {"ts", microseconds(begin)},
                             {"dur", microseconds(end - begin)},
                             {"args", {{"step", slice.step}}}};
        if (slice.kernel != nullptr) event["args"]["kernel"] = slice.kernel;
        write(event);
    }
    text += "\n]}\n";
    write_output(path, text);
}

} // namespace towers
