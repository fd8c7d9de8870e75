#include "engine/inference/predict.h"
#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/ending.h"
#include "apps/towers/flags.h"
#include "apps/towers/model_on_ranks.h"
#include "apps/towers/predict_output.h"
#include "apps/towers/ranks.h"
#include "apps/towers/start_over.h"
#include "apps/towers/trained_model.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/converted.h"
#include "engine/data/picture.h"
#include "engine/data/picture_list.h"
#include "engine/files/text.h"
#include "engine/inference/evaluation.h"
#include "engine/inference/multilabel_report.h"
#include "engine/ranks/message.h"
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
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <spdlog/spdlog.h>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace towers {
namespace {

struct PredictFlags {
    std::string first, model, files_from, recipe, backend, towers;
    std::string threshold;
    std::vector<std::string> pictures, set;
    std::optional<std::size_t> top;
    unsigned batch = 128, readers = 0;
    bool json = false, csv = false, scores = false, raw = false, skip_broken = false;
    PrecisionFlags products;
    OpenOptions open;
    std::vector<std::string> common_lines; ///< see there

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

/// `stored`: the size of the training's images.
Source open_pictures(std::vector<NamedPicture> pictures, const Recipe& recipe, const ImageSize& stored) {
    auto list = std::make_unique<PictureList>(std::move(pictures), stored);
    const PictureList* const own = list.get();
    const ImageSize wanted = taken_size(recipe, stored);
    if (wanted == stored) return {std::move(list), own};
    return {std::make_unique<ConvertedSource>(std::move(list), wanted), own};
}

/// What a process makes of a batch of the command's pictures.
struct Scored {
    std::uint64_t first;               ///< the number of its first picture
    std::vector<std::string> problems; ///< of each picture; "" if it could be read
    std::span<const float> logits;     ///< [pictures, classes], or more
};

/// The pictures in the batches that are dealt so.
std::vector<NamedPicture> part_of(const std::vector<NamedPicture>& pictures, const Dealing& dealing,
                                  unsigned batch) {
    std::vector<NamedPicture> part;
    dealing.for_each(pictures.size(), batch, [&](std::uint64_t begin, std::uint64_t end) {
        part.insert(part.end(), pictures.begin() + long(begin), pictures.begin() + long(end));
    });
    return part;
}

/// Scores the pictures of this process, which are the batches that are dealt to it. `see`: from any thread.
void score(std::vector<NamedPicture> pictures, const ModelOnRanks& model, const ImageSize& stored,
           std::span<const float> variables, std::span<const std::unique_ptr<Device>> devices,
           const Dealing& dealing, unsigned readers, const std::function<void(const Scored&)>& see) {
    const std::uint64_t count = pictures.size();
    if (count == 0) return;
    const Source source = open_pictures(std::move(pictures), model.recipe, stored);
    std::vector<ForwardPass> passes;
    for (const auto& device : devices)
        passes.push_back(streaming_pass(*device, model.recipe, source.data->image_size(), model.batch));
    const auto see_batch = [&](std::uint64_t first, std::span<const float> logits) {
        Scored scored{dealing.batch(first / model.batch) * model.batch, {}, logits};
        for (std::uint64_t record = first; record < std::min(first + model.batch, count); ++record)
            scored.problems.push_back(source.list->problem(std::uint32_t(record)));
        see(scored);
    };
    predict(passes, variables, *source.data, readers != 0 ? readers : std::min(cpu_threads(0), 16u),
            see_batch);
}

constexpr std::uint64_t no_file = std::numeric_limits<std::uint64_t>::max();

std::uint64_t file_bytes(const NamedPicture& picture) {
    std::error_code error;
    const auto bytes = picture.is_file ? std::filesystem::file_size(picture.name, error) : 0;
    return error ? no_file : bytes;
}

/// Rank 0 tells another which pictures are its part. It answers once it has found them.
void send_pictures(Ranks& ranks, unsigned rank, const std::vector<NamedPicture>& pictures) {
    Writer message;
    message.put(std::uint64_t(pictures.size()));
    for (const NamedPicture& each : pictures) {
        message.put(std::string_view(each.name));
        message.put(std::string_view(each.bytes));
        message.put(std::uint64_t(each.is_file));
        message.put(file_bytes(each));
    }
    ranks.world().courier().send(rank, Topic::setup, message.take());
}

/// UsageError if they are not here.
std::vector<NamedPicture> receive_pictures(Ranks& ranks) {
    const Bytes message = ranks.world().courier().receive(0, Topic::setup);
    Reader reader(message);
    std::vector<NamedPicture> pictures(reader.get<std::uint64_t>());
    const auto told = [](std::uint64_t bytes) {
        return bytes == no_file ? "cannot be read" : fmt::format("has {} bytes", bytes);
    };
    for (NamedPicture& each : pictures) {
        each.name = reader.text();
        each.bytes = reader.text();
        each.is_file = reader.get<std::uint64_t>() != 0;
        const auto expected = reader.get<std::uint64_t>(), found = file_bytes(each);
        if (found != expected)
            throw UsageError(fmt::format("{} {}, and for {} it {}; give each rank a copy of the same "
                                         "pictures at the same paths",
                                         each.name, told(found), ranks.world().name(0), told(expected)));
    }
    ranks.world().courier().send(0, Topic::answer, {});
    return pictures;
}

/// Another rank's batch, until it has none left.
void hear(Courier& courier, unsigned rank, const std::function<void(const Scored&)>& see) {
    while (true) {
        const Bytes message = courier.receive(rank, Topic::answer);
        if (message.empty()) return;
        Reader reader(message);
        Scored scored{reader.get<std::uint64_t>(), {}, {}};
        scored.problems.resize(reader.get<std::uint64_t>());
        for (std::string& problem : scored.problems) problem = reader.text();
        scored.logits = reader.get<float>(reader.get<std::uint64_t>());
        see(scored);
    }
}

/// The part of a rank that is not the first.
void follow(PredictFlags& flags, Ranks& ranks) {
    const std::vector<std::string> towers =
        take_devices(&ranks, flags.backend, flags.towers, flags.open, flags.common_lines);
    const nlohmann::json order = ranks.receive();
    if (order.is_null()) return;
    const ModelOnRanks model = model_in(order["model"], flags.open);
    const auto stored = order["stored"].get<std::vector<unsigned>>();
    std::vector<NamedPicture> pictures = receive_pictures(ranks);
    std::vector<std::unique_ptr<Device>> devices;
    for (const std::string& id : towers) devices.push_back(open_device(id, model.open));
    Courier& courier = ranks.world().courier();
    const auto see = [&](const Scored& scored) {
        Writer message;
        message.put(scored.first);
        message.put(std::uint64_t(scored.problems.size()));
        for (const std::string& problem : scored.problems) message.put(std::string_view(problem));
        message.put(std::uint64_t(scored.logits.size()));
        message.put(scored.logits);
        courier.send(0, Topic::answer, message.take());
    };
    score(std::move(pictures), model, {stored[0], stored[1], stored[2]}, receive_variables(ranks), devices,
          own_dealing(ranks), flags.readers, see);
    courier.send(0, Topic::answer, {});
    ranks.receive(); // the end
}

/// Of the network's classes; empty if its loss is no sigmoid.
std::vector<double> thresholds_of(const PredictFlags& flags, const LoadedModel& model,
                                  const std::vector<std::string>& names) {
    if (!flags.threshold.empty()) check_threshold(model.recipe);
    if (!tells_labels(model.recipe)) return {};
    return network_thresholds(flags.threshold, model.recipe.model, names, model.data.classes);
}

/// Prints what is seen in the pictures.
class Printer {
public:
    /// `thresholds`: thresholds_of().
    Printer(const PredictFlags& flags, const LoadedModel& model, std::vector<double> thresholds,
            std::vector<std::string> pictures)
        : flags_(flags), path_(model.path), logit_scale_(model.recipe.model.heads[0].logit_scale),
          names_(class_names(model.recipe.model, model.data.classes)), thresholds_(std::move(thresholds)),
          pictures_(std::move(pictures)),
          top_(
              std::min(flags.top.value_or(thresholds_.empty() ? few_classes : names_.size()), names_.size())),
          output_(pictures_.size()) {
        fmt::print("{}", thresholds_.empty() ? prediction_header(flags_.format(), top_)
                                             : labels_header(flags_.format(), names_));
    }

    /// From any thread.
    void see(const Scored& scored) {
        PredictionOutput::Part part{.pictures = scored.problems.size(), .lines = {}, .problems = {}};
        for (std::size_t i = 0; i < part.pictures; ++i) {
            const std::string& picture = pictures_[scored.first + i];
            const auto own = scored.logits.subspan(i * names_.size(), names_.size());
            std::vector<float> scores(own.begin(), own.end());
            for (float& each : scores) each *= logit_scale_;
            if (!scored.problems[i].empty()) {
                part.problems.push_back(scored.problems[i]);
                broken_ = true;
                continue;
            }
            if (!std::ranges::all_of(scores, [](float each) { return std::isfinite(each); }))
                throw InputError(fmt::format("{}: it gives no finite scores for {} because the model has "
                                             "diverged; use an earlier checkpoint",
                                             path_.string(), picture));
            part.lines += line_of(picture, scores);
        }
        output_.add(scored.first, std::move(part));
    }
    bool has_seen_broken() const { return broken_; }

private:
    std::string line_of(const std::string& picture, std::span<const float> scores) const {
        const auto shown = flags_.scores ? scores : std::span<const float>();
        if (thresholds_.empty())
            return prediction_line(flags_.format(), picture, most_probable(scores, top_), names_, shown);
        std::vector<ClassProbability> labels = labels_above(scores, thresholds_);
        labels.resize(std::min(labels.size(), top_));
        std::vector<double> probabilities;
        for (const float each : scores) probabilities.push_back(sigmoid(each));
        return labels_line(flags_.format(), picture, labels, probabilities, names_, shown);
    }

    const PredictFlags flags_; // a thread that waits for a rank may outlive the command
    const std::filesystem::path path_;
    const float logit_scale_;
    const std::vector<std::string> names_;
    const std::vector<double> thresholds_; ///< empty: a picture has one class
    const std::vector<std::string> pictures_;
    const std::size_t top_;
    std::atomic<bool> broken_ = false;
    PredictionOutput output_;
};

/// `ranks`: of which this process is the first; null: it is the only one.
int lead(PredictFlags& flags, Ranks* ranks) {
    check(flags);
    if (!flags.recipe.empty()) find_recipe(flags.recipe, flags.set);
    const std::vector<std::string> towers =
        take_devices(ranks, flags.backend, flags.towers, flags.open, flags.common_lines);
    const LoadedModel loaded = load_model(flags);
    std::vector<double> thresholds =
        thresholds_of(flags, loaded, class_names(loaded.recipe.model, loaded.data.classes));
    choose_precision(flags.open, flags.products, loaded.products, loaded.recipe);
    std::vector<std::unique_ptr<Device>> devices;
    for (const std::string& id : towers) devices.push_back(open_device(id, flags.open));
    work_begins(); // standard input can be read only once
    Named named = pictures_of(flags);
    const int incomplete = named.complete || flags.skip_broken ? 0 : work_failed;
    const std::uint64_t count = named.pictures.size();
    if (count == 0)
        return named.complete ? report(work_failed, "the list names no pictures; give others") : incomplete;

    const Dealing dealing = ranks != nullptr ? own_dealing(*ranks) : Dealing{0, towers.size(), towers.size()};
    const ModelOnRanks model{loaded.recipe, flags.open, batch_for(count, flags.batch, dealing.all)};
    const ImageSize& stored = loaded.data.image;
    if (ranks != nullptr) {
        ranks->tell(
            {{"model", to_message(model)}, {"stored", {stored.height, stored.width, stored.channels}}});
        for (unsigned rank = 1; rank < ranks->world().size(); ++rank)
            send_pictures(*ranks, rank, part_of(named.pictures, dealing_of(*ranks, rank), model.batch));
        send_variables(*ranks, loaded.variables(flags.raw));
        // Nothing is printed before all have their pictures.
        for (unsigned rank = 1; rank < ranks->world().size(); ++rank)
            ranks->world().courier().receive(rank, Topic::answer);
    }
    std::vector<std::string> names;
    for (const NamedPicture& each : named.pictures) names.push_back(each.name);
    const auto printer = std::make_shared<Printer>(flags, loaded, std::move(thresholds), std::move(names));
    const auto see = [printer](const Scored& scored) { printer->see(scored); };
    std::vector<std::future<void>> others; // which does not wait for them if this rank fails
    for (unsigned rank = 1; ranks != nullptr && rank < ranks->world().size(); ++rank) {
        std::packaged_task<void()> task(
            [&courier = ranks->world().courier(), rank, see] { hear(courier, rank, see); });
        others.push_back(task.get_future());
        std::thread(std::move(task)).detach();
    }
    score(part_of(named.pictures, dealing, model.batch), model, stored, loaded.variables(flags.raw), devices,
          dealing, flags.readers, see);
    for (std::future<void>& each : others) each.get();
    return printer->has_seen_broken() && !flags.skip_broken ? work_failed : incomplete;
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
                        "JPEG, PNG and WebP files, and folders, whose pictures are taken with those in their "
                        "folders; - is one picture on standard input");
    command->add_option("--files-from", flags->files_from,
                        "Also take the files and folders that this file names, one on each line; - is "
                        "standard input, such as from find");
    add_number(*command, "--top", flags->top,
               "How many of the most probable classes to print (default: 5, or if a picture may have several "
               "labels, all that it has)",
               1);
    add_threshold(*command, flags->threshold);
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
    command->callback([flags, command, &chosen] {
        chosen = [flags, command] {
            if (flags->model.empty())
                flags->model = flags->first;
            else if (!flags->first.empty()) // with --run or --checkpoint all words are pictures
                flags->pictures.insert(flags->pictures.begin(), flags->first);
            flags->common_lines = common_lines(*command);
            return run_on_ranks([&](Ranks* ranks) { return lead(*flags, ranks); },
                                [&](Ranks& ranks) { follow(*flags, ranks); });
        };
    });
}

} // namespace towers
