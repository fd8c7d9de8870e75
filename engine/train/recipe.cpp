#include "engine/train/recipe.h"

#include "engine/error.h"
#include "engine/files/file.h"
#include "engine/model/read_model.h"
#include "engine/recipes/recipes.h"

#include <algorithm>
#include <filesystem>
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

Recipe find_recipe(const std::string& name, const std::vector<std::string>& changes) {
    if (name.ends_with(".toml") || name.find('/') != std::string::npos) {
        std::string text;
        try {
            text = read_file(name);
        } catch (const InputError& error) {
            throw UsageError(error.what());
        }
        return parse_recipe(std::filesystem::path(name).stem().string(), text, name, changes);
    }
    const auto& all = builtin_recipes();
    const auto found = std::ranges::find(all, name, &BuiltinRecipe::name);
    if (found != all.end()) return parse_recipe(name, found->text, name + ".toml", changes);
    std::string names;
    for (const BuiltinRecipe& each : all) names += std::string(names.empty() ? "" : ", ") + each.name;
    throw UsageError(
        fmt::format("recipe '{}': there is no such recipe; choose from {}, or name a file that ends in "
                    ".toml",
                    name, names));
}

namespace {

/// Puts what the second table says into the first, table by table.
void merge(Value& into, const Value& from) {
    for (const auto& [key, value] : *from.as<Value::Table>()) {
        auto* const table = into.as<Value::Table>();
        const auto entry = std::ranges::find(*table, key, &std::pair<std::string, Value>::first);
        if (entry == table->end())
            table->emplace_back(key, value);
        else if (value.as<Value::Table>() != nullptr && entry->second.as<Value::Table>() != nullptr)
            merge(entry->second, value);
        else
            entry->second.data = value.data;
    }
}

/// Sets what `change`, table.key=value, says.
void apply(Value& recipe, const std::string& change) {
    const std::size_t equals = change.find('=');
    const std::size_t dot = change.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot > equals)
        throw UsageError(
            fmt::format("--set '{}': give TABLE.KEY=VALUE, such as optimizer.learning_rate=0.05", change));
    const std::string source = "--set '" + change + "'";
    Value given;
    try {
        given = parse_toml(change, source); // TOML's own dotted keys
    } catch (const UsageError&) {
        throw UsageError(
            fmt::format("{}: the value is not TOML; give a number, true, false or \"text\"", source));
    }
    merge(recipe, given);
}

} // namespace

Recipe parse_recipe(const std::string& name, const std::string& text, const std::string& source,
                    const std::vector<std::string>& changes) {
    Value value = parse_toml(text, source);
    for (const std::string& change : changes) apply(value, change);
    Attributes file(value, source, "the recipe");
    Recipe recipe{.name = name, .text = text};
    file.text("description", "none");
    recipe.model = read_model(file);
    recipe.model.name = name;
    recipe.pipeline = read_pipeline(file.table("pipeline"));
    recipe.optimizer = read_optimizer(file.table("optimizer"));
    recipe.schedule = read_schedule(file.table("schedule"));
    if (file.has("averages")) {
        Attributes averages = file.table("averages");
        recipe.average_decay = averages.number("decay", 0, 1);
        recipe.average_warm_up = averages.flag("warm_up", false);
        averages.done();
    }
    Attributes training = file.table("training");
    recipe.batch = unsigned(training.whole("batch", 1, 1 << 20));
    recipe.steps = std::uint64_t(training.whole("steps", 1, std::int64_t(1) << 53));
    training.done();
    file.done();
    return recipe;
}

StateLayout layout_of(const Recipe& recipe) {
    return layout_state(recipe.model, *recipe.optimizer, recipe.average_decay.has_value());
}

void check_data(const Recipe& recipe, const Dataset& data) {
    const Model& model = recipe.model;
    const unsigned classes = model.classes - model.label_offset;
    if (data.classes.size() > classes)
        throw InputError(fmt::format(
            "the data set {} has {} classes, but recipe {} tells only {} apart; choose other --data or "
            "another recipe",
            data.name, data.classes.size(), recipe.name, classes));
    if (data.channels != model.input.channels)
        throw InputError(fmt::format(
            "the data set {} has {} values per pixel, but recipe {} takes {}; choose other --data or "
            "another recipe",
            data.name, data.channels, recipe.name, model.input.channels));
    if (data.height < model.input.height || data.width < model.input.width)
        throw InputError(fmt::format(
            "the data set {} has images of {}x{}, but recipe {} crops them to {}x{}; choose other --data "
            "or another recipe",
            data.name, data.height, data.width, recipe.name, model.input.height, model.input.width));
}

double average_decay_at(const Recipe& recipe, std::uint64_t n) {
    const double decay = recipe.average_decay.value_or(0);
    return recipe.average_warm_up ? std::min(decay, (1.0 + double(n)) / (10.0 + double(n))) : decay;
}

} // namespace towers
