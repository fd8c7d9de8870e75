#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/settings.h"
#include "apps/towers/trained_model.h"
#include "backends/error.h"
#include "engine/export/graph.h"
#include "engine/export/onnx.h"
#include "engine/export/torch.h"
#include "engine/files/output.h"
#include "engine/files/text.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace towers {
namespace {

struct ExportFlags {
    std::string model, onnx, torch, recipe, picture_size, threshold;
    std::vector<std::string> set;
    bool raw = false, prepared = false;
};

/// HEIGHTxWIDTH
std::array<unsigned, 2> parse_size(const std::string& text) {
    std::array<unsigned, 2> size{};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (const std::size_t axis : {0, 1}) {
        const auto [rest, error] = std::from_chars(at, end, size[axis]);
        const bool complete = axis == 0 ? rest != end && *rest == 'x' : rest == end;
        if (error != std::errc{} || !complete || size[axis] == 0)
            throw UsageError(
                fmt::format("--picture-size '{}': give HEIGHTxWIDTH in pixels, such as 32x32", text));
        at = rest + (axis == 0 ? 1 : 0);
    }
    return size;
}

int run_export(const ExportFlags& flags) {
    check_model(flags.model, "export");
    if (flags.onnx.empty() && flags.torch.empty())
        throw UsageError("give --onnx FILE or --torch FILE.py to say what to write");
    for (const std::string& file : {flags.onnx, flags.torch})
        if (!file.empty()) check_output(file);
    const auto normal = [](const std::string& file) {
        return std::filesystem::path(file).lexically_normal();
    };
    if (!flags.onnx.empty() && flags.onnx != "/dev/null" && normal(flags.onnx) == normal(flags.torch))
        throw UsageError(fmt::format("--onnx and --torch are both {}; give two files", flags.onnx));
    PictureSize pictures{.prepared = flags.prepared};
    if (!flags.picture_size.empty()) pictures.size = parse_size(flags.picture_size);
    if (flags.prepared && pictures.size) throw UsageError("--picture-size and --prepared: give one of them");
    const FoundCheckpoint found = read_model(flags.model);
    const TrainSettings settings = settings_of_checkpoint(found, flags.model, flags.recipe, flags.set);
    const Recipe recipe =
        recipe_of_checkpoint(settings, found.path, !flags.recipe.empty() || !flags.set.empty());
    check_recipe(found.file, recipe, found.path);
    if (!flags.threshold.empty()) check_threshold(recipe);
    const StateLayout layout = layout_of(recipe);
    const TrainingState state = from_checkpoint(found.file, layout, found.path);
    const bool averaged = !flags.raw && layout.averages() != nullptr;
    const std::span<const float> variables =
        part(std::span(state.state), averaged ? layout.averages()->range : layout.all_variables());
    if (!std::ranges::all_of(variables, [](float value) { return std::isfinite(value); }))
        throw InputError(
            fmt::format("{}: has infinite numbers or NaN, because the training has diverged; export "
                        "an earlier checkpoint",
                        found.path.string()));
    InferenceGraph graph = inference_graph(recipe, layout, variables, pictures);
    const char* const which = averaged ? "moving averages of the variables" : "the variables themselves";
    graph.facts = {{"recipe", recipe.name}, {"step", std::to_string(state.step)}, {"variables", which}};
    const TrainedOn data = checkpoint_data(found.file, found.path).value_or(TrainedOn{});
    const std::vector<std::string> names = class_names(recipe.model, data.classes);
    if (!data.classes.empty()) graph.facts.emplace_back("classes", nlohmann::json(names).dump());
    graph.facts.emplace_back("loss", tells_labels(recipe) ? "sigmoid" : "softmax");
    if (tells_labels(recipe)) {
        graph.thresholds = network_thresholds(flags.threshold, recipe.model, names, data.classes);
        graph.facts.emplace_back("thresholds", nlohmann::json(graph.thresholds).dump());
    }

    std::FILE* const text = text_stream({flags.onnx, flags.torch});
    const auto [height, width, channels] = graph.preparation.picture;
    const std::string taken = fmt::format("takes pictures of {}x{}x{}, 0 to 255", height, width, channels);
    if (!flags.onnx.empty()) {
        export_onnx(graph, flags.onnx, TOWERS_VERSION);
        fmt::print(text, "wrote {}: {}, step {}, {}; {}\n", flags.onnx, recipe.name, state.step, which,
                   taken);
    }
    if (!flags.torch.empty()) {
        write_output(flags.torch,
                     torch_source(graph, !flags.raw, as_utf8(found.path.string()), TOWERS_VERSION));
        fmt::print(text, "wrote {}: {} as a PyTorch module, which reads {}; {}\n", flags.torch, recipe.name,
                   found.path.string(), taken);
    }
    return 0;
}

} // namespace

void add_export(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand(
        "export", "Write a trained network for other programs: as an ONNX model, or as a PyTorch module");
    const auto flags = std::make_shared<ExportFlags>();
    add_model(*command, flags->model,
              "A run's folder, whose latest checkpoint is exported, or a checkpoint file");
    command->add_option("--onnx", flags->onnx, "Write an ONNX model to this file");
    command->add_option("--torch", flags->torch,
                        "Write the source of a PyTorch module, which reads the checkpoint, to this file");
    command->add_flag("--raw", flags->raw,
                      "Export the variables themselves instead of their moving averages");
    command
        ->add_option("--picture-size", flags->picture_size,
                     "Size of the pictures that the model takes, to crop and resize as evaluation does "
                     "(default: the size at which the recipe has pictures stored)")
        ->type_name("HEIGHTxWIDTH");
    command->add_flag("--prepared", flags->prepared,
                      "The model takes pictures of the network's own size, already cropped and resized");
    add_threshold(*command, flags->threshold);
    command->add_option("--recipe", flags->recipe,
                        "Recipe of the checkpoint: a TOML file, or a built-in one's name (default: the one "
                        "that its run keeps, else the one that it names)");
    add_set(*command, flags->set);
    command->callback([flags, &chosen] { chosen = [flags] { return run_export(*flags); }; });
}

} // namespace towers
