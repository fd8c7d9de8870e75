#include "engine/inference/predict.h"
#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/ending.h"
#include "apps/towers/flags.h"
#include "apps/towers/predict_output.h"
#include "apps/towers/start_over.h"
#include "apps/towers/trained_model.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/converted.h"
#include "engine/data/picture.h"
#include "engine/data/picture_list.h"
#include "engine/files/text.h"
#include "engine/inference/evaluation.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/train/checkpoint.h"
#include "engine/train/initial.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <spdlog/spdlog.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace towers {
namespace {

struct PredictFlags {
    std::string first, model, files_from, recipe, backend, towers;
    std::vector<std::string> pictures, set;
    std::size_t top = few_classes;
    unsigned batch = 128, readers = 0;
    bool json = false, csv = false, scores = false, raw = false, skip_broken = false;
    PrecisionFlags products;
    OpenOptions open;

    PredictionFormat format() const {
        return json ? PredictionFormat::json : csv ? PredictionFormat::csv : PredictionFormat::text;
    }
};

void check(const PredictFlags& flags) {
    check_model(flags.model, "predict");
    if (flags.pictures.empty() && flags.files_from.empty())
        throw UsageError("give the pictures: files, folders, - for one on standard input, or --files-from");
    const auto inputs =
        std::ranges::count(flags.pictures, std::string("-")) + std::ptrdiff_t(flags.files_from == "-");
    if (inputs > 1) throw UsageError("-: standard input can be only one picture or list; give - once");
    check_threads(flags.open.threads);
    check_precision(flags.products);
    if (flags.readers > most_readers)
        throw UsageError(fmt::format("--readers {}: give 1 to {}", flags.readers, most_readers));
}

/// All of standard input, or a little more than `most` bytes.
std::string read_input(std::uint64_t most) {
    std::string bytes;
    for (std::size_t got = 0; bytes.size() <= most; bytes.resize(got)) {
        got = bytes.size();
        bytes.resize(got + (std::size_t(1) << 20));
        const ssize_t count = ::read(STDIN_FILENO, bytes.data() + got, bytes.size() - got);
        if (count < 0 && errno != EINTR) throw_file_error("read", "standard input", errno);
        if (count == 0) {
            bytes.resize(got);
            break;
        }
        got += std::size_t(std::max<ssize_t>(count, 0));
    }
    return bytes;
}

/// The pictures that the command line names, and whether all that it names are there.
struct Named {
    std::vector<NamedPicture> pictures;
    bool complete = true;
};

Named pictures_of(const PredictFlags& flags) {
    constexpr std::uint64_t most_list_bytes = std::uint64_t(1) << 30;
    Named named;
    const auto complain = [&](const std::string& problem) {
        named.complete = false;
        report(work_failed, problem);
    };
    const auto warn = [](const std::string& line) { spdlog::warn("{}", as_printable(line)); };
    const auto add = [&](const std::string& path) {
        for (NamedPicture& each : pictures_at(path, complain, warn))
            named.pictures.push_back(std::move(each));
    };
    for (const std::string& each : flags.pictures)
        if (each == "-") // bytes beyond what is allowed are refused with the picture
            named.pictures.push_back({"standard input", read_input(most_picture_bytes), false});
        else
            add(each);
    if (!flags.files_from.empty())
        for (const std::string& each :
             paths_in(flags.files_from == "-" ? read_input(most_list_bytes) : read_file(flags.files_from)))
            add(each);
    return named;
}

/// A model that is ready to predict.
struct LoadedModel {
    std::filesystem::path path; ///< of its checkpoint
    Recipe recipe;
    StateLayout layout;
    TrainingState state;
    TrainedOn data;
    PrecisionFlags products; ///< with which it was trained

    std::span<const float> variables(bool raw) const {
        const bool averaged = !raw && layout.averages() != nullptr;
        return part(std::span(state.state), averaged ? layout.averages()->range : layout.all_variables());
    }
};

/// Whether the file is no checkpoint, but what the importer writes.
bool has_variables_alone(const TensorFile& file) { return !file.metadata.contains("recipe"); }

LoadedModel load_model(const PredictFlags& flags) {
    const FoundCheckpoint found = read_model(flags.model);
    const auto& [path, file] = found;
    LoadedModel model;
    model.path = path;
    const TrainSettings settings = settings_of_checkpoint(found, flags.model, flags.recipe, flags.set);
    model.products = precision_in(settings);
    model.recipe = recipe_of_checkpoint(settings, path, !flags.recipe.empty() || !flags.set.empty());
    if (has_variables_alone(file)) {
        if (flags.recipe.empty())
            throw InputError(
                fmt::format("{}: its metadata names no recipe; it is not a checkpoint of towers. "
                            "If it has the variables of a recipe, give that with --recipe",
                            path.string()));
        model.layout = layout_of(model.recipe);
        model.state = from_variables(file, model.layout, path);
        model.data = checkpoint_data(file, path).value_or(TrainedOn{{}, stored_size(model.recipe)});
        return model;
    }
    check_recipe(file, model.recipe, path);
    model.layout = layout_of(model.recipe);
    model.state = from_checkpoint(file, model.layout, path);
    if (auto known = trained_on(file, path, settings, model.recipe)) {
        model.data = std::move(*known);
        return model;
    }
    const ImageSize size = stored_size(model.recipe);
    spdlog::warn("{} is an early version's and does not name its classes, and its training data are not "
                 "there: classes are numbers, and pictures become images of {}x{}",
                 as_printable(path.string()), size.height, size.width);
    model.data = {{}, size};
    return model;
}

/// The pictures as the recipe takes them: what evaluation would make of them if they lay in a data set like
/// the training's.
struct Source {
    std::unique_ptr<DataSource> data;
    const PictureList* list; ///< within it
};

Source open_pictures(std::vector<NamedPicture> pictures, const LoadedModel& model) {
    auto list = std::make_unique<PictureList>(std::move(pictures), model.data.image);
    const PictureList* const own = list.get();
    const ImageSize wanted = taken_size(model.recipe, model.data.image);
    if (wanted == model.data.image) return {std::move(list), own};
    return {std::make_unique<ConvertedSource>(std::move(list), wanted), own};
}

int run_predict(PredictFlags& flags) {
    if (flags.model.empty())
        flags.model = flags.first;
    else if (!flags.first.empty()) // with --run or --checkpoint all words are pictures
        flags.pictures.insert(flags.pictures.begin(), flags.first);
    check(flags);
    if (!flags.recipe.empty()) find_recipe(flags.recipe, flags.set);
    const std::vector<std::string> towers = choose_towers(flags.backend, flags.towers, flags.open);
    const LoadedModel model = load_model(flags);
    choose_precision(flags.open, flags.products, model.products, model.recipe);
    std::vector<std::unique_ptr<Device>> devices;
    for (const std::string& id : towers) devices.push_back(open_device(id, flags.open));
    work_begins(); // standard input can be read only once
    Named named = pictures_of(flags);
    const int incomplete = named.complete || flags.skip_broken ? 0 : work_failed;
    const std::uint64_t count = named.pictures.size();
    if (count == 0)
        return named.complete ? report(work_failed, "the list names no pictures; give others") : incomplete;

    const Source source = open_pictures(std::move(named.pictures), model);
    const unsigned batch = batch_for(count, flags.batch, towers.size());
    std::vector<ForwardPass> passes;
    for (const auto& device : devices)
        passes.push_back(streaming_pass(*device, model.recipe, source.data->image_size(), batch));

    const std::vector<std::string> names = class_names(model.recipe.model, model.data.classes);
    const std::size_t top = std::min(flags.top, names.size());
    std::atomic<bool> broken = false;
    fmt::print("{}", prediction_header(flags.format(), top));
    PredictionOutput output(count);
    const auto see = [&](std::uint64_t first, std::span<const float> logits) {
        PredictionOutput::Part part;
        for (; part.pictures < batch && first + part.pictures < count; ++part.pictures) {
            const auto record = std::uint32_t(first + part.pictures);
            const auto own = logits.subspan(part.pictures * names.size(), names.size());
            std::vector<float> scores(own.begin(), own.end());
            for (float& each : scores) each *= model.recipe.model.heads[0].logit_scale;
            if (std::string problem = source.list->problem(record); !problem.empty()) {
                part.problems.push_back(std::move(problem));
                broken = true;
                continue;
            }
            if (!std::ranges::all_of(scores, [](float each) { return std::isfinite(each); }))
                throw InputError(fmt::format("{}: it gives no finite scores for {} because the model has "
                                             "diverged; use an earlier checkpoint",
                                             model.path.string(), source.list->place_of(record)));
            part.lines +=
                prediction_line(flags.format(), source.list->place_of(record), most_probable(scores, top),
                                names, flags.scores ? scores : std::span<const float>());
        }
        output.add(first, std::move(part));
    };
    predict(passes, model.variables(flags.raw), *source.data,
            flags.readers != 0 ? flags.readers : std::min(cpu_threads(0), 16u), see);
    return broken && !flags.skip_broken ? work_failed : incomplete;
}

} // namespace

void add_predict(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("predict", "Tell the classes of pictures");
    const auto flags = std::make_shared<PredictFlags>();
    command
        ->add_option("model", flags->first,
                     "A run's folder, whose latest checkpoint is taken, or a checkpoint file")
        ->type_name("RUN|CHECKPOINT");
    add_model_flags(*command, flags->model);
    command->add_option("pictures", flags->pictures,
                        "JPEG and PNG files, and folders, whose pictures are taken with those in their "
                        "folders; - is one picture on standard input");
    command->add_option("--files-from", flags->files_from,
                        "Also take the files and folders that this file names, one on each line; - is "
                        "standard input, such as from find");
    add_number(*command, "--top", flags->top, "How many of the most probable classes to print", 1)
        ->capture_default_str();
    CLI::Option* const json =
        command->add_flag("--json", flags->json, "Print a JSON object for each picture");
    command->add_flag("--csv", flags->csv, "Print comma-separated values")->excludes(json);
    command
        ->add_flag("--scores", flags->scores,
                   "With --json: also print the scores of all classes, the logits of which the probabilities "
                   "are made")
        ->needs(json);
    command->add_flag("--raw", flags->raw, "Use the variables themselves instead of their moving averages");
    command->add_flag("--skip-broken", flags->skip_broken,
                      "Exit with 0 although there are pictures that cannot be read, which are named anyway");
    command->add_option("--recipe", flags->recipe,
                        "Recipe of the checkpoint: a TOML file, or a built-in one's name (default: the one "
                        "that its run keeps, else the one that it names)");
    add_set(*command, flags->set);
    command->add_option("--backend", flags->backend,
                        "Compute on all devices of this backend: cuda, vulkan or cpu");
    command->add_option("--towers", flags->towers,
                        "Compute on these devices, each with a part of the pictures, such as vulkan:0,cpu "
                        "('towers devices' lists them; default: those that training would use)");
    add_number(*command, "--batch", flags->batch, "Number of pictures at a time", 1)->capture_default_str();
    add_number(*command, "--readers", flags->readers,
               "Number of threads that decode pictures; 0: one per processor, at most 16")
        ->capture_default_str();
    add_threads(*command, flags->open.threads);
    add_exact_products(*command, flags->open.exact_products);
    add_precision(*command, flags->products, "as the checkpoint was trained");
    add_device_flags(*command, flags->open);
    command->callback([flags, &chosen] { chosen = [flags] { return run_predict(*flags); }; });
}

} // namespace towers
