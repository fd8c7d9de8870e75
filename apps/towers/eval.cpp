#include "apps/towers/commands.h"
#include "apps/towers/flags.h"
#include "apps/towers/progress.h"
#include "apps/towers/settings.h"
#include "engine/data/source.h"
#include "engine/error.h"
#include "engine/run/run_directory.h"
#include "engine/towers/selection.h"
#include "engine/train/checkpoint.h"
#include "engine/train/evaluation.h"

#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <thread>

namespace towers {
namespace {

struct EvalFlags {
    std::string run, checkpoint, recipe, data, device, split = "test", quirks;
    unsigned batch = 128, interval = 0;
    bool raw = false;
    OpenOptions open;
};

int run_eval(EvalFlags& flags) {
    if (flags.run.empty() == flags.checkpoint.empty())
        throw UsageError("say what to evaluate with either --run DIR or --checkpoint FILE");
    TrainSettings settings; // of the run, as far as they are known
    if (!flags.run.empty()) {
        const std::filesystem::path kept = std::filesystem::path(flags.run) / "config.toml";
        if (std::filesystem::exists(kept)) read_settings(kept, settings);
    }
    if (!flags.recipe.empty()) settings.recipe = flags.recipe;
    if (!flags.data.empty()) settings.data = flags.data;
    const Recipe recipe = find_recipe(settings.recipe);
    const Quirks quirks = parse_quirks(flags.quirks.empty() ? settings.quirks : flags.quirks);
    check_threads(flags.open.threads);
    if (flags.device.find(',') != std::string::npos)
        throw UsageError(fmt::format("--device {}: give one device", flags.device));
    const std::vector<std::string> devices = select_towers("", flags.device, flags.open);

    std::unique_ptr<Evaluator> evaluator;
    for (std::filesystem::path path;;) {
        std::optional<TensorFile> file; // one that is not evaluated yet
        const auto read = [&](const std::filesystem::path& latest) {
            if (latest != path) file = read_safetensors(latest);
            path = latest;
        };
        if (flags.run.empty())
            read(flags.checkpoint);
        else
            read_latest_checkpoint(flags.run, read);
        if (file) {
            const ParameterLayout layout = layout_parameters(recipe.model);
            const TrainingState state = from_checkpoint(*file, layout, recipe.name, path);
            if (!evaluator) {
                // The drawn shapes are those of the training: its seed is theirs.
                const Dataset data =
                    load_dataset(settings.data, flags.split == "test" ? Split::test : Split::train,
                                 checkpoint_seed(*file, path));
                evaluator = std::make_unique<Evaluator>(open_device(devices[0], flags.open), recipe.model,
                                                        data, flags.batch);
            }
            const Evaluation result =
                evaluator->run(flags.raw ? state.parameters : state.averages, quirks.padded_evaluation);
            fmt::print("{}: precision @ 1 = {:.3f}\n", timestamp(), result.precision());
            fmt::print("{} of {} examples, cross entropy {:.3f}, step {}, {}\n", result.correct,
                       result.examples, result.cross_entropy, state.step,
                       flags.raw ? "the variables themselves" : "moving averages of the variables");
            std::fflush(stdout);
        }
        if (flags.interval == 0) return 0;
        std::this_thread::sleep_for(std::chrono::seconds(flags.interval));
    }
}

} // namespace

void add_eval(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("eval", "Precision @ 1 of a checkpoint");
    const auto flags = std::make_shared<EvalFlags>();
    command->add_option("--run", flags->run,
                        "Evaluate this run's latest checkpoint, on the data that it was trained with");
    command->add_option("--checkpoint", flags->checkpoint, "Evaluate this file");
    command->add_option("--recipe", flags->recipe,
                        "The checkpoint's recipe (default: the run's, else cifar10-tutorial)");
    command->add_option("--data", flags->data,
                        "Folder of CIFAR-10's binary files, or 'shapes' (default: the run's, else shapes)");
    command->add_option("--split", flags->split, "Which examples: test or train")
        ->check(one_of({"test", "train"}))
        ->type_name("test|train")
        ->capture_default_str();
    command->add_flag("--raw", flags->raw, "The variables themselves instead of their moving averages");
    command->add_option("--device", flags->device,
                        "Where to evaluate: cpu, vulkan:0 (default: the best device)");
    add_number(*command, "--batch", flags->batch, "Examples at a time", 1)->capture_default_str();
    add_number(*command, "--interval", flags->interval,
               "Look for a newer checkpoint every so many seconds and evaluate it; 0: once")
        ->capture_default_str();
    add_threads(*command, flags->open.threads);
    command->add_option(
        "--quirks", flags->quirks,
        "padded-evaluation: fill the last batch with repeated images, and count them (default: the "
        "run's, else none)");
    add_validate(*command, flags->open);
    command->callback([flags, &chosen] { chosen = [flags] { return run_eval(*flags); }; });
}

} // namespace towers
