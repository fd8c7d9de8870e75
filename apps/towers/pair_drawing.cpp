#include "apps/towers/pair_drawing.h"

#include "backends/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace towers {
namespace {

constexpr double width = 860, left = 150, right = 24; // pixels
constexpr std::size_t most_colours = 4;               // of towers

constexpr std::string_view style = R"(
svg { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.card { fill: #ffffff; stroke: #dfe3e8; } text { fill: #1b1f24; } .soft { fill: #5c6670; font-size: 12px; }
.title { font-weight: 600; font-size: 14px; } .end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: #dfe3e8; } .track { fill: #eef0f3; }
.d0 { fill: #2563c9; } .d1 { fill: #c75b12; } .d2 { fill: #0b8a6b; } .d3 { fill: #8b46c9; } .together { fill: #5c6670; }
.copy { fill: #d9a400; } .wait { fill: #b9c0c8; } .average { fill: #b3305f; }
@media (prefers-color-scheme: dark) {
  .card { fill: #1d2126; stroke: #333a42; } text { fill: #e8ebee; } .soft { fill: #9ba5b0; }
  .grid { stroke: #333a42; } .track { fill: #2a3037; }
  .d0 { fill: #6ea2f5; } .d1 { fill: #f0924c; } .d2 { fill: #3cc4a0; } .d3 { fill: #bd8cf0; }
  .together { fill: #9ba5b0; } .copy { fill: #e8c14a; } .wait { fill: #59636e; } .average { fill: #ef7da6; }
}
)";

std::string escaped(std::string_view text) {
    std::string safe;
    for (const char c : text)
        safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return safe;
}

std::string text_at(double x, double y, std::string_view classes, std::string_view text) {
    return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"{}\">{}</text>\n", x, y, classes,
                       escaped(text));
}

std::string box(double x, double y, double w, double h, std::string_view classes,
                std::string_view more = "") {
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"{}/>\n", x, y, w, h,
        classes, more);
}

std::string colour(std::size_t tower) { return fmt::format("d{}", tower % most_colours); }

const char* class_of(Spent on) {
    return on == Spent::copying ? "copy" : on == Spent::waiting ? "wait" : "average";
}

/// `vulkan:0` of `tower_1: vulkan:0 (llvmpipe)`
std::string device_in(const std::string& process) {
    const std::size_t from = process.find(": "), to = process.find(" (");
    return from == std::string::npos ? process
                                     : process.substr(from + 2, to == std::string::npos ? to : to - from - 2);
}

/// `1.45`, `12.3`, `820`, `38,006`
std::string figure(double value) {
    const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
    std::string text = fmt::format("{:.{}f}", value, digits);
    for (std::size_t i = digits > 0 ? 0 : text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
    return text;
}

struct Key {
    std::string name, colour;
};

/// Colours with their names, from the right end backwards.
void draw_legend(std::string& svg, double y, double x, std::vector<Key> keys) {
    std::ranges::reverse(keys);
    for (const auto& [name, colour] : keys) {
        x -= 6.6 * double(name.size());
        svg += text_at(x, y, "soft", name) + box(x - 16, y - 10, 11, 11, colour, " rx=\"2\"");
        x -= 34;
    }
}

/// The tracks of a few steps, from `y` down; returns where they end.
double draw_tracks(std::string& svg, const TracedSteps& trace, double y) {
    const double scale = (width - left - right) / trace.milliseconds;
    const std::string steps = trace.first == trace.last
                                  ? fmt::format("Step {}", trace.first)
                                  : fmt::format("Steps {} to {}", trace.first, trace.last);
    svg += text_at(24, y, "title", fmt::format("{}: {} ms", steps, figure(trace.milliseconds)));
    draw_legend(
        svg, y, width - right,
        {{"computes", "d0"}, {"copies", "copy"}, {"waits", "wait"}, {"the host averages", "average"}});
    y += 14;
    const auto draw = [&](const std::string& name, const std::string& computing,
                          const std::vector<Stretch>& stretches, double height) {
        svg += text_at(24, y + height / 2 + 4, "", name);
        svg += box(left, y, width - left - right, height, "track", " rx=\"3\"");
        // Waits first: they lie below what goes on meanwhile.
        for (const Spent on : {Spent::waiting, Spent::computing, Spent::averaging, Spent::copying})
            for (const Stretch& each : stretches) {
                if (each.on != on) continue;
                const double from = left + each.begin * scale,
                             wide = std::max(0.6, (each.end - each.begin) * scale);
                // Copies go on beside kernels.
                const bool copy = on == Spent::copying;
                svg += box(from, copy ? y + height * 0.68 : y, wide, copy ? height * 0.32 : height,
                           on == Spent::computing ? computing : class_of(on));
            }
        y += height + 8;
    };
    for (std::size_t i = 0; i < trace.towers.size(); ++i)
        draw(device_in(trace.towers[i].name), colour(i), trace.towers[i].stretches, 34);
    draw("host", "", trace.host, 18);
    return y;
}

/// Each tower's part of the examples, over the steps.
double draw_shares(std::string& svg, const ReportedRun& run, double y, double wide) {
    const std::vector<TimedStep>& steps = run.times.steps;
    const double height = 120, x0 = 60, x1 = wide - 20;
    svg += text_at(24, y, "title", "Shares of the examples");
    y += 14;
    const auto first = double(steps.front().step), last = std::max(first + 1, double(steps.back().step));
    const auto x = [&](const TimedStep& step) {
        return x0 + (double(step.step) - first) / (last - first) * (x1 - x0);
    };
    const std::size_t towers = steps.front().towers.size();
    std::vector<Key> keys;
    for (std::size_t tower = 0; tower < towers; ++tower) {
        std::string up, down;
        double last_part = 0;
        for (std::size_t i = 0; i < steps.size(); ++i) {
            double all = 0, below = 0;
            for (std::size_t k = 0; k < towers; ++k) {
                const auto examples = double(steps[i].towers[k].examples);
                all += examples;
                if (k < tower) below += examples;
            }
            const double part = all > 0 ? double(steps[i].towers[tower].examples) / all : 0;
            below = all > 0 ? below / all : 0;
            up += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x(steps[i]),
                              y + height * (1 - below - part));
            down = fmt::format("L{:.1f} {:.1f}", x(steps[i]), y + height * (1 - below)) + down;
            last_part = part;
        }
        svg += fmt::format("<path d=\"{}{}Z\" class=\"{}\"/>\n", up, down, colour(tower));
        const std::string name = tower < run.times.events.front().towers.size()
                                     ? run.times.events.front().towers[tower].id
                                     : fmt::format("tower_{}", tower);
        keys.push_back({fmt::format("{} {:.0f} %", name, 100 * last_part), colour(tower)});
    }
    draw_legend(svg, y - 14, x1, std::move(keys));
    svg += text_at(x0 - 6, y + 10, "soft end", "100 %") + text_at(x0 - 6, y + height, "soft end", "0");
    svg += text_at(x0, y + height + 16, "soft", fmt::format("step {}", steps.front().step));
    svg += text_at(x1, y + height + 16, "soft end", fmt::format("step {}", steps.back().step));
    return y + height + 24;
}

/// The median rate of the run's second half.
double rate_of(const ReportedRun& run) {
    std::vector<double> rates;
    const std::vector<TimedStep>& steps = run.times.steps;
    for (std::size_t i = steps.size() / 2; i < steps.size(); ++i) rates.push_back(steps[i].rate);
    if (rates.empty())
        throw InputError(
            fmt::format("{}: the run has kept no times; --log-every 1 keeps those of each step", run.folder));
    std::ranges::nth_element(rates, rates.begin() + std::ptrdiff_t(rates.size() / 2));
    return rates[rates.size() / 2];
}

void draw_rates(std::string& svg, const ReportedRun& run, std::span<const ReportedRun> alone, double x,
                double y) {
    struct Bar {
        std::string name, colour;
        double rate;
    };
    std::vector<Bar> bars;
    for (std::size_t i = 0; i < alone.size(); ++i) {
        const RunEvent* const start =
            alone[i].times.events.empty() ? nullptr : &alone[i].times.events.front();
        const std::string device =
            start != nullptr && start->towers.size() == 1 ? start->towers[0].id : alone[i].name;
        const std::vector<std::string> devices = ids_of(run.times.events.front().towers);
        const auto same = std::ranges::find(devices, device);
        bars.push_back({device + " alone", colour(std::size_t(same - devices.begin())), rate_of(alone[i])});
    }
    double sum = 0;
    for (const Bar& bar : bars) sum += bar.rate;
    bars.push_back({"together", "together", rate_of(run)});
    const double most = std::ranges::max_element(bars, {}, &Bar::rate)->rate, full = width - right - x - 190;
    svg += text_at(x, y, "title", "Examples per second");
    y += 20;
    for (const Bar& bar : bars) {
        svg += text_at(x, y + 17, "", bar.name);
        const double long_is = std::max(2.0, full * bar.rate / most);
        svg += box(x + 118, y, long_is, 24, bar.colour, " rx=\"3\"");
        svg += text_at(x + 118 + long_is + 8, y + 17, "", figure(bar.rate));
        y += 36;
    }
    if (alone.size() > 1)
        svg += text_at(x, y + 12, "soft",
                       fmt::format("together: {:.0f} % of the sum of the {} alone",
                                   100 * bars.back().rate / sum, alone.size()));
}

} // namespace

std::string draw_pair(const ReportedRun& run, std::span<const ReportedRun> alone, const TracedSteps& trace) {
    const std::vector<TimedStep>& steps = run.times.steps;
    if (steps.size() < 2 || steps.front().towers.size() < 2 || run.times.events.empty() ||
        std::ranges::any_of(
            steps, [&](const TimedStep& each) { return each.towers.size() != steps[0].towers.size(); }))
        throw InputError(
            fmt::format("{}: the picture shows a run of several towers that has kept the times of some "
                        "steps; --towers cpu,vulkan:0 --log-every 1 makes one",
                        run.folder));
    std::string svg;
    const double below = draw_tracks(svg, trace, 34) + 26, half = 470;
    const double end = draw_shares(svg, run, below, half);
    draw_rates(svg, run, alone, half + 14, below);
    const double height = std::max(end, below + 44 + 36 * double(alone.size() + 1)) + 10;
    std::string names;
    for (const std::string& device : ids_of(run.times.events.front().towers))
        names += (names.empty() ? "" : " and ") + device;
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" role=\"img\" aria-label=\"{2} at work\">\n<style>{3}</style>\n{4}{5}</svg>\n",
        width, height, escaped(names), style, box(0.5, 0.5, width - 1, height - 1, "card", " rx=\"10\""),
        svg);
}

} // namespace towers
