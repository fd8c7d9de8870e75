#include "engine/recipes/recipe.h"

#include "backends/checksum.h"
#include "backends/files/file.h"
#include "engine/model/read_model.h"
#include "engine/recipes/changes.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipes.h"

#include <fmt/format.h>
#include <utility>

namespace towers {
namespace {

/// Refuses what not even images of the network's own size would fit.
void check_pipeline(Attributes pipeline, const Recipe& recipe) {
    const ImageSize stored = stored_size(recipe);
    for (const auto& [name, augmentation] :
         {std::pair("train", &recipe.pipeline.training), {"evaluate", &recipe.pipeline.evaluation}})
        if (const auto problem = find_problem(*augmentation, stored, recipe.model.input))
            pipeline.table(name).fail(problem->setting, problem->what);
}

Mixing read_mixing(Attributes table) {
    constexpr double most_alpha = 1000;
    Mixing mixing;
    mixing.mixup = float(table.number("mixup", 0, most_alpha, 0));
    mixing.cutmix = float(table.number("cutmix", 0, most_alpha, 0));
    mixing.probability = float(table.number("probability", 0, 1, 1));
    mixing.cutmix_probability = float(table.number("cutmix_probability", 0, 1, 0.5));
    mixing.by_example = table.choice("draw", {"batch", "example"}, "batch") == "example";
    table.done();
    for (const char* key : {"probability", "cutmix_probability", "draw"})
        if (table.has(key) && !table.has("mixup") && !table.has("cutmix"))
            table.fail(key, "mixes nothing by itself; give 'mixup' or 'cutmix', such as mixup = 0.2");
    return mixing;
}

std::vector<std::string> names_of_precisions() {
    std::vector<std::string> names;
    for (const Precision each : all_precisions) names.emplace_back(name_of(each));
    return names;
}

} // namespace

Recipe parse_recipe(const std::string& name, const std::string& text, const std::string& source,
                    const std::vector<std::string>& changes) {
    Value value = parse_toml(text, source);
    for (const std::string& change : changes) apply_change(value, change);
    std::vector<DroppedKey> dropped;
    Attributes file(value, source, "the recipe", &dropped);
    Recipe recipe{.name = name, .description = file.text("description", "no description"), .source = source};
    // Comes first, because a misspelt table would seem to be missing.
    for (const char* key : {"description", "input", "network", "blocks", "defaults", "loss", "pipeline",
                            "mixing", "optimizer", "schedule", "averages", "training"})
        file.find(key);
    file.done();
    recipe.model = read_model(file);
    recipe.pipeline = read_pipeline(file.table("pipeline"));
    check_pipeline(file.table("pipeline"), recipe);
    recipe.mixing = read_mixing(file.table("mixing"));
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
    recipe.precision = *precision_of(
        training.choice("precision", names_of_precisions(), std::string(name_of(recipe.precision))));
    static constexpr std::pair<const char*, Sampling> samplers[] = {{"uniform", Sampling::uniform},
                                                                    {"balanced", Sampling::balanced}};
    recipe.sampling = training.choice("sampler", samplers, "uniform");
    training.done();
    recipe.notes = drop_keys(value, dropped, source);
    const std::string canonical = write_toml(value);
    recipe.text = changes.empty() ? text : canonical;
    recipe.checksum = fnv1a(canonical);
    return recipe;
}

Recipe find_recipe(const std::string& name, const std::vector<std::string>& changes) {
    const RecipeFile file = find_recipe_file(name);
    return parse_recipe(recipe_name(name), file.text, file.source, changes);
}

Recipe read_recipe(const std::string& name, const std::filesystem::path& file) {
    return parse_recipe(name, read_file(file), file.string());
}

} // namespace towers
