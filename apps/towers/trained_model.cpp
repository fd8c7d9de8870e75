#include "apps/towers/trained_model.h"

#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "backends/error.h"
#include "engine/data/class_labels.h"
#include "engine/files/text.h"
#include "engine/inference/multilabel_report.h"
#include "engine/inference/thresholds.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipes.h"
#include "engine/run/run_directory.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {

void add_model_flags(CLI::App& command, std::string& model) {
    CLI::Option* const run =
        command.add_option("--run", model, "The model's run, for those who prefer a flag")->type_name("RUN");
    command.add_option("--checkpoint", model, "The model's checkpoint file, likewise")
        ->type_name("CHECKPOINT")
        ->excludes(run);
}

void add_model(CLI::App& command, std::string& model, const std::string& help) {
    CLI::Option* const word = command.add_option("model", model, help)->type_name("RUN|CHECKPOINT");
    add_model_flags(command, model);
    for (const char* const flag : {"--run", "--checkpoint"}) command.get_option(flag)->excludes(word);
}

void check_model(const std::string& model, const char* command) {
    if (model.empty())
        throw UsageError(fmt::format(
            "give the model: the folder of a run, or a checkpoint file; see 'towers {} --help'", command));
}

bool is_run(const std::string& model) {
    std::error_code error;
    const auto status = std::filesystem::status(model, error);
    return std::filesystem::is_directory(status) ||
           (!std::filesystem::exists(status) && !model.ends_with(".safetensors"));
}

void read_latest(const std::string& run, const std::function<void(const std::filesystem::path&)>& read) {
    try {
        read_latest_checkpoint(run, read);
    } catch (const InputError& error) {
        const auto sound = newest_sound_checkpoint(run);
        if (!sound) throw;
        throw InputError(
            fmt::format("{}; give {}, which is sound", error.what(), checkpoint_of(run, *sound).string()));
    }
}

FoundCheckpoint read_model(const std::string& model) {
    if (!is_run(model)) return {model, read_safetensors(model)};
    std::error_code unknown; // reading will report it
    if (!std::filesystem::exists(model, unknown) && !unknown)
        throw InputError(fmt::format("there is no run or checkpoint {}; check its name", model));
    FoundCheckpoint found;
    read_latest(model, [&](const std::filesystem::path& path) { found = {path, read_safetensors(path)}; });
    return found;
}

TrainSettings settings_of_checkpoint(const FoundCheckpoint& checkpoint, const std::string& model,
                                     const std::string& recipe, const std::vector<std::string>& set) {
    TrainSettings settings;
    settings.data.clear();
    const std::filesystem::path config = config_path_in(model);
    if (const auto text = checkpoint_settings(checkpoint.file))
        replace(settings, parse_settings(*text, checkpoint.path.string() + ", settings"));
    else if (std::filesystem::exists(config))
        replace(settings, read_settings(config));
    if (!recipe.empty()) {
        settings.recipe = recipe;
        settings.set.clear();
    }
    if (!set.empty()) settings.set = set;
    return settings;
}

Recipe recipe_of_checkpoint(const TrainSettings& settings, const std::filesystem::path& checkpoint,
                            bool chosen) {
    const std::filesystem::path kept = recipe_path_in(checkpoint.parent_path());
    if (!chosen && std::filesystem::exists(kept)) return read_recipe(recipe_name(settings.recipe), kept);
    return recipe_with(settings.recipe, settings.set);
}

std::optional<TrainedOn> trained_on(const TensorFile& file, const std::filesystem::path& path,
                                    const TrainSettings& settings, const Recipe& recipe) {
    if (auto known = checkpoint_data(file, path)) return known;
    if (settings.data.empty() || is_gone(settings.data)) return std::nullopt;
    try {
        const auto data = open_data_for(
            recipe, data_request(settings, Split::train, checkpoint_number(file, "seed", path)));
        return TrainedOn{data->info().classes, data->info().converted_from.value_or(data->image_size())};
    } catch (const InputError&) { // others are there now
        return std::nullopt;
    }
}

std::string other_classes(const std::vector<std::string>& of_data, const std::vector<std::string>& trained,
                          const std::string& checkpoint) {
    const auto own_numbers = numbers_of(of_data), its_numbers = numbers_of(trained);
    const bool by_number = own_numbers && its_numbers;
    if (!by_number && (are_numbers_in_order(of_data) || are_numbers_in_order(trained))) return {};
    for (std::size_t i = 0; i < std::min(of_data.size(), trained.size()); ++i)
        if (by_number ? (*own_numbers)[i] != (*its_numbers)[i] : of_data[i] != trained[i])
            return as_printable(
                fmt::format("class {} of the data is '{}', and {} was trained with '{}' for it", i,
                            of_data[i], checkpoint, trained[i]));
    return {};
}

bool tells_labels(const Recipe& recipe) { return recipe.model.heads[0].kind == LossKind::sigmoid; }

void add_threshold(CLI::App& command, std::string& threshold) {
    command
        .add_option(
            "--threshold", threshold,
            "Of a network whose pictures may have several labels: from which probability on a picture "
            "has a label: one for all classes, or a file that eval --best-thresholds has written "
            "(default: 0.5)")
        ->type_name("0.5|FILE");
}

void check_threshold(const Recipe& recipe, const char* flag) {
    if (!tells_labels(recipe))
        throw UsageError(fmt::format("{}: the loss of {} is a softmax, so that a picture has one "
                                     "class, the most probable; leave it out",
                                     flag, recipe.name));
}

std::vector<double> network_thresholds(const std::string& threshold, const Model& model,
                                       const std::vector<std::string>& names,
                                       const std::vector<std::string>& of_data) {
    const std::vector<double> known = read_thresholds(threshold, of_data.empty() ? names : of_data);
    if (of_data.empty()) return known;
    std::vector<double> all(names.size(), usual_threshold);
    std::ranges::copy(std::span(known).first(std::min(known.size(), all.size() - model.label_offset)),
                      all.begin() + model.label_offset);
    return all;
}

std::vector<std::string> class_names(const Model& model, const std::vector<std::string>& of_data) {
    std::vector<std::string> names(model.label_offset, "background");
    for (std::size_t i = 0; i + model.label_offset < model.classes; ++i)
        names.push_back(i < of_data.size() ? of_data[i] : fmt::format("class {}", i));
    return names;
}

} // namespace towers
