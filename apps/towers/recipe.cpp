#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/flags.h"
#include "engine/plural.h"
#include "engine/recipes/recipes.h"
#include "engine/train/describe.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <optional>

namespace towers {
namespace {

struct RecipeFlags {
    std::string name;
    std::vector<std::string> set;
    std::optional<unsigned> batch;
    bool variables = false;
};

int list() {
    std::size_t width = 0;
    for (const BuiltinRecipe& each : builtin_recipes())
        width = std::max(width, std::string_view(each.name).size());
    for (const BuiltinRecipe& each : builtin_recipes())
        fmt::print("{:<{}}  {}\n", each.name, width, find_recipe(each.name).description);
    return 0;
}

int show(const RecipeFlags& flags) {
    const std::string text = find_recipe_file(flags.name).text;
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
}

int check(const RecipeFlags& flags) {
    const Recipe recipe = recipe_with(flags.name, flags.set);
    std::size_t parameters = 0;
    for (const LayerDescription& layer : describe_layers(recipe.model)) parameters += layer.parameters;
    memory_of_step(recipe, recipe.batch); // checks its pipeline and batch
    fmt::print("{} is sound: {} layers, {} parameters\n", recipe.source, recipe.model.nodes.size(),
               parameters);
    return 0;
}

std::string mflop(double flop) { return fmt::format("{:.1f}", flop / 1e6); }

void print_layers(const Recipe& recipe) {
    const std::vector<LayerDescription> layers = describe_layers(recipe.model);
    std::size_t name = 5, kind = 4;
    for (const LayerDescription& layer : layers) {
        name = std::max(name, layer.name.size());
        kind = std::max(kind, layer.kind.size());
    }
    const auto row = [&](const auto& first, const auto& second, const auto& third, const auto& fourth,
                         const std::string& fifth, const std::string& sixth, const std::string& seventh) {
        fmt::print("{:<{}}  {:<{}}  {:>13}  {:>11}  {:>13}  {:>14}{}{}\n", first, name, second, kind, third,
                   fourth, fifth, sixth, seventh.empty() ? "" : "  ", seventh);
    };
    row("layer", "kind", "output", "parameters", "forward MFLOP", "backward MFLOP", "attributes");
    std::size_t parameters = 0;
    double forward = 0, backward = 0;
    for (const LayerDescription& layer : layers) {
        const Shape& out = layer.output;
        row(layer.name, layer.kind, fmt::format("{}x{}x{}", out.height, out.width, out.channels),
            layer.parameters, mflop(layer.forward_flop), mflop(layer.backward_flop), layer.attributes);
        parameters += layer.parameters;
        forward += layer.forward_flop;
        backward += layer.backward_flop;
    }
    row("all", "", "", parameters, mflop(forward), mflop(backward), "");
    fmt::print("forward and backward {} MFLOP an example\n", mflop(forward + backward));
}

const char* name_of(Role role) {
    switch (role) {
    case Role::trained:
        return "trained";
    case Role::statistic:
        return "statistic";
    case Role::optimizer:
        return "optimizer";
    case Role::average:
        return "average";
    }
    return "";
}

void print_variables(const Recipe& recipe) {
    const std::vector<VariableDescription> variables = describe_variables(recipe);
    const auto shape_of = [](const VariableDescription& variable) {
        return fmt::format("{}", fmt::join(variable.shape, "x"));
    };
    std::size_t name = 8, shape = 5, axes = 4, numbers = 0;
    for (const VariableDescription& variable : variables) {
        name = std::max(name, variable.name.size());
        shape = std::max(shape, shape_of(variable).size());
        axes = std::max(axes, variable.axes.size());
    }
    const auto row = [&](const std::string& first, const std::string& second, const std::string& third,
                         const std::string& fourth) {
        fmt::print("{:<{}}  {:<{}}  {:<{}}  {}\n", first, name, second, shape, third, axes, fourth);
    };
    row("variable", "shape", "axes", "role");
    for (const VariableDescription& variable : variables) {
        row(variable.name, shape_of(variable), variable.axes, name_of(variable.role));
        std::size_t elements = 1;
        for (const std::size_t size : variable.shape) elements *= size;
        numbers += elements;
    }
    fmt::print("{} variables, {} numbers\n", variables.size(), numbers);
}

std::string describe_mixing(const Mixing& mixing) {
    std::string ways;
    if (mixing.mixup > 0) ways = fmt::format("mixup (alpha {:g})", mixing.mixup);
    if (mixing.cutmix > 0)
        ways += fmt::format("{}CutMix (alpha {:g})", ways.empty() ? "" : " or ", mixing.cutmix);
    if (mixing.mixup > 0 && mixing.cutmix > 0)
        ways += fmt::format(", which is {:g} % of them", 100 * mixing.cutmix_probability);
    return fmt::format("{}, drawn for each {}, in {:g} % of them", ways,
                       mixing.by_example ? "example" : "batch", 100 * mixing.probability);
}

/// How the loss and the order of the examples treat classes, where not all alike, and who is mixed.
void print_balance(const Recipe& recipe) {
    const Model& model = recipe.model;
    for (const LossHead& head : model.heads) {
        if (!head.is_weighted()) continue;
        const bool is_softmax = head.kind == LossKind::softmax;
        const char* const balanced = is_softmax ? "balanced, examples / (classes * examples of the class)"
                                                : "balanced, examples without the class / with it";
        const bool is_balanced = std::holds_alternative<BalancedClasses>(head.class_weights);
        fmt::print("the loss of {} has {} weights: {}\n", model.nodes[std::size_t(head.node)].name,
                   is_softmax ? "class" : "positive", is_balanced ? balanced : "the recipe's");
    }
    if (recipe.sampling == Sampling::balanced) fmt::print("training takes each class equally often\n");
    if (recipe.mixing.mixes()) fmt::print("training mixes images: {}\n", describe_mixing(recipe.mixing));
}

int describe(const RecipeFlags& flags) {
    const Recipe recipe = recipe_with(flags.name, flags.set);
    const unsigned batch = flags.batch.value_or(recipe.batch);
    const StepMemory memory = memory_of_step(recipe, batch); // refuses what train refuses
    const Shape& in = recipe.model.input;
    fmt::print("{}: {}\n", recipe.name, recipe.description);
    fmt::print("images of {}x{}x{}, {} classes\n\n", in.height, in.width, in.channels, recipe.model.classes);
    if (flags.variables)
        print_variables(recipe);
    else
        print_layers(recipe);
    print_balance(recipe);
    const auto mib = [](std::size_t bytes) { return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20)); };
    fmt::print("\na training step with {} on one tower: {}\n", count_of(batch, "example"),
               mib(memory.total()));
    fmt::print("  state       {:>12}\n", mib(memory.state));
    fmt::print("  gradients   {:>12}\n", mib(memory.gradients));
    fmt::print("  activations {:>12}, with {} of images\n", mib(memory.activations), mib(memory.images));
    if (recipe.precision != Precision::fp32)
        fmt::print("products round their operands to {}, where a device has units for it\n",
                   name_of(recipe.precision));
    return 0;
}

} // namespace

void add_recipe(CLI::App& app, Action& chosen) {
    CLI::App* const command =
        app.add_subcommand("recipe", "List, show, describe and check recipes: the built-in ones and yours");
    command->require_subcommand(1);
    const auto flags = std::make_shared<RecipeFlags>();
    const auto add = [&](const char* name, const char* help, int (*action)(const RecipeFlags&)) {
        CLI::App* const added = command->add_subcommand(name, help);
        added->add_option("recipe", flags->name, "Recipe: a built-in one's name, or a TOML file")->required();
        added->callback([flags, action, &chosen] { chosen = [flags, action] { return action(*flags); }; });
        return added;
    };
    command->add_subcommand("list", "List the built-in recipes")->callback([&chosen] { chosen = list; });
    add("show", "Print a recipe's file, to change it or to learn from it", show);
    CLI::App* const describing = add(
        "describe", "Print each layer's output, parameters and arithmetic, and the memory of a training step",
        describe);
    add_number(*describing, "--batch", flags->batch, "Number of examples in the step (default: the recipe's)",
               1);
    describing->add_flag("--variables", flags->variables,
                         "Instead of the layers: the name, shape and axes of each variable, and of what the "
                         "optimizer and the moving averages keep");
    add_set(*describing, flags->set);
    add_set(*add("check", "Check a recipe without training it", check), flags->set);
}

} // namespace towers
