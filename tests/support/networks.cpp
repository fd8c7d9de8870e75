#include "tests/support/networks.h"

#include "engine/recipes/recipes.h"
#include "tests/support/devices.h"
#include "tests/support/two_ranks.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <random>
#include <string_view>
#include <utility>

namespace towers::test {

Recipe small_recipe(const Widths& widths) {
    std::string text =
        std::ranges::find(builtin_recipes(), std::string_view("cifar10-tutorial"),
                          [](const BuiltinRecipe& each) { return std::string_view(each.name); })
            ->text;
    const auto replace = [&](const std::string& layer, const std::string& key, double value) {
        const std::size_t line = text.find("name = \"" + layer + '"');
        const std::size_t begin = text.find(key + " = ", line) + key.size() + 3;
        text.replace(begin, text.find_first_of(", ", begin) - begin, fmt::format("{}", value));
    };
    replace("conv1", "filters", widths.conv1);
    replace("conv2", "filters", widths.conv2);
    replace("local3", "units", widths.local3);
    replace("local4", "units", widths.local4);
    replace("softmax_linear", "stddev", 1.0 / widths.local4);
    return parse_recipe("cifar10-tutorial", text, "small.toml");
}

Recipe smooth_recipe(const std::string& group, const std::string& more) {
    return parse_recipe("smooth",
                        fmt::format(R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [
  {{ name = "conv", kind = "conv2d", filters = 8, kernel = 3, stride = 2, bias = false }},
  {{ name = "norm", kind = "batch_norm", group = {}, activation = "silu" }},
  {}
  {{ kind = "global_average_pool" }},
  {{ name = "logits", kind = "dense", units = 10, weight_decay = 0.01 }},
]
[pipeline]
kind = "tutorial"
[optimizer]
kind = "momentum"
learning_rate = 0.02
[training]
batch = 12
steps = 10
)",
                                    group, more),
                        "smooth.toml");
}

NetworkSpec spec_of(const Recipe& recipe, const StateLayout& layout, unsigned batch, std::size_t slots) {
    return {.model = &recipe.model,
            .layout = &layout,
            .pipeline = &recipe.pipeline,
            .batch = batch,
            .stored = {32, 32, 3},
            .slots = slots};
}

UpdateSpec update_of(const Recipe& recipe, const StateLayout& layout) {
    return {.layout = &layout, .optimizer = recipe.optimizer.get()};
}

Dataset noise(std::size_t count) {
    std::mt19937 words(7);
    std::vector<std::uint8_t> images(count * 3072);
    for (std::uint8_t& byte : images) byte = std::uint8_t(words() >> 24);
    std::vector<std::uint32_t> labels;
    for (std::size_t i = 0; i < count; ++i) labels.push_back(words() % 10);
    return {
        {"noise", std::vector<std::string>(10, "noise"), {32, 32, 3}}, std::move(images), std::move(labels)};
}

Dataset records_of(const TensorFile& file, const std::string& images_name, const ImageSize& size,
                   std::size_t classes) {
    const std::vector<float>& bytes = file.tensors.at(images_name).values;
    const std::vector<float>& labels = file.tensors.at("labels").values;
    return {{"fixture", std::vector<std::string>(classes, "any"), size},
            {bytes.begin(), bytes.end()},
            {labels.begin(), labels.end()}};
}

TensorFile tensors_under(const TensorFile& file, const std::string& prefix) {
    TensorFile found;
    for (const auto& [name, tensor] : file.tensors)
        if (name.starts_with(prefix)) found.tensors[name.substr(prefix.size())] = tensor;
    return found;
}

TrainerOptions options_for(std::vector<std::string> towers, unsigned global_batch) {
    OpenOptions open = open_options();
    open.measure = true; // as users train
    return {.towers = std::move(towers),
            .global_batch = global_batch,
            .shares = {},
            .learning_rate = 0.1,
            .seed = 3,
            .distort = true,
            .shuffle = true,
            .quirks = {},
            .open = open,
            .open_device = reuse_device,
            .make_reducer = reducer_of_this_run()};
}

void wrap_tower(TrainerOptions& options, std::size_t tower,
                std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)> wrap) {
    options.open_device = [tower, wrap = std::move(wrap),
                           opened = std::size_t(0)](std::string_view name, const OpenOptions& open) mutable {
        std::unique_ptr<Device> device = reuse_device(name, open);
        return opened++ == tower ? wrap(std::move(device)) : std::move(device);
    };
}

double relative_norm(std::span<const float> a, std::span<const float> b) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
        norm += double(b[i]) * double(b[i]);
    }
    return std::sqrt(difference / norm);
}

} // namespace towers::test
