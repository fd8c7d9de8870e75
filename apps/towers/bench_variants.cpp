#include "apps/towers/bench_variants.h"

#include "backends/error.h"
#include "engine/bench/variants.h"
#include "engine/recipes/recipe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <limits>

namespace towers {
namespace {

std::string text_of(const LaunchVariants& launch) {
    std::string text = fmt::format("\n{}: {}\n  {} a step", launch.name, launch.key, launch.times);
    if (launch.all.empty()) return text + "; it cannot run on random tensors, so it is not measured\n";
    double least = std::numeric_limits<double>::infinity();
    for (const Measured& each : launch.all) least = std::min(least, each.candidate.config.cost);
    text += fmt::format("\n  {:<34} {:>12} {:>9} {:>11} {:>9}\n", "variant", "workgroups", "estimate", "us",
                        "error");
    for (const Measured& each : launch.all) {
        const LaunchConfig& config = each.candidate.config;
        const std::string groups = fmt::format("{}x{}x{}", config.groups.x, config.groups.y, config.groups.z);
        text += fmt::format("{} {:<34} {:>12} {:>9} ", each.candidate.used ? '*' : ' ',
                            to_string(each.candidate.variant, config), groups,
                            std::isfinite(config.cost) ? fmt::format("{:.2f}", config.cost / least) : "-");
        text += each.us && each.error ? fmt::format("{:>11.1f} {:>9.1e}{}\n", *each.us, *each.error,
                                                    each.is_right() ? "" : " wrong")
                                      : std::string("not recorded by the device\n");
    }
    return text;
}

} // namespace

void bench_variants(const BenchOptions& options, const std::string& pattern) {
    const Recipe recipe = recipe_of(options);
    for (const std::string& tower : options.towers) {
        const std::vector<LaunchVariants> launches =
            measure_variants(tower, options.open, recipe, options.settings.batch, pattern);
        if (launches.empty())
            throw UsageError(
                fmt::format("--variants '{}': {} has no such kernel or operation; 'towers bench' "
                            "names the operations, and a pattern such as 'conv2d*' takes several",
                            pattern, recipe.name));
        fmt::print("{}, batch {}, on {}; * is what the device uses, errors are against the last\n",
                   recipe.name, options.settings.batch, tower);
        for (const LaunchVariants& launch : launches) fmt::print("{}", text_of(launch));
        fmt::print("\n");
        std::fflush(stdout);
    }
}

} // namespace towers
