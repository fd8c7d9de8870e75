#include "apps/towers/bench_table.h"

#include "backends/backend.h"
#include "engine/execution/operands.h"
#include "engine/shares/shares.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <numeric>
#include <vector>

namespace towers {
namespace {

/// Three significant digits.
std::string number(double value) {
    return fmt::format("{:.{}f}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3);
}

std::string megabytes(std::uint64_t bytes) { return number(double(bytes) * 1e-6); }

std::string spread(const Spread& s) {
    return fmt::format("{:>8} {:>16}", number(s.median),
                       fmt::format("({} - {})", number(s.min), number(s.max)));
}

Precision precision_in(const BenchSettings& settings) {
    return precision_of(settings.precision.value_or("")).value_or(Precision::fp32);
}

/// `, bf16 products`, and whether the cpu rounds without units; "" for fp32.
std::string precision_text(const BenchSettings& settings) {
    const Precision precision = precision_in(settings);
    if (precision == Precision::fp32) return {};
    return fmt::format(", {} products{}", name_of(precision),
                       settings.round_operands.value_or(false) ? ", rounded on the cpu" : "");
}

/// What the multiplications of the device's step round; "" if everything is in fp32.
std::string operands_text(const DeviceFigures& device, const BenchSettings& settings) {
    OperandParts parts;
    if (device.multiplications)
        for (const OperandFigures& each : *device.multiplications)
            parts[operands_named(each.operands)] += each.part;
    const std::string text = describe(parts, precision_in(settings));
    return text.empty() ? text : "; " + text;
}

/// Of a BenchReport or a RanksReport.
std::string head_text(const auto& r) {
    const BenchMachine& m = r.machine;
    return fmt::format("towers {} bench, {}\n{}, {} processors, {}, {}, load {:.2f}\n"
                       "{}, batch {}, repetitions in turn: {}, CPU threads: {}{}{}\n",
                       r.towers_version, r.date, m.processor, m.processors, m.system, m.kernel,
                       m.load_average, r.settings.recipe, r.settings.batch, r.settings.repetitions,
                       r.settings.threads, precision_text(r.settings),
                       r.settings.validate ? ", under the Vulkan validation layer" : "");
}

std::string device_text(const BenchReport& r) {
    std::string text = "\n";
    for (const DeviceFigures& d : r.devices)
        text += fmt::format("{:<10} {}, {}, {}{}\n", d.id, d.name, d.kind, d.driver,
                            operands_text(d, r.settings));
    if (r.left_out)
        for (const LeftOut& each : *r.left_out)
            text += fmt::format("{:<10} left out: {}\n", each.what, each.reason);
    return text;
}

std::string names_of(const SubsetFigures& s) { return fmt::format("{}", fmt::join(s.towers, ",")); }

std::string refusal_of(const SubsetFigures& s) { return s.refusal ? fmt::format(": {}", *s.refusal) : ""; }

/// The flags with which `train` shares a step like this.
std::string flags_for(const SubsetFigures& s, const BenchSettings& settings) {
    const unsigned global = std::accumulate(s.shares.begin(), s.shares.end(), 0u);
    std::string flags = fmt::format("--towers {} --global-batch {}", names_of(s), global);
    if (settings.threads != cpu_threads(0)) flags += fmt::format(" --threads {}", settings.threads);
    if (const Precision precision = precision_in(settings); precision != Precision::fp32)
        flags += fmt::format(" --precision {}", name_of(precision));
    if (settings.round_operands.value_or(false)) flags += " --round-operands";
    if (s.shares.size() == 1) return flags;
    unsigned divisor = 0;
    for (const unsigned share : s.shares) divisor = std::gcd(divisor, share);
    std::vector<unsigned> ratio;
    for (const unsigned share : s.shares) ratio.push_back(share / divisor);
    return flags + " --shares " + to_string(ratio);
}

std::string proposal_text(const SubsetFigures& p, const BenchSettings& settings) {
    std::string text, measured = fmt::format("not measured{}", refusal_of(p));
    if (p.examples_per_s) {
        text = fmt::format("{:<10} {} {:>10}\n", "proposed", spread(*p.examples_per_s),
                           number(p.step_us->median * 1e-3));
        measured = fmt::format("{:.1f} % of the sum of the devices' solo rates at batch {}",
                               p.share_of_sum->median * 100, settings.batch);
    }
    return text +
           fmt::format("  {} with {} examples: {}; predicted {:.1f} %, {} examples/s, {} ms a step\n"
                       "  to train so: {}; with all towers --shares auto, the default, finds shares itself\n",
                       names_of(p), to_string(p.shares), measured, p.predicted_share_of_sum * 100,
                       number(p.predicted_examples_per_s), number(p.predicted_step_us * 1e-3),
                       flags_for(p, settings));
}

std::string step_text(const BenchReport& r) {
    std::string text =
        fmt::format("\n{:<10} {:>25} {:>10} {:>8} {:>10} {:>10} {:>10}\n", "whole step",
                    "examples/s (min - max)", "step ms", "host us", "empty us", "device MB", "staging MB");
    for (const DeviceFigures& d : r.devices)
        text += fmt::format("{:<10} {} {:>10} {:>8} {:>10} {:>10} {:>10}\n", d.id, spread(d.examples_per_s),
                            number(d.step_us.median * 1e-3), number(d.host_us.median),
                            number(d.empty_step_us.median), megabytes(d.device_memory_bytes),
                            megabytes(d.staging_memory_bytes));
    if (r.together) {
        const TogetherFigures& t = *r.together;
        text += fmt::format("{:<10} {} {:>10} {:>8}\n", "together", spread(t.examples_per_s),
                            number(t.step_us.median * 1e-3), number(t.host_us.median));
        text +=
            fmt::format("  {} with {} examples: {:.1f} % of the sum of the devices' solo rates at batch {}; "
                        "by their solo rates this split makes {} examples/s\n",
                        fmt::join(t.towers, ","), fmt::join(t.shares, ":"), t.share_of_sum.median * 100,
                        r.settings.batch, number(t.split_limit_examples_per_s));
        if (t.proposal) text += proposal_text(*t.proposal, r.settings);
    }
    return text;
}

std::string subsets_text(const BenchReport& r) {
    if (!r.together || !r.together->subsets) return {};
    const std::vector<SubsetFigures>& subsets = *r.together->subsets;
    std::size_t width = 7, measured = 0;
    for (const SubsetFigures& each : subsets) width = std::max(width, names_of(each).size());
    std::string text = fmt::format("\n{:<{}} {:>11} {:>25} {:>6}  examples\n", "subsets", width,
                                   "predicted/s", "measured/s (min - max)", "ratio");
    for (const SubsetFigures& each : subsets) {
        text += fmt::format("{:<{}} {:>11} ", names_of(each), width, number(each.predicted_examples_per_s));
        if (each.examples_per_s) {
            text += fmt::format("{} {:>6.2f}", spread(*each.examples_per_s),
                                each.examples_per_s->median / each.predicted_examples_per_s);
            ++measured;
        } else
            text += fmt::format("{:>25} {:>6}", "-", "-");
        text += fmt::format("  {}{}\n", to_string(each.shares), refusal_of(each));
    }
    return text + fmt::format("The ratio is of measured to predicted rate. {} of {} measured. Fastest: {}\n",
                              measured, subsets.size(), names_of(subsets.front()));
}

/// The kernels of all devices in the order of the step; wide devices have extra ones.
std::vector<std::string> kernel_names(const BenchReport& r) {
    std::vector<std::string> names;
    for (const DeviceFigures& device : r.devices) {
        auto place = names.begin();
        for (const KernelFigures& kernel : device.kernels) {
            const auto known = std::find(names.begin(), names.end(), kernel.name);
            place = std::next(known != names.end() ? known : names.insert(place, kernel.name));
        }
    }
    return names;
}

std::string kernel_text(const BenchReport& r) {
    const std::vector<std::string> names = kernel_names(r);
    if (names.empty()) return {};
    std::size_t width = 0;
    for (const std::string& name : names) width = std::max(width, name.size());
    std::string text = fmt::format("\n{:<{}}", "kernel", width);
    for (const DeviceFigures& d : r.devices) text += fmt::format("{:>32}", d.id);
    text += fmt::format("\n{:<{}}", "", width);
    for (std::size_t i = 0; i < r.devices.size(); ++i)
        text += fmt::format("{:>10} {:>6} {:>14}", "us", "share", "rate");
    text += "\n";
    for (const std::string& name : names) {
        text += fmt::format("{:<{}}", name, width);
        for (const DeviceFigures& d : r.devices) {
            const auto k = std::find_if(d.kernels.begin(), d.kernels.end(),
                                        [&](const KernelFigures& each) { return each.name == name; });
            if (k == d.kernels.end())
                text += fmt::format("{:>32}", "-");
            else
                text +=
                    fmt::format("{:>10} {:>4.1f} % {:>6} {:<7}", number(k->time_us.median), k->share * 100,
                                number(k->gflops.value_or(k->gb_per_s)), k->gflops ? "GFLOP/s" : "GB/s");
        }
        text.erase(text.find_last_not_of(' ') + 1);
        text += "\n";
    }
    const auto last_row = [&](const char* what, const auto& value) {
        text += fmt::format("{:<{}}", what, width);
        for (const DeviceFigures& d : r.devices)
            text += fmt::format("{:>10} {:>21}", d.kernels.empty() ? "no clock" : number(value(d)), "");
        text.erase(text.find_last_not_of(' ') + 1);
        text += "\n";
    };
    last_row("sum", [](const DeviceFigures& d) { return d.kernels_us->median; });
    last_row("timestamp alone", [](const DeviceFigures& d) { return *d.timestamp_us; });
    return text +
           "The device's clock times the kernels one after another; in a step they may run side by side.\n";
}

/// The kernels that a device does not run by their shared source as it is.
std::string variant_text(const BenchReport& r) {
    const std::vector<std::string> names = kernel_names(r);
    std::size_t width = 0;
    for (const std::string& name : names) width = std::max(width, name.size());
    std::string rows;
    for (const std::string& name : names) {
        std::string row = fmt::format("{:<{}}", name, width);
        bool tells = false;
        for (const DeviceFigures& d : r.devices) {
            const auto k = std::ranges::find(d.kernels, name, &KernelFigures::name);
            const std::string variant = k != d.kernels.end() ? k->variant.value_or("-") : "-";
            tells = tells || (variant != "-" && variant != "shared text");
            row += fmt::format("  {:<30}", variant);
        }
        row.erase(row.find_last_not_of(' ') + 1);
        if (tells) rows += row + "\n";
    }
    if (rows.empty()) return {};
    std::string head = fmt::format("\n{:<{}}", "variant", width);
    for (const DeviceFigures& d : r.devices) head += fmt::format("  {:<30}", d.id);
    head.erase(head.find_last_not_of(' ') + 1);
    return head + "\n" + rows;
}

std::string copy_text(const BenchReport& r) {
    std::string text = fmt::format("\n{:<10} {:<12} {:>10} {:>22} {:>22}\n", "copies", "", "MB",
                                   "GB/s, from the host", "on the device's clock");
    for (const DeviceFigures& d : r.devices)
        for (const CopyFigures& c : d.copies)
            text += fmt::format("{:<10} {:<12} {:>10} {:>22} {:>22}\n", d.id,
                                c.direction == "to_device" ? "to device" : "from device", megabytes(c.bytes),
                                number(c.gb_per_s.median),
                                c.device_gb_per_s ? number(c.device_gb_per_s->median) : "-");
    return text;
}

std::string averaging_text(const BenchReport& r) {
    std::string text = fmt::format("\n{:<23} {:>10} {:>12} {:>24}\n", "host averaging, towers", "GB/s",
                                   "memcpy GB/s", "ratio (min - max)");
    for (const AveragingFigures& a : r.averaging)
        text +=
            fmt::format("{:<23} {:>10} {:>12} {:>24}\n", a.towers, number(a.gb_per_s.median),
                        number(a.memcpy_gb_per_s.median),
                        fmt::format("{:.2f} ({:.2f} - {:.2f})", a.ratio.median, a.ratio.min, a.ratio.max));
    return text + fmt::format("\npeak memory of the process, all devices at once: {} MB\n",
                              megabytes(r.peak_memory_bytes));
}

/// What a model expects of more machines.
std::string scale_text(const RanksReport& r) {
    if (!r.predicted) return "One rank on each machine measures the network, and predicts more machines.\n";
    std::string text =
        fmt::format("\npredicted by a model, with as much for each rank to do:\n{:>8} {:>12} {:>10} {:>10}\n",
                    "machines", "examples/s", "step ms", "of the sum");
    for (const ScaleFigures& each : *r.predicted)
        text += fmt::format("{:>8} {:>12} {:>10} {:>8.1f} %\n", each.machines, number(each.examples_per_s),
                            number(each.step_us * 1e-3), each.share_of_sum * 100);
    return text;
}

} // namespace

std::string format_report(const BenchReport& report) {
    return head_text(report) + device_text(report) + step_text(report) + subsets_text(report) +
           kernel_text(report) + variant_text(report) + copy_text(report) + averaging_text(report);
}

std::string format_report(const RanksReport& r) {
    std::vector<std::string> names;
    std::size_t width = std::string_view("together").size();
    for (const RankFigures& rank : r.ranks)
        width = std::max(
            width, names.emplace_back(fmt::format("{} ({})", fmt::join(rank.towers, ","), rank.host)).size());
    std::string text = head_text(r) + fmt::format("{} ranks, started by {}\n\n{:<{}} {:>25} {:>10} {:>10}\n",
                                                  r.ranks.size(), r.launcher, "each rank alone", width,
                                                  "examples/s (min - max)", "step ms", "examples");
    unsigned examples = 0;
    for (std::size_t i = 0; i < r.ranks.size(); ++i) {
        const RankFigures& rank = r.ranks[i];
        examples += std::accumulate(rank.shares.begin(), rank.shares.end(), 0u);
        text += fmt::format("{:<{}} {} {:>10} {:>10}\n", names[i], width, spread(rank.examples_per_s),
                            number(rank.step_us.median * 1e-3), fmt::join(rank.shares, ":"));
    }
    text += fmt::format("{:<{}} {} {:>10} {:>10}\n  {:.1f} % of the sum of the ranks' own rates\n",
                        "together", width, spread(r.examples_per_s), number(r.step_us.median * 1e-3),
                        examples, r.share_of_sum.median * 100);
    const ExchangeFigures& e = r.exchange;
    const auto ms = [](double us) { return fmt::format("{:.1f}", us * 1e-3); };
    return text +
           fmt::format("\nexchange: rank 0 sends {} MB a step and receives as many; alone that takes "
                       "{} ms ({} - {}), "
                       "{:.0f} MB/s each way\n"
                       "  it makes a step {} ms ({} - {}) longer than the slowest rank's own: {:.0f} "
                       "% of it is hidden\n",
                       number(e.sent_bytes * 1e-6), ms(e.step_us.median), ms(e.step_us.min),
                       ms(e.step_us.max), e.sent_bytes / e.step_us.median, ms(e.visible_us.median),
                       ms(e.visible_us.min), ms(e.visible_us.max), e.hidden * 100) +
           scale_text(r);
}

std::string format_comparison(const BenchComparison& comparison, const std::string& source) {
    std::string text =
        fmt::format("\n{:<32} {:>10} {:>10} {:>8}\n", "against " + source, "before", "now", "ratio");
    for (const RateComparison& rate : comparison.rates)
        text += fmt::format("{:<32} {:>10} {:>10} {:>8.3f}\n", rate.what + " examples/s", number(rate.before),
                            number(rate.now), rate.ratio());
    for (const KernelComparison& kernel : comparison.kernels)
        text +=
            fmt::format("{:<32} {:>10} {:>10} {:>8.3f}\n", fmt::format("{} {}", kernel.device, kernel.name),
                        number(kernel.before_us), number(kernel.now_us), kernel.before_us / kernel.now_us);
    if (!comparison.missing.empty())
        text += fmt::format("not compared, because only the earlier report has them: {}\n",
                            fmt::join(comparison.missing, ", "));
    return text + "Kernel times are in us and for information only; a ratio above 1 means faster.\n";
}

} // namespace towers
