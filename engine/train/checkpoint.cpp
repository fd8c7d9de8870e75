#include "engine/train/checkpoint.h"

#include "backends/error.h"
#include "engine/data/picture.h"
#include "engine/files/text.h"
#include "engine/run/run_directory.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace towers {

std::uint64_t checkpoint_number(const TensorFile& file, const std::string& key,
                                const std::filesystem::path& path) {
    const auto found = file.metadata.find(key);
    std::uint64_t value = 0;
    if (found != file.metadata.end()) {
        const char* const end = found->second.data() + found->second.size();
        const auto [rest, error] = std::from_chars(found->second.data(), end, value);
        if (error == std::errc{} && rest == end) return value;
    }
    throw InputError(fmt::format("{}: its metadata has no number '{}'; it is not a checkpoint of towers",
                                 path.string(), key));
}

void copy_in(const TensorFile& file, const StateSlot& slot, std::span<float> state,
             const std::filesystem::path& path) {
    const auto found = file.tensors.find(slot.name);
    if (found == file.tensors.end())
        throw InputError(fmt::format("{}: has no tensor '{}'; it does not belong to this recipe's model",
                                     path.string(), slot.name));
    if (found->second.shape != slot.variable->shape)
        throw InputError(fmt::format("{}: tensor '{}' has shape [{}], but this recipe's model needs [{}]",
                                     path.string(), slot.name, fmt::join(found->second.shape, ", "),
                                     fmt::join(slot.variable->shape, ", ")));
    std::ranges::copy(found->second.values, part(state, slot.range).begin());
}

void check_finite(const Tensor& tensor, const std::string& name, const std::filesystem::path& path) {
    const auto bad =
        std::ranges::find_if_not(tensor.values, [](float value) { return std::isfinite(value); });
    if (bad != tensor.values.end())
        throw InputError(
            fmt::format("{}: tensor '{}' holds {} in place {}, and training cannot start from that; use "
                        "another file",
                        path.string(), name, std::isnan(*bad) ? "NaN" : "an infinite number",
                        bad - tensor.values.begin()));
}

namespace {

/// As JSON can hold them.
std::vector<std::string> list_of(std::vector<std::string> names) {
    for (std::string& name : names) name = as_utf8(name);
    return names;
}

/// The tensors of the file that are an optimizer's state of variables that are frozen now, or belong to a
/// step that diverged.
std::size_t count_unused(const TensorFile& file, const StateLayout& layout) {
    std::size_t count = 0;
    for (const auto& [name, numbers] : step_tables) count += file.tensors.count(name);
    for (const VariableSlot& slot : layout.variables)
        for (const StateSection& section : layout.sections)
            if (slot.variable.frozen && section.role == Role::optimizer)
                count += file.tensors.count(slot.variable.name + section.suffix);
    return count;
}

TensorFile read_checkpoint(const std::filesystem::path& path) {
    TensorFile file = read_safetensors(path);
    checkpoint_number(file, "step", path);
    for (const auto& [name, tensor] : file.tensors) check_finite(tensor, name, path);
    return file;
}

std::optional<LossScale> loss_scale_in(const TensorFile& file, const std::filesystem::path& path) {
    const auto found = file.metadata.find("loss_scale");
    if (found == file.metadata.end()) return std::nullopt;
    const std::uint64_t steps = checkpoint_number(file, "loss_scale_steps", path);
    LossScale scale{0, unsigned(std::min<std::uint64_t>(steps, steps_of_a_loss_scale))};
    const char* const end = found->second.data() + found->second.size();
    const auto [rest, error] = std::from_chars(found->second.data(), end, scale.scale);
    if (error == std::errc{} && rest == end && is_sound(scale)) return scale;
    throw InputError(fmt::format(
        "{}: 'loss_scale' or 'loss_scale_steps' in its metadata is damaged; use another checkpoint",
        path.string()));
}

nlohmann::json to_json(const Plateau& plateau) {
    nlohmann::json json{{"step", plateau.step},
                        {"bad", plateau.bad},
                        {"cooldown", plateau.cooldown},
                        {"factor", plateau.factor}};
    if (plateau.best) json["best"] = *plateau.best;
    return json;
}

std::optional<Plateau> plateau_in(const TensorFile& file, const std::filesystem::path& path) {
    const auto found = file.metadata.find("plateau");
    if (found == file.metadata.end()) return std::nullopt;
    try {
        const nlohmann::json json = nlohmann::json::parse(found->second);
        Plateau plateau{.step = json.at("step"),
                        .bad = json.at("bad"),
                        .cooldown = json.at("cooldown"),
                        .factor = json.at("factor")};
        if (json.contains("best")) plateau.best = json.at("best").get<double>();
        if (plateau.factor >= 0 && plateau.factor <= 1) return plateau;
    } catch (const nlohmann::json::exception&) { // refused below
    }
    throw InputError(
        fmt::format("{}: 'plateau' in its metadata is damaged; use another checkpoint", path.string()));
}

} // namespace

TensorFile to_checkpoint(const TrainingState& state, const StateLayout& layout,
                         const CheckpointOrigin& origin) {
    TensorFile file;
    for (const StateSlot& slot : layout.slots()) {
        const std::span<const float> values = part(std::span(state.state), slot.range);
        file.tensors[slot.name] = {slot.variable->shape, {values.begin(), values.end()}};
    }
    file.metadata = {
        {"recipe", origin.recipe},
        {"recipe_checksum", std::to_string(origin.recipe_checksum)},
        {"step", std::to_string(state.step)},
        {"epoch", std::to_string(state.examples / origin.records)},
        {"examples", std::to_string(state.examples)},
        {"seed", std::to_string(origin.seed)},
        {"records", std::to_string(origin.records)},
        {"checksum", std::to_string(origin.checksum)},
        {"settings", origin.settings},
        {"classes", nlohmann::json(list_of(origin.classes)).dump()},
        {"image", nlohmann::json({origin.image.height, origin.image.width, origin.image.channels}).dump()}};
    if (state.loss_scale) {
        file.metadata["loss_scale"] = fmt::to_string(state.loss_scale->scale);
        file.metadata["loss_scale_steps"] = std::to_string(state.loss_scale->good_steps);
    }
    if (state.plateau) file.metadata["plateau"] = to_json(*state.plateau).dump();
    std::vector<std::string> frozen;
    for (const VariableSlot& slot : layout.variables)
        if (slot.variable.frozen) frozen.push_back(slot.variable.name);
    if (!frozen.empty()) file.metadata["frozen"] = fmt::format("{}", fmt::join(frozen, " "));
    return file;
}

std::optional<TrainedOn> checkpoint_data(const TensorFile& file, const std::filesystem::path& path) {
    const auto classes = file.metadata.find("classes"), image = file.metadata.find("image");
    if (classes == file.metadata.end() || image == file.metadata.end()) return std::nullopt;
    try {
        const nlohmann::json size = nlohmann::json::parse(image->second);
        const auto in_range = [](const nlohmann::json& side) {
            return side.is_number_unsigned() && side >= 1 && side <= 1 << 16;
        };
        if (size.is_array() && size.size() == 3 && std::ranges::all_of(size, in_range)) {
            const ImageSize found{size[0], size[1], size[2]};
            if (std::uint64_t(found.height) * found.width <= most_picture_pixels &&
                (found.channels == 1 || found.channels == 3))
                return TrainedOn{nlohmann::json::parse(classes->second).get<std::vector<std::string>>(),
                                 found};
        }
    } catch (const nlohmann::json::exception&) { // refused below
    }
    throw InputError(fmt::format(
        "{}: 'classes' or 'image' in its metadata is damaged; use another checkpoint", path.string()));
}

std::vector<std::string> known_classes(const TensorFile& file) {
    try {
        if (auto data = checkpoint_data(file, {})) return std::move(data->classes);
    } catch (const InputError&) { // another program's, which mean something else
    }
    return {};
}

std::set<std::string> frozen_in(const TensorFile& file) {
    std::set<std::string> names;
    const auto found = file.metadata.find("frozen");
    std::istringstream words(found == file.metadata.end() ? "" : found->second);
    for (std::string name; words >> name;) names.insert(name);
    return names;
}

void check_recipe(const TensorFile& file, const Recipe& recipe, const std::filesystem::path& path) {
    const auto found = file.metadata.find("recipe");
    if (found == file.metadata.end())
        throw InputError(
            fmt::format("{}: its metadata names no recipe; it is not a checkpoint of towers", path.string()));
    const bool bound = file.metadata.contains("recipe_checksum");
    if (bound && checkpoint_number(file, "recipe_checksum", path) == recipe.checksum)
        return; // whatever its name
    if (found->second != recipe.name)
        throw InputError(fmt::format("{}: belongs to recipe '{}', not '{}'; give --recipe {}", path.string(),
                                     found->second, recipe.name, found->second));
    if (bound)
        throw InputError(
            fmt::format("{}: is not the recipe that {} was trained with, though it has its name; "
                        "give --recipe and --set as then, or the recipe.toml that the run kept",
                        recipe.source, path.string()));
}

TrainingState from_checkpoint(const TensorFile& file, const StateLayout& layout,
                              const std::filesystem::path& path) {
    TrainingState state{.state = std::vector<float>(layout.bytes / sizeof(float))};
    state.step = checkpoint_number(file, "step", path);
    state.examples = checkpoint_number(file, "examples", path);
    state.loss_scale = loss_scale_in(file, path);
    state.plateau = plateau_in(file, path);
    const std::set<std::string> frozen = frozen_in(file);
    if (!frozen.empty()) state.state = initial_state(layout, 0);
    std::size_t wanted = count_unused(file, layout);
    for (const StateSlot& slot : layout.slots()) {
        if (slot.role == Role::optimizer && frozen.contains(slot.variable->name)) continue;
        copy_in(file, slot, state.state, path);
        ++wanted;
    }
    if (file.tensors.size() != wanted)
        throw InputError(fmt::format(
            "{}: holds {} tensors, but this recipe's training has {}; it belongs to another model",
            path.string(), file.tensors.size(), wanted));
    return state;
}

std::optional<std::string> checkpoint_settings(const TensorFile& file) {
    const auto found = file.metadata.find("settings");
    if (found == file.metadata.end()) return std::nullopt;
    return found->second;
}

std::optional<std::uint64_t> newest_sound_checkpoint(const std::filesystem::path& folder) {
    const std::vector<std::uint64_t> steps = checkpoint_steps(folder);
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        try {
            read_checkpoint(checkpoint_of(folder, *step));
            return *step;
        } catch (const InputError&) { // an earlier one may be sound
        }
    }
    return std::nullopt;
}

FoundCheckpoint find_checkpoint(const std::filesystem::path& folder, std::optional<std::uint64_t> step) {
    const std::filesystem::path path = step ? checkpoint_of(folder, *step) : latest_checkpoint(folder);
    try {
        return {path, read_checkpoint(path)};
    } catch (const InputError& error) {
        const auto sound = newest_sound_checkpoint(folder);
        if (!sound) throw;
        throw InputError(fmt::format("{}; {} is sound: go on from it with --resume-from {}", error.what(),
                                     checkpoint_of(folder, *sound).string(), *sound));
    }
}

void check_origin(const TensorFile& file, const CheckpointOrigin& origin, const std::filesystem::path& path) {
    if (const std::uint64_t seed = checkpoint_number(file, "seed", path); seed != origin.seed)
        throw UsageError(fmt::format("--seed {}: {} was trained with seed {}; give --seed {} to resume it",
                                     origin.seed, path.string(), seed, seed));
    if (!file.metadata.contains("checksum")) return; // written by an early version
    const std::uint64_t records = checkpoint_number(file, "records", path);
    if (records == origin.records && checkpoint_number(file, "checksum", path) == origin.checksum) return;
    throw InputError(
        fmt::format("--data: is not the data that {} was trained on ({}); give that to resume it, or start "
                    "another run",
                    path.string(),
                    records == origin.records ? "equally many examples, but different ones"
                                              : fmt::format("{} examples, not {}", origin.records, records)));
}

} // namespace towers
