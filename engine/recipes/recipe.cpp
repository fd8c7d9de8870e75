#include "engine/recipes/recipe.h"

#include "backends/checksum.h"
#include "engine/data/converted.h"
#include "engine/data/formats.h"
#include "engine/error.h"
#include "engine/files/file.h"
#include "engine/files/text.h"
#include "engine/model/read_model.h"
#include "engine/nearest.h"
#include "engine/recipes/recipes.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <spdlog/spdlog.h>
#include <sstream>
#include <utility>

namespace towers {
namespace {

constexpr std::pair<const char*, bool Quirks::*> quirk_names[] = {
    {"last-tower-loss", &Quirks::last_tower_loss},     {"step-schedule", &Quirks::step_schedule},
    {"unordered-average", &Quirks::unordered_average}, {"delete-run", &Quirks::delete_run},
    {"padded-evaluation", &Quirks::padded_evaluation}, {"divided-batch-time", &Quirks::divided_batch_time},
};

/// 32x32, or 20x30 to 300x400
std::string sizes_of(const PictureRange& pictures) {
    const auto& [least, most] = pictures;
    const std::string smallest = fmt::format("{}x{}", least.height, least.width);
    return least == most ? smallest : fmt::format("{} to {}x{}", smallest, most.height, most.width);
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
                                         word,
                                         listed(quirk_names, [](const auto& each) { return each.first; })));
    }
    return quirks;
}

bool is_recipe_file(const std::string& name) {
    return name.ends_with(".toml") || name.find('/') != std::string::npos;
}

std::string recipe_name(const std::string& name) {
    return is_recipe_file(name) ? as_utf8(std::filesystem::path(name).stem().string()) : name;
}

RecipeFile find_recipe_file(const std::string& name) {
    if (is_recipe_file(name)) {
        try {
            return {read_file(name), name};
        } catch (const InputError& error) {
            throw UsageError(error.what());
        }
    }
    const auto& all = builtin_recipes();
    const auto found = std::ranges::find(all, name, &BuiltinRecipe::name);
    if (found != all.end()) return {found->text, name + ".toml"};
    std::vector<std::string> names;
    for (const BuiltinRecipe& each : all) names.emplace_back(each.name);
    const std::string meant = nearest(name, names);
    throw UsageError(
        fmt::format("recipe '{}': there is no such recipe{}; choose from {}, or name a file that ends in "
                    ".toml",
                    name, meant.empty() ? "" : fmt::format(", but there is '{}'", meant),
                    listed(all, &BuiltinRecipe::name)));
}

Recipe find_recipe(const std::string& name, const std::vector<std::string>& changes) {
    const RecipeFile file = find_recipe_file(name);
    return parse_recipe(recipe_name(name), file.text, file.source, changes);
}

std::string with_changes(const std::string& name, const std::vector<std::string>& changes) {
    std::string text = name;
    for (const std::string& change : changes) text += ' ' + change;
    return text;
}

Recipe read_recipe(const std::string& name, const std::filesystem::path& file) {
    return parse_recipe(name, read_file(file), file.string());
}

namespace {

/// Merges the second table into the first, recursively.
void merge(Value& into, const Value& from) {
    for (const auto& [key, value] : *from.as<Value::Table>()) {
        auto* const table = into.as<Value::Table>();
        const auto entry = std::ranges::lower_bound(*table, key, {}, &Value::Entry::first);
        if (entry == table->end() || entry->first != key)
            table->emplace(entry, key, value);
        else if (value.as<Value::Table>() != nullptr && entry->second.as<Value::Table>() != nullptr)
            merge(entry->second, value);
        else if (entry->second.text() != value.text()) // an equal value keeps its line in the file
            entry->second = value;
    }
}

void set_lines(Value& value, unsigned line) {
    value.line = line;
    if (auto* table = value.as<Value::Table>())
        for (auto& [key, each] : *table) set_lines(each, line);
    if (auto* array = value.as<Value::Array>())
        for (Value& each : *array) set_lines(each, line);
}

/// Puts quotes around a value that is a single word, since a shell removes those that the user types.
std::string with_quotes(const std::string& change, std::size_t equals) {
    const std::string value = change.substr(equals + 1);
    const auto in_word = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
    if (value.empty() || !std::isalpha(static_cast<unsigned char>(value[0])) ||
        !std::ranges::all_of(value, in_word) || value == "true" || value == "false" || value == "inf" ||
        value == "nan")
        return change;
    return change.substr(0, equals + 1) + '"' + value + '"';
}

/// Removes the key that `path` names: nested tables with one key each.
void take_out(Value& recipe, const Value& path, const std::string& change) {
    const Value::Entry& step = path.as<Value::Table>()->front();
    Value::Table none;
    Value::Table& table = recipe.as<Value::Table>() != nullptr ? *recipe.as<Value::Table>() : none;
    const auto entry = std::ranges::find(table, step.first, &Value::Entry::first);
    if (entry == table.end()) {
        const std::string keys = listed(table, &Value::Entry::first);
        throw UsageError(fmt::format("--set '{}': there is no '{}' to take out; there is {}", change,
                                     step.first, keys.empty() ? "nothing" : keys));
    }
    if (step.second.as<Value::Table>() != nullptr)
        take_out(entry->second, step.second, change);
    else
        table.erase(entry);
}

/// Applies `change`, table.key=value: sets the key, or removes it if there is no value.
void apply(Value& recipe, const std::string& change) {
    const std::size_t equals = change.find('=');
    const std::size_t dot = change.find('.');
    const bool takes_out =
        equals != std::string::npos && change.find_first_not_of(' ', equals + 1) == std::string::npos;
    if (equals == std::string::npos || equals == 0 ||
        (!takes_out && (dot == std::string::npos || dot > equals)))
        throw UsageError(
            fmt::format("--set '{}': give TABLE.KEY=VALUE, such as optimizer.learning_rate=0.05, or "
                        "KEY= to take a key out",
                        change));
    constexpr std::size_t longest = 100; // of a text in a message
    const std::string shown = change.size() > longest ? change.substr(0, longest) + "..." : change;
    const std::string source = "--set '" + as_utf8(shown) + "'";
    Value given;
    try { // TOML reads the dotted key
        given =
            parse_toml(takes_out ? change.substr(0, equals + 1) + "0" : with_quotes(change, equals), source);
    } catch (const UsageError& error) {
        std::string reason = error.what(); // after the source and the line
        reason.erase(0, reason.find(": ", source.size()) + 2);
        throw UsageError(fmt::format("{}: cannot be read as TOML ({}); give {}", source, reason,
                                     takes_out ? "a key such as optimizer.momentum"
                                               : "a number, true, false, a word or \"text\""));
    }
    if (takes_out) return take_out(recipe, given, change);
    set_lines(given, 0);
    merge(recipe, given);
}

/// Removes the keys that kinds given by --set lack. Returns a note for each table.
std::vector<std::string> drop(Value& recipe, const std::vector<DroppedKey>& dropped,
                              const std::string& source) {
    std::map<std::string, std::string> keys; // by table
    for (const DroppedKey& each : dropped) {
        auto* const top = recipe.as<Value::Table>();
        Value& table = std::ranges::find(*top, each.table, &Value::Entry::first)->second;
        std::erase_if(*table.as<Value::Table>(), [&](const auto& entry) { return entry.first == each.key; });
        std::string& list = keys[each.table];
        list += (list.empty() ? "" : ", ") + each.key;
    }
    std::vector<std::string> notes;
    for (const auto& [table, list] : keys)
        notes.push_back(fmt::format("{}: [{}] of kind {} does not know {}: left out", place_of(source, 0),
                                    table, recipe.find(table)->find("kind")->text(), list));
    return notes;
}

/// Refuses what not even images of the network's own size would fit.
void check_pipeline(Attributes pipeline, const Recipe& recipe) {
    const ImageSize stored = stored_size(recipe);
    for (const auto& [name, augmentation] :
         {std::pair("train", &recipe.pipeline.training), {"evaluate", &recipe.pipeline.evaluation}})
        if (const auto problem = find_problem(*augmentation, stored, recipe.model.input))
            pipeline.table(name).fail(problem->setting, problem->what);
}

/// Why images stored like this do not fit the recipe; or nothing.
std::string find_problem(const Recipe& recipe, const ImageSize& stored) {
    const Shape& input = recipe.model.input;
    if (stored.channels != input.channels)
        return fmt::format("has {} values per pixel, but recipe {} takes {}", stored.channels, recipe.name,
                           input.channels);
    if (recipe.pipeline.tutorial)
        return stored.height >= input.height && stored.width >= input.width
                   ? ""
                   : fmt::format("has images of {}x{}, but recipe {} crops them to {}x{}", stored.height,
                                 stored.width, recipe.name, input.height, input.width);
    for (const Augmentation* each : {&recipe.pipeline.training, &recipe.pipeline.evaluation})
        if (const auto problem = find_problem(*each, stored, input))
            return fmt::format("does not fit the pipeline of recipe {}: '{}' {}", recipe.name,
                               problem->setting, problem->what);
    return "";
}

} // namespace

Recipe parse_recipe(const std::string& name, const std::string& text, const std::string& source,
                    const std::vector<std::string>& changes) {
    Value value = parse_toml(text, source);
    for (const std::string& change : changes) apply(value, change);
    std::vector<DroppedKey> dropped;
    Attributes file(value, source, "the recipe", &dropped);
    Recipe recipe{.name = name, .description = file.text("description", "no description"), .source = source};
    // Comes first, because a misspelt table would seem to be missing.
    for (const char* key : {"description", "input", "network", "blocks", "defaults", "loss", "pipeline",
                            "optimizer", "schedule", "averages", "training"})
        file.find(key);
    file.done();
    recipe.model = read_model(file);
    recipe.pipeline = read_pipeline(file.table("pipeline"));
    check_pipeline(file.table("pipeline"), recipe);
    recipe.optimizer = read_optimizer(file.table("optimizer"));
    recipe.schedule = read_schedule(file.table("schedule"));
    if (file.has("averages")) {
        Attributes averages = file.table("averages");
        recipe.average_warm_up = averages.flag("warm_up", false);
        recipe.average_decay = averages.number("decay", 0, recipe.average_warm_up ? 1 : below_one);
        averages.done();
    }
    Attributes training = file.table("training");
    recipe.batch = unsigned(training.whole("batch", 1, most_batch));
    if (recipe.batch % recipe.model.group() != 0)
        training.fail("batch", fmt::format("is {}, but batch norm takes groups of {} examples; give a whole "
                                           "number of groups",
                                           recipe.batch, recipe.model.group()));
    recipe.steps = std::uint64_t(training.whole("steps", 1, std::int64_t(1) << 53));
    training.done();
    recipe.notes = drop(value, dropped, source);
    const std::string canonical = write_toml(value);
    recipe.text = changes.empty() ? text : canonical;
    recipe.checksum = fnv1a(canonical);
    return recipe;
}

StateLayout layout_of(const Recipe& recipe) {
    const Optimizer& optimizer = *recipe.optimizer;
    std::vector<Variable> variables = recipe.model.variables();
    std::ranges::stable_sort(variables, [](const Variable& a, const Variable& b) {
        if (a.frozen != b.frozen) return b.frozen;    // what stays as it is comes last
        if (a.role != b.role) return a.role < b.role; // trained variables first
        return a.node > b.node;
    });
    StateLayout layout;
    for (Variable& variable : variables) {
        const std::size_t bytes = variable.elements() * sizeof(float);
        const bool learns = variable.learns(), frozen = variable.frozen;
        const float decay =
            frozen ? 0.0f
                   : variable.weight_decay.value_or(
                         learns && (variable.decays || optimizer.decays_all) ? optimizer.weight_decay : 0.0f);
        layout.variables.push_back({std::move(variable), {layout.variable_bytes, bytes}, decay});
        layout.variable_bytes += aligned(bytes);
        if (learns) layout.trained_bytes = layout.variable_bytes;
        if (!frozen) layout.updated_bytes = layout.variable_bytes;
    }
    add_section(layout, Role::trained, "", 0);
    for (const Optimizer::State& state : optimizer.state())
        add_section(layout, Role::optimizer, '/' + state.name, state.initial);
    if (recipe.average_decay) add_section(layout, Role::average, "/ExponentialMovingAverage", 0);
    return layout;
}

void check_classes(const Recipe& recipe, const DataInfo& data, const std::string& place) {
    const unsigned classes = recipe.model.classes - recipe.model.label_offset;
    if (data.classes.size() > classes)
        throw InputError(fmt::format(
            "{} has {} classes, but recipe {} tells only {} apart; choose other --data, or train with --set "
            "input.classes={}",
            as_printable(place.empty() ? data.name : place), data.classes.size(), recipe.name, classes,
            data.classes.size() + recipe.model.label_offset));
}

void check_data(const Recipe& recipe, const DataInfo& data, const std::string& place) {
    check_classes(recipe, data, place);
    if (const std::string problem = find_problem(recipe, data.image); !problem.empty())
        throw InputError(fmt::format("{} {}; choose other --data or another recipe",
                                     as_printable(place.empty() ? data.name : place), problem));
}

std::unique_ptr<DataSource> open_data_for(const Recipe& recipe, DataRequest request) {
    request.image = stored_size(recipe);
    std::unique_ptr<DataSource> data = open_data(request);
    check_classes(recipe, data->info(), request.source);
    const ImageSize stored = data->image_size();
    const char* const split = request.split == Split::train ? "training" : "test";
    if (const auto pictures = data->info().pictures)
        spdlog::info("{}: {} {} pictures of {} become images of {}x{}x{} for {}",
                     as_printable(request.source), data->size(), split, sizes_of(*pictures), stored.height,
                     stored.width, stored.channels, recipe.name);
    const ImageSize wanted = taken_size(recipe, stored);
    if (wanted != stored) {
        spdlog::info("{}: {} images of {}x{}x{} are converted to {}x{}x{} for {}",
                     as_printable(request.source), split, stored.height, stored.width, stored.channels,
                     wanted.height, wanted.width, wanted.channels, recipe.name);
        data = std::make_unique<ConvertedSource>(std::move(data), wanted);
    }
    check_data(recipe, data->info(), request.source);
    return data;
}

ImageSize taken_size(const Recipe& recipe, const ImageSize& stored) {
    const ImageSize size{stored.height, stored.width, recipe.model.input.channels};
    return find_problem(recipe, size).empty() ? size : stored_size(recipe);
}

ImageSize stored_size(const Recipe& recipe) {
    const Shape& image = recipe.model.input;
    using Box = Augmentation::Box;
    const Augmentation& training = recipe.pipeline.training;
    const Augmentation& evaluation = recipe.pipeline.evaluation;
    // What is cropped is stored larger, so that the network sees as much detail as it can.
    const bool middle = evaluation.box == Box::centre || evaluation.box == Box::centre_fit;
    double fraction = middle ? double(evaluation.fraction) : 1;
    if (training.box == Box::random_area) fraction = std::min(fraction, 0.875); // 224 of 256, the usual
    if (recipe.pipeline.tutorial) fraction = 0.75;                              // 24 of 32
    fraction = std::max(fraction, 0.5);
    const auto side = [&](unsigned length) { return unsigned(std::lround(length / fraction)); };
    return {side(image.height), side(image.width), image.channels};
}

double average_decay_at(const Recipe& recipe, std::uint64_t n) {
    const double decay = recipe.average_decay.value_or(0);
    return recipe.average_warm_up ? std::min(decay, (1.0 + double(n)) / (10.0 + double(n))) : decay;
}

NetworkSpec network_spec(const Recipe& recipe, const StateLayout& layout, NetworkSpec rest) {
    rest.model = &recipe.model;
    rest.layout = &layout;
    rest.pipeline = &recipe.pipeline;
    return rest;
}

UpdateSpec update_spec(const Recipe& recipe, const StateLayout& layout, const Quirks& quirks) {
    return {
        .layout = &layout, .optimizer = recipe.optimizer.get(), .average_first = quirks.unordered_average};
}

StepNumbers numbers_of_update(const Recipe& recipe, double learning_rate, std::uint64_t n) {
    StepNumbers numbers{float(learning_rate), float(average_decay_at(recipe, n))};
    recipe.optimizer->prepare(numbers, n);
    return numbers;
}

} // namespace towers
