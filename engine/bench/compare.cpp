#include "engine/bench/compare.h"

#include "backends/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace towers {
namespace {

template<class T>
void check_same(const char* what, const T& now, const T& before, const std::string& source) {
    if (now != before)
        throw InputError(fmt::format("{} is not comparable: its {} is {}, here it is {}; measure with the "
                                     "baseline's settings",
                                     source, what, before, now));
}

const DeviceFigures* find(const std::vector<DeviceFigures>& devices, const std::string& id,
                          const std::string& name) {
    const auto same = std::find_if(devices.begin(), devices.end(), [&](const DeviceFigures& each) {
        return each.id == id && each.name == name;
    });
    return same == devices.end() ? nullptr : &*same;
}

void compare_kernels(const DeviceFigures& now, const DeviceFigures& before,
                     std::vector<KernelComparison>& kernels) {
    for (const KernelFigures& kernel : now.kernels) {
        const auto same = std::find_if(before.kernels.begin(), before.kernels.end(),
                                       [&](const KernelFigures& each) { return each.name == kernel.name; });
        if (same != before.kernels.end())
            kernels.push_back({now.id, kernel.name, same->time_us.median, kernel.time_us.median});
    }
}

} // namespace

std::vector<RateComparison> BenchComparison::slower(double tolerance) const {
    std::vector<RateComparison> found;
    std::copy_if(rates.begin(), rates.end(), std::back_inserter(found),
                 [&](const RateComparison& rate) { return rate.ratio() < 1 - tolerance; });
    return found;
}

void check_comparable(const BenchSettings& settings, const std::vector<DeviceInfo>& devices,
                      const BenchReport& before, const std::string& source, bool whole) {
    check_same("recipe", settings.recipe, before.settings.recipe, source);
    check_same("batch", settings.batch, before.settings.batch, source);
    check_same("number of CPU threads", settings.threads, before.settings.threads, source);
    check_same("validation", settings.validate, before.settings.validate, source);
    const std::string fp32(name_of(Precision::fp32));
    check_same("precision", settings.precision.value_or(fp32), before.settings.precision.value_or(fp32),
               source);
    check_same("rounding of operands on the cpu", settings.round_operands.value_or(false),
               before.settings.round_operands.value_or(false), source);
    std::size_t common = 0;
    std::string ids;
    for (const DeviceFigures& earlier : before.devices) {
        const bool here = std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& device) {
            return device.id == earlier.id && device.name == earlier.name;
        });
        if (!here && whole)
            throw InputError(
                fmt::format("{} has {} ({}), which this run would not measure; choose with --towers "
                            "which devices to compare",
                            source, earlier.id, earlier.name));
        common += here ? 1 : 0;
        ids += (ids.empty() ? "" : ",") + earlier.id;
    }
    if (common == 0)
        throw InputError(
            fmt::format("{} has no device in common with this run; name some of its devices with "
                        "--towers: {}",
                        source, ids));
}

BenchComparison compare(const BenchReport& now, const BenchReport& before) {
    BenchComparison comparison;
    for (const DeviceFigures& device : now.devices) {
        const DeviceFigures* const same = find(before.devices, device.id, device.name);
        if (same == nullptr) continue;
        comparison.rates.push_back({device.id, same->examples_per_s.median, device.examples_per_s.median});
        compare_kernels(device, *same, comparison.kernels);
    }
    if (now.together && before.together && now.together->towers == before.together->towers &&
        now.together->shares == before.together->shares)
        comparison.rates.push_back(
            {"together", before.together->examples_per_s.median, now.together->examples_per_s.median});
    else if (before.together)
        comparison.missing.push_back("together");
    for (const DeviceFigures& earlier : before.devices)
        if (find(now.devices, earlier.id, earlier.name) == nullptr)
            comparison.missing.push_back(fmt::format("{} ({})", earlier.id, earlier.name));
    return comparison;
}

} // namespace towers
