#include "engine/train/diverged.h"

#include "backends/error.h"
#include "engine/model/freeze.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace towers {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NotFinite, tensor, shape, operation, kernel, count, index, value)

namespace {

using nlohmann::json;

/// The tensors of the examples' words.
constexpr std::pair<const char*, std::uint32_t Example::*> word_names[] = {
    {"examples/records", &Example::record},
    {"examples/epochs", &Example::epoch},
    {"examples/labels", &Example::label}};

constexpr const char* mixes_name = "examples/mixes";

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
    throw InputError(fmt::format("{}: {}; it is damaged, use another copy of it", path.string(), what));
}

std::string text_of(const std::optional<Finding>& found) {
    if (!found) return "null";
    json all{{"device", found->device}, {"diverges", found->replay.diverges}, {"first", nullptr}};
    if (const auto& first = found->replay.first) all["first"] = *first;
    return all.dump();
}

std::optional<Finding> read_finding(const std::string& text, const std::filesystem::path& path) {
    try {
        const json all = json::parse(text);
        if (all.is_null()) return std::nullopt;
        Finding finding{all.at("device"), {std::nullopt, all.at("diverges")}};
        if (const json& first = all.at("first"); !first.is_null())
            finding.replay.first = first.get<NotFinite>();
        return finding;
    } catch (const json::exception&) {
        refuse(path, "its metadata 'found' cannot be read");
    }
}

const std::string& metadata(const TensorFile& file, const std::string& key,
                            const std::filesystem::path& path) {
    const auto found = file.metadata.find(key);
    if (found == file.metadata.end()) refuse(path, fmt::format("its metadata has no '{}'", key));
    return found->second;
}

double number(const std::string& text, const std::filesystem::path& path) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || rest != end) refuse(path, fmt::format("'{}' is not a number", text));
    return value;
}

bool flag(const std::string& text, const std::filesystem::path& path) {
    if (text != "true" && text != "false") refuse(path, fmt::format("'{}' is neither true nor false", text));
    return text == "true";
}

/// Reads a tensor with one dimension per entry of `axes`; the first counts the examples.
template<class T>
const TensorOf<T>& tensor(const std::map<std::string, TensorOf<T>>& tensors, const char* name,
                          std::size_t axes, const std::filesystem::path& path) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.shape.size() != axes || found->second.values.empty())
        refuse(path, fmt::format("it has no tensor '{}' of {} dimensions", name, axes));
    return found->second;
}

/// Throws if a device could not do the step.
void check(const DivergedStep& diverged, const std::filesystem::path& path) {
    const LoneStep& step = diverged.step;
    const Recipe& recipe = diverged.recipe;
    const std::size_t examples = step.batch.examples.size(), strangers = step.batch.strangers.size();
    if (examples > step.global_batch || strangers > std::min(examples, step.global_batch - examples) ||
        examples % recipe.model.group() != 0)
        refuse(path, "its examples do not fit together");
    const unsigned classes = recipe.model.classes - recipe.model.label_offset;
    if (std::ranges::any_of(step.batch.all(), [&](const Example& each) { return each.label >= classes; }))
        refuse(path, "one of its labels is no class of its recipe");
    const auto& [mixes, targets, class_weights] = step.batch.tables;
    if (mixes.size() != (recipe.mixing.mixes() && step.distort ? examples : 0))
        refuse(path, "its mixes do not fit its recipe");
    const std::size_t stride = class_stride(recipe.model.classes);
    if (class_weights.size() != recipe.model.weighted_heads() * stride)
        refuse(path, "its class weights do not fit its recipe");
    if (targets.size() != (takes_targets(recipe.model, !mixes.empty()) ? examples * stride : 0))
        refuse(path, "its targets do not fit its recipe");
    if (std::ranges::any_of(mixes, [&](const Mix& mix) { return mix.partner >= examples + strangers; }))
        refuse(path, "one of its mixes has no partner");
    check_data(recipe, {.name = path.string(), .classes = {}, .image = step.stored});
}

void read_examples(const TensorFile& file, LoneStep& step, const std::filesystem::path& path) {
    const auto& images = tensor(file.bytes, "examples/images", 4, path);
    std::vector<Example>& examples = step.batch.examples;
    BatchTables& tables = step.batch.tables;
    examples.resize(images.shape[0]);
    for (std::size_t i = 0; i < examples.size(); ++i) examples[i].slot = std::uint32_t(i);
    for (const auto& [name, word] : word_names) {
        const std::vector<std::uint32_t>& values = tensor(file.words, name, 1, path).values;
        if (values.size() != examples.size()) refuse(path, "its examples do not fit together");
        for (std::size_t i = 0; i < values.size(); ++i) examples[i].*word = values[i];
    }
    if (file.words.contains(mixes_name)) {
        const auto& mixes = tensor(file.words, mixes_name, 2, path);
        if (mixes.shape[1] != mix_words || mixes.shape[0] > examples.size())
            refuse(path, "its mixes do not fit its examples");
        for (std::size_t i = 0; i < mixes.values.size(); i += mix_words)
            tables.mixes.push_back({mixes.values[i], std::bit_cast<float>(mixes.values[i + 1]),
                                    mixes.values[i + 2], mixes.values[i + 3]});
        const auto own = examples.begin() + std::ptrdiff_t(tables.mixes.size());
        step.batch.strangers.assign(own, examples.end());
        examples.erase(own, examples.end());
    }
    step.stored = {unsigned(images.shape[2]), unsigned(images.shape[3]), unsigned(images.shape[1])};
    step.images = images.values;
    for (const auto& [name, numbers] : step_tables)
        if (const auto found = file.tensors.find(name); found != file.tensors.end())
            tables.*numbers = found->second.values;
}

} // namespace

std::string describe(const Finding& finding) {
    const auto& [first, diverges] = finding.replay;
    if (!first) return fmt::format("done again on {}, the step stays finite", finding.device);
    return fmt::format("done again on {}, the step is first not finite in {}{}", finding.device,
                       describe(*first), diverges ? "" : ", but loss and gradients stay finite");
}

Finding examine(const DivergedStep& diverged, const TrainerOptions& options) {
    const auto on = [&](Device& device) -> Finding {
        return {device.info().id, replay(device, diverged.recipe, diverged.step)};
    };
    try {
        return on(*options.open_device(diverged.device, options.open));
    } catch (const DeviceError&) { // it may be lost, or lack memory for a second step
        if (diverged.device == "cpu") throw;
    }
    OpenOptions open = options.open;
    // A processor without units finds what rounding has done.
    open.round_operands = open.precision != Precision::fp32;
    return on(*open_host_device(open));
}

DivergedStep diverged_step(Trainer& trainer, const TowerStep& of, const DataSource& data) {
    const TrainerOptions& options = trainer.options();
    DivergedStep diverged{.recipe = trainer.recipe(),
                          .tower = of.tower,
                          .device = device_of(options.towers[of.tower]),
                          .step = {.before = trainer.save(),
                                   .learning_rate = of.learning_rate,
                                   .seed = options.seed,
                                   .distort = options.distort,
                                   .global_batch = options.global_batch,
                                   .batch = of.batch,
                                   .stored = data.image_size(),
                                   .images = {}},
                          .precision = options.open.precision,
                          .round_operands = options.open.round_operands,
                          .found = std::nullopt};
    std::vector<std::uint32_t> records;
    for (std::vector<Example>* const some : {&diverged.step.batch.examples, &diverged.step.batch.strangers})
        for (Example& example : *some) {
            example.slot = std::uint32_t(records.size());
            example.label = data.labels()[example.record];
            records.push_back(example.record);
        }
    diverged.step.images.resize(records.size() * data.image_size().elements());
    data.read(records, diverged.step.images);
    return diverged;
}

TensorFile to_tensors(const DivergedStep& diverged, const CheckpointOrigin& origin) {
    const LoneStep& step = diverged.step;
    TensorFile file = to_checkpoint(step.before, layout_of(diverged.recipe), origin);
    const BatchTables& tables = step.batch.tables;
    const std::vector<Example> examples = step.batch.all();
    for (const auto& [name, word] : word_names) {
        file.words[name].shape = {examples.size()};
        for (const Example& example : examples) file.words[name].values.push_back(example.*word);
    }
    for (const auto& [name, numbers] : step_tables)
        if (const std::vector<float>& values = tables.*numbers; !values.empty())
            file.tensors[name] = {{values.size()}, values};
    if (!tables.mixes.empty()) {
        auto& [shape, words] = file.words[mixes_name];
        shape = {tables.mixes.size(), mix_words};
        for (const Mix& mix : tables.mixes)
            words.insert(words.end(),
                         {mix.partner, std::bit_cast<std::uint32_t>(mix.part), mix.corner, mix.size});
    }
    const ImageSize& stored = step.stored;
    file.bytes["examples/images"] = {{examples.size(), stored.channels, stored.height, stored.width},
                                     step.images};
    file.metadata.insert({{"recipe_text", diverged.recipe.text},
                          {"tower", std::to_string(diverged.tower)},
                          {"device", diverged.device},
                          {"global_batch", std::to_string(step.global_batch)},
                          {"learning_rate", fmt::to_string(step.learning_rate)},
                          {"distort", step.distort ? "true" : "false"},
                          {"precision", std::string(name_of(diverged.precision))},
                          {"round_operands", diverged.round_operands ? "true" : "false"},
                          {"found", text_of(diverged.found)}});
    return file;
}

DivergedStep read_diverged(const std::filesystem::path& path) {
    const TensorFile file = read_safetensors(path);
    if (!file.metadata.contains("found"))
        throw InputError(fmt::format("{}: is {}, not a step that diverged; give a run's "
                                     "diverged-<step>.safetensors",
                                     path.string(),
                                     file.metadata.contains("step") ? "a checkpoint" : "something else"));
    DivergedStep diverged{.recipe = parse_recipe(metadata(file, "recipe", path),
                                                 metadata(file, "recipe_text", path),
                                                 path.string() + ", recipe_text"),
                          .tower = checkpoint_number(file, "tower", path),
                          .device = metadata(file, "device", path),
                          .step = {},
                          .found = read_finding(metadata(file, "found", path), path)};
    check_recipe(file, diverged.recipe, path);
    if (const std::set<std::string> names = frozen_in(file); !names.empty()) try {
            freeze(diverged.recipe.model, std::vector<std::string>(names.begin(), names.end()), "frozen");
        } catch (const UsageError& error) {
            throw InputError(fmt::format("{}: {}", path.string(), error.what()));
        }
    LoneStep& step = diverged.step;
    step.before = from_checkpoint(file, layout_of(diverged.recipe), path);
    step.learning_rate = number(metadata(file, "learning_rate", path), path);
    step.seed = checkpoint_number(file, "seed", path);
    step.distort = flag(metadata(file, "distort", path), path);
    step.global_batch = unsigned(checkpoint_number(file, "global_batch", path));
    if (file.metadata.contains("precision")) { // not an early version's
        const std::string name = metadata(file, "precision", path);
        const std::optional<Precision> precision = precision_of(name);
        if (!precision) refuse(path, fmt::format("'{}' is no precision", name));
        diverged.precision = *precision;
        diverged.round_operands = flag(metadata(file, "round_operands", path), path);
    }
    read_examples(file, step, path);
    check(diverged, path);
    return diverged;
}

} // namespace towers
