#include "engine/model/freeze.h"

#include "backends/error.h"
#include "engine/nearest.h"

#include <algorithm>
#include <fmt/format.h>
#include <fnmatch.h>
#include <vector>

namespace towers {
namespace {

bool fits(const std::string& pattern, const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

/// The end of a message about a pattern that fits nothing.
std::string advice(const std::string& pattern, const std::vector<Variable>& variables) {
    const auto any_fits = [&](const std::string& other) {
        return std::ranges::any_of(variables,
                                   [&](const Variable& variable) { return fits(other, variable.name); });
    };
    for (const char* const more : {"/*", "*"})
        if (any_fits(pattern + more)) return fmt::format("give '{}{}'", pattern, more);
    std::vector<std::string> names;
    for (const Variable& variable : variables) {
        names.push_back(variable.name);
        names.push_back(variable.name.substr(0, variable.name.rfind('/')) + "/*");
    }
    const std::string meant = nearest(pattern, names);
    return meant.empty() ? fmt::format("the names are such as '{}'; 'towers recipe describe RECIPE "
                                       "--variables' lists all",
                                       variables.front().name)
                         : fmt::format("did you mean '{}'?", meant);
}

} // namespace

void freeze(Model& model, std::span<const std::string> patterns, const std::string& what) {
    const std::vector<Variable> variables = model.variables();
    std::set<std::string> frozen;
    for (const std::string& pattern : patterns) {
        bool found = false;
        for (const Variable& variable : variables) {
            if (!fits(pattern, variable.name)) continue;
            found = true;
            frozen.insert(variable.name);
        }
        if (!found)
            throw UsageError(
                fmt::format("{} '{}': fits no variable; {}", what, pattern, advice(pattern, variables)));
    }
    if (std::ranges::none_of(variables, [&](const Variable& variable) {
            return variable.role == Role::trained && !frozen.contains(variable.name);
        }))
        throw UsageError(fmt::format("{}: no variable is left that learns; freeze fewer", what));
    for (const Node& node : model.nodes) {
        const std::string mean = node.name + "/moving_mean", variance = node.name + "/moving_variance";
        if (frozen.contains(mean) != frozen.contains(variance))
            throw UsageError(fmt::format("{}: fits '{}' but not '{}'; a batch norm's statistics are frozen "
                                         "together, as by '{}/moving_*'",
                                         what, frozen.contains(mean) ? mean : variance,
                                         frozen.contains(mean) ? variance : mean, node.name));
    }
    model.frozen = std::move(frozen);
}

Frozen count_frozen(const Model& model) {
    Frozen count;
    for (const Variable& variable : model.variables()) {
        const std::size_t parameters = variable.role == Role::trained ? variable.elements() : 0;
        ++count.of_variables;
        count.of_parameters += parameters;
        if (!variable.frozen) continue;
        ++count.variables;
        count.parameters += parameters;
    }
    return count;
}

} // namespace towers
