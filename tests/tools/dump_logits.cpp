// Writes the logits of a run's latest checkpoint for given pictures, for comparison with other programs.
//
// Usage: dump_logits RUN PICTURES DEVICE BATCH OUTPUT [--raw]
//   RUN       a run's folder, with its recipe
//   PICTURES  safetensors: images [N, channels, height, width] of whole numbers 0..255
//   OUTPUT    safetensors: logits [N, classes], scaled as the loss takes them; of the moving averages, if the
//             recipe has them, unless --raw
// Exit codes: 0, 1.

#include "backends/error.h"
#include "engine/data/feed.h"
#include "engine/data/source.h"
#include "engine/execution/session.h"
#include "engine/inference/evaluation.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/run/run_directory.h"
#include "engine/run/safetensors.h"
#include "engine/shares/selection.h"
#include "engine/train/checkpoint.h"

#include <cstdio>

namespace towers {
namespace {

Dataset read_pictures(const std::string& path) {
    const TensorFile file = read_safetensors(path);
    const Tensor& images = file.tensors.at("images");
    if (images.shape.size() != 4) throw InputError(path + ": needs images [N, channels, height, width]");
    const ImageSize size{unsigned(images.shape[2]), unsigned(images.shape[3]), unsigned(images.shape[1])};
    return {{path, {"any"}, size},
            {images.values.begin(), images.values.end()},
            std::vector<std::uint32_t>(images.shape[0])};
}

void dump(const std::vector<std::string>& words, bool raw) {
    const auto [path, file] = find_checkpoint(words[0], std::nullopt);
    const Recipe recipe = read_recipe("the run's", recipe_path_in(words[0]));
    const StateLayout layout = layout_of(recipe);
    const TrainingState state = from_checkpoint(file, layout, path);
    const bool averaged = !raw && layout.averages() != nullptr;
    const std::span<const float> variables =
        part(std::span(state.state), averaged ? layout.averages()->range : layout.all_variables());
    const Dataset data = read_pictures(words[1]);
    const std::unique_ptr<Device> device = open_device(words[2], {});
    const auto batch = unsigned(std::stoul(words[3]));

    const Plan plan = evaluation_plan(recipe, data.image_size(), data.size(), batch, device->info());
    Session session(*device);
    session.hold(plan.bytes());
    session.load(data);
    session.upload(Arena::state, variables.first(plan.bytes(Arena::state) / sizeof(float)));
    const Recording recording = session.record(plan);
    const std::span<const float> logits = session.host<float>(plan.find("staged_logits"));
    const std::size_t classes = recipe.model.classes;
    Tensor all{{data.size(), classes}, {}};
    for (std::size_t first = 0; first < data.size(); first += batch) {
        std::vector<Example> examples(batch);
        for (std::size_t i = 0; i < batch; ++i) {
            const auto record = std::uint32_t(std::min(first + i, data.size() - 1));
            examples[i] = {.slot = record, .record = record};
        }
        session.write(examples);
        session.run(recording);
        const std::size_t count = std::min<std::size_t>(batch, data.size() - first) * classes;
        all.values.insert(all.values.end(), logits.begin(), logits.begin() + std::ptrdiff_t(count));
    }
    for (float& each : all.values) each *= recipe.model.heads[0].logit_scale;
    write_safetensors(words[4], {.tensors = {{"logits", std::move(all)}}});
}

} // namespace
} // namespace towers

int main(int count, char** words) {
    std::vector<std::string> arguments(words + 1, words + count);
    const bool raw = std::erase(arguments, "--raw") > 0;
    if (arguments.size() != 5) {
        std::fprintf(stderr, "usage: dump_logits RUN PICTURES DEVICE BATCH OUTPUT [--raw]\n");
        return 1;
    }
    try {
        towers::dump(arguments, raw);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
