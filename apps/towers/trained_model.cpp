#include "apps/towers/trained_model.h"

#include "apps/towers/common_flags.h"
#include "engine/error.h"
#include "engine/files/text.h"
#include "engine/run/run_directory.h"

#include <algorithm>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace towers {

CLI::Option* add_model(CLI::App& command, std::string& model, const std::string& help) {
    return command.add_option("model,--run,--checkpoint", model, help)->type_name("RUN|CHECKPOINT");
}

void check_model(const std::string& model) {
    if (model.empty()) throw UsageError("give the model: the folder of a run, or a checkpoint file");
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
    else if (is_run(model) && std::filesystem::exists(config))
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

void warn_of_other_classes(const std::vector<std::string>& of_data, const std::vector<std::string>& trained,
                           const std::string& checkpoint) {
    const std::size_t common = std::min(of_data.size(), trained.size());
    for (std::size_t i = 0; i < common; ++i)
        if (of_data[i] != trained[i]) {
            spdlog::warn("class {} of the data is '{}', but {} was trained with '{}' for it; are these the "
                         "right data?",
                         i, as_printable(of_data[i]), as_printable(checkpoint), as_printable(trained[i]));
            return;
        }
}

std::vector<std::string> class_names(const Model& model, const std::vector<std::string>& of_data) {
    std::vector<std::string> names(model.label_offset, "background");
    for (std::size_t i = 0; i + model.label_offset < model.classes; ++i)
        names.push_back(i < of_data.size() ? of_data[i] : fmt::format("class {}", i));
    return names;
}

} // namespace towers
