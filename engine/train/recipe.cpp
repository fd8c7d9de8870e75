#include "engine/train/recipe.h"

#include "engine/error.h"
#include "engine/model/cifar10_tutorial.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <sstream>
#include <utility>

namespace towers {
namespace {

constexpr std::pair<const char*, bool Quirks::*> quirk_names[] = {
    {"last-tower-loss", &Quirks::last_tower_loss},     {"step-schedule", &Quirks::step_schedule},
    {"unordered-average", &Quirks::unordered_average}, {"delete-run", &Quirks::delete_run},
    {"padded-evaluation", &Quirks::padded_evaluation}, {"divided-batch-time", &Quirks::divided_batch_time},
};

std::string all_quirk_names() {
    std::string names;
    for (const auto& [name, member] : quirk_names) names += std::string(names.empty() ? "" : ", ") + name;
    return names;
}

} // namespace

Quirks parse_quirks(const std::string& text) {
    Quirks quirks;
    if (text.empty() || text == "none") return quirks;
    std::istringstream list(text);
    for (std::string word; std::getline(list, word, ',');) {
        bool known = false;
        for (const auto& [name, member] : quirk_names)
            if (word == name || word == "all") quirks.*member = known = true;
        if (!known)
            throw UsageError(fmt::format("--quirks '{}': there is no '{}'; choose from {}, all, none", text,
                                         word, all_quirk_names()));
    }
    return quirks;
}

std::string format_quirks(const Quirks& quirks) {
    std::string text;
    for (const auto& [name, member] : quirk_names)
        if (quirks.*member) text += std::string(text.empty() ? "" : ",") + name;
    return text.empty() ? "none" : text;
}

Recipe find_recipe(const std::string& name) {
    if (name == "cifar10-tutorial")
        return {.name = name,
                .model = cifar10_tutorial(),
                .batch = 128,
                .learning_rate = 0.1,
                .decay_factor = 0.1,
                .epochs_per_decay = 350,
                .average_decay = 0.9999,
                .steps = 100000};
    throw UsageError(fmt::format("recipe '{}': there is no such recipe; use cifar10-tutorial", name));
}

double learning_rate_at(const Recipe& recipe, double initial, std::uint64_t step, std::uint64_t examples,
                        std::uint64_t records, unsigned batch, bool by_steps) {
    const std::uint64_t decays =
        by_steps ? step / std::max<std::uint64_t>(1, records * recipe.epochs_per_decay / batch)
                 : examples / (records * recipe.epochs_per_decay);
    return initial * std::pow(recipe.decay_factor, double(decays));
}

double average_decay_at(const Recipe& recipe, std::uint64_t n) {
    return std::min(recipe.average_decay, (1.0 + double(n)) / (10.0 + double(n)));
}

} // namespace towers
