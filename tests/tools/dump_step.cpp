// Trains a few steps and writes what they computed, for comparison with other programs.
//
// Usage: dump_step --variables RECIPE
//        dump_step --logits RECIPE INIT RECORDS DEVICE OUTPUT
//        dump_step RECIPE INIT RECORDS DEVICES STEPS OUTPUT [--shares 3:1] [--set TABLE.KEY=VALUE]...
// The first prints the names of the variables, statistics included, in the order of the network's layers. The
// second writes the logits [N, classes] of an evaluation.
//   RECIPE    name or TOML file
//   INIT      safetensors: the variables before the first step; statistics may be absent
//   RECORDS   safetensors: images [N, channels, height, width] of whole numbers 0..255, labels [N]. Step 1
//   takes
//             the first N / STEPS of them, and so on; nothing is shuffled or distorted
//   DEVICES   ids of the towers, `cpu,vulkan:0`
//   OUTPUT    safetensors: losses [STEPS] and cross_entropies [STEPS], each of the variables before the step;
//             gradient/V for each trained variable, step 1; value/V for each statistic, step 1;
//             final/S for each piece of the state after the last step
// Exit codes: 0, 1.

#include "backends/backend.h"
#include "backends/error.h"
#include "engine/data/source.h"
#include "engine/execution/session.h"
#include "engine/inference/evaluation.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/run/safetensors.h"
#include "engine/shares/selection.h"
#include "engine/shares/shares.h"
#include "engine/train/initial.h"
#include "engine/train/trainer.h"

#include <cstdio>
#include <fmt/format.h>

namespace towers {
namespace {

struct Arguments {
    std::string recipe, init, records, devices, steps, output, shares;
    std::vector<std::string> changes;
};

Arguments read_arguments(const std::vector<std::string>& words) {
    Arguments arguments;
    std::vector<std::string> positional;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (!words[i].starts_with("--"))
            positional.push_back(words[i]);
        else if (i + 1 < words.size() && words[i] == "--shares")
            arguments.shares = words[++i];
        else if (i + 1 < words.size() && words[i] == "--set")
            arguments.changes.push_back(words[++i]);
        else
            throw UsageError("dump_step: unknown " + words[i]);
    }
    if (positional.size() != 6)
        throw UsageError("usage: dump_step RECIPE INIT RECORDS DEVICES STEPS OUTPUT [--shares 3:1] "
                         "[--set TABLE.KEY=VALUE]...");
    arguments.recipe = positional[0];
    arguments.init = positional[1];
    arguments.records = positional[2];
    arguments.devices = positional[3];
    arguments.steps = positional[4];
    arguments.output = positional[5];
    return arguments;
}

Dataset read_records(const std::string& path, const Model& model) {
    const TensorFile file = read_safetensors(path);
    const Tensor &images = file.tensors.at("images"), &labels = file.tensors.at("labels");
    if (images.shape.size() != 4 || labels.values.size() != images.shape[0])
        throw InputError(path + ": needs images [N, channels, height, width] and labels [N]");
    const ImageSize size{unsigned(images.shape[2]), unsigned(images.shape[3]), unsigned(images.shape[1])};
    return {{path, std::vector<std::string>(model.classes - model.label_offset, "any"), size},
            {images.values.begin(), images.values.end()},
            {labels.values.begin(), labels.values.end()}};
}

Tensor slice(const std::vector<float>& arena, const ArenaRange& range, const Variable& variable) {
    const std::span<const float> values = part(std::span(arena), range);
    return {variable.shape, {values.begin(), values.end()}};
}

void dump(const Arguments& arguments) {
    const Recipe recipe = find_recipe(arguments.recipe, arguments.changes);
    const Dataset data = read_records(arguments.records, recipe.model);
    const unsigned steps = unsigned(std::stoul(arguments.steps));
    TrainerOptions options{.towers = split_towers(arguments.devices),
                           .global_batch = unsigned(data.size()) / steps,
                           .shares = {},
                           .learning_rate = recipe.optimizer->learning_rate,
                           .seed = 1,
                           .distort = false,
                           .shuffle = false,
                           .quirks = {},
                           .open = {}};
    if (!arguments.shares.empty()) options.shares.weights = parse_shares(arguments.shares);
    Trainer trainer(recipe, options, data);
    const StateLayout& layout = trainer.layout();
    trainer.load(read_initial(arguments.init, recipe.model, layout, options.seed).state);

    TensorFile out;
    Tensor losses{{steps}, {}}, cross_entropies{{steps}, {}};
    for (unsigned step = 0; step < steps; ++step) {
        const StepReport report = trainer.step();
        losses.values.push_back(report.loss);
        cross_entropies.values.push_back(report.cross_entropy);
        if (step != 0) continue;
        const std::vector<float> gradients = trainer.gradients();
        for (const VariableSlot& slot : layout.variables) {
            const bool trained = slot.variable.role == Role::trained;
            out.tensors[(trained ? "gradient/" : "value/") + slot.variable.name] =
                slice(gradients, slot.range, slot.variable);
        }
    }
    const TrainingState state = trainer.save();
    for (const StateSlot& slot : layout.slots())
        out.tensors["final/" + slot.name] = slice(state.state, slot.range, *slot.variable);
    out.tensors["losses"] = losses;
    out.tensors["cross_entropies"] = cross_entropies;
    write_safetensors(arguments.output, out);
}

void dump_logits(const std::vector<std::string>& words) {
    if (words.size() != 5) throw UsageError("usage: dump_step --logits RECIPE INIT RECORDS DEVICE OUTPUT");
    const Recipe recipe = find_recipe(words[0]);
    const StateLayout layout = layout_of(recipe);
    const TrainingState state = read_initial(words[1], recipe.model, layout, 1).state;
    const Dataset data = read_records(words[2], recipe.model);
    const auto device = open_device(words[3], {});
    const Plan plan =
        evaluation_plan(recipe, data.image_size(), data.size(), unsigned(data.size()), device->info());
    Session session(*device);
    session.hold(plan.bytes());
    session.load(data);
    session.upload(Arena::state, std::span(state.state).first(plan.bytes(Arena::state) / sizeof(float)));
    std::vector<Example> examples;
    for (std::uint32_t i = 0; i < data.size(); ++i) examples.push_back({.record = i});
    ResidentFeed(data).bring(examples);
    session.write(examples);
    session.run(session.record(plan));
    const PlannedTensor& staged = plan.find("staged_logits");
    const std::span<const float> logits = session.host<float>(staged);
    TensorFile out;
    out.tensors["logits"] = {staged.shape, {logits.begin(), logits.end()}};
    write_safetensors(words[4], out);
}

} // namespace
} // namespace towers

int main(int count, char** words) {
    try {
        const std::vector<std::string> arguments(words + 1, words + count);
        if (arguments.size() == 2 && arguments[0] == "--variables") {
            for (const towers::Variable& variable : towers::find_recipe(arguments[1]).model.variables())
                std::puts(variable.name.c_str());
            return 0;
        }
        if (!arguments.empty() && arguments[0] == "--logits") {
            towers::dump_logits({arguments.begin() + 1, arguments.end()});
            return 0;
        }
        towers::dump(towers::read_arguments(arguments));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
