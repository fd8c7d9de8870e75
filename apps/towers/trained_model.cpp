#include "apps/towers/trained_model.h"

#include "apps/towers/common_flags.h"
#include "engine/error.h"
#include "engine/run/run_directory.h"
#include "engine/train/checkpoint.h"

#include <fmt/format.h>

namespace towers {

TrainSettings settings_of_checkpoint(const TensorFile& file, const std::filesystem::path& path,
                                     const std::string& run, const std::string& recipe,
                                     const std::vector<std::string>& set) {
    TrainSettings settings;
    settings.data.clear();
    const std::filesystem::path config = config_path_in(run);
    if (const auto text = checkpoint_settings(file))
        replace(settings, parse_settings(*text, path.string() + ", settings"));
    else if (!run.empty() && std::filesystem::exists(config))
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

void read_latest(const std::string& run, const std::string& instead,
                 const std::function<void(const std::filesystem::path&)>& read) {
    try {
        read_latest_checkpoint(run, read);
    } catch (const InputError& error) {
        const auto sound = newest_sound_checkpoint(run);
        if (!sound) throw;
        throw InputError(fmt::format(
            "{}; {}", error.what(), fmt::format(fmt::runtime(instead), checkpoint_of(run, *sound).string())));
    }
}

std::vector<std::string> class_names(const Model& model, const std::vector<std::string>& of_data) {
    std::vector<std::string> names(model.label_offset, "background");
    for (std::size_t i = 0; i + model.label_offset < model.classes; ++i)
        names.push_back(i < of_data.size() ? of_data[i] : fmt::format("class {}", i));
    return names;
}

} // namespace towers
