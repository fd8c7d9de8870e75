#include "engine/bench/variants.h"

#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/step/network.h"
#include "engine/tuning/tuning.h"

#include <fnmatch.h>

namespace towers {

std::vector<LaunchVariants> measure_variants(const std::string& id, const OpenOptions& options,
                                             const Recipe& recipe, unsigned batch,
                                             const std::string& pattern) {
    Choices choices;
    OpenOptions open = options;
    open.choices = &choices;
    const std::unique_ptr<Device> device = open_device(id, open);
    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec = network_spec(recipe, layout,
                                          {.batch = batch,
                                           .stored = stored_size(recipe),
                                           .slots = batch,
                                           .seed = 1,
                                           .distort = true,
                                           .largest_allocation = device->info().largest_allocation});
    const Plan plan = plan_single_step(spec, update_spec(recipe, layout)).plan;
    const auto matches = [&](const std::string& name) {
        return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    };
    std::vector<LaunchVariants> found;
    const Plan* const plans[] = {&plan};
    for (const auto& [key, distinct] : distinct_launches(plans)) {
        if (!matches(distinct.name) && !matches(kernel_info(distinct.planned.launch->kernel).name)) continue;
        LaunchVariants& launch = found.emplace_back(LaunchVariants{distinct.name, key, distinct.times, {}});
        if (is_measurable(distinct.planned))
            launch.all =
                measure(*device, choices, distinct.planned, device->candidates(*distinct.planned.launch));
    }
    return found;
}

} // namespace towers
