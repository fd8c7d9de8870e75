#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/flags.h"
#include "apps/towers/hint.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/cifar10.h"
#include "engine/data/formats.h"
#include "engine/data/packed.h"
#include "engine/data/picture_files.h"
#include "engine/data/shapes.h"
#include "engine/data/statistics.h"
#include "engine/data/tfrecord.h"
#include "engine/files/text.h"
#include "engine/plural.h"
#include "engine/recipes/recipe.h"
#include "engine/recipes/recipe_data.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <set>
#include <span>
#include <spdlog/spdlog.h>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

struct DataFlags {
    SourceFlags source;
    std::string target, recipe, as = "tfrecord"; ///< target: the file or folder to write
    std::vector<std::string> set;
};

std::string joined(const std::vector<double>& values) {
    return listed(values, [](double value) { return fmt::format("{:.4f}", value); });
}

/// Says when classes are so unequal that training may neglect the rare ones; or nothing.
std::string tell_imbalance(const std::vector<std::size_t>& counts, const std::vector<std::string>& names,
                           bool several_labels) {
    constexpr double unequal = 3;
    if (counts.empty()) return "";
    const auto [rarest, most] = std::ranges::minmax_element(counts);
    const double ratio = *rarest > 0 ? double(*most) / double(*rarest) : 0; // without examples, nothing helps
    if (ratio < unequal) return "";
    const auto name = [&](auto count) { return as_printable(names[std::size_t(count - counts.begin())]); };
    return fmt::format("  {} has {:.3g} times as many examples as {}: think of 'train --set {}'\n",
                       name(most), ratio, name(rarest),
                       several_labels
                           ? "loss.positive_weights=balanced"
                           : "training.sampler=balanced', or of '--set loss.class_weights=balanced");
}

/// Names the classes without examples, of a split that has others; or nothing.
std::string tell_missing(Split split, const std::vector<std::size_t>& counts,
                         const std::vector<std::string>& names) {
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < counts.size(); ++i)
        if (counts[i] == 0) missing.push_back(i);
    if (missing.empty() || missing.size() == counts.size()) return "";
    return fmt::format("  there is no example of {} {}\n",
                       listed_first(10, missing, [&](std::size_t i) { return as_printable(names[i]); }),
                       split == Split::train ? "to learn from"
                                             : "to test on; averages over classes leave it out");
}

/// Returns whether all records are sound.
bool describe(const char* split, DataRequest request) {
    const bool skip = std::exchange(request.skip_broken, true); // to name them all
    std::vector<std::string> broken;
    request.left_out = [&](const std::string& problem) { broken.push_back(problem); };
    request.stand_in = false;
    request.thumbnail = 64;
    const auto print_broken = [&] {
        constexpr std::size_t most = 10;
        for (const std::string& each : std::span(broken).first(std::min(most, broken.size())))
            fmt::print("  broken: {}\n", each);
        if (broken.size() > most) fmt::print("  and {} more\n", broken.size() - most);
    };
    std::unique_ptr<DataSource> data;
    try {
        data = open_data(request);
    } catch (const InputError&) { // perhaps because all are broken
        print_broken();
        throw;
    }
    const DataStatistics statistics = statistics_of(*data);
    for (const BrokenRecord& each : statistics.broken) broken.push_back(each.problem);
    const auto& [name, names, image, pictures, unconverted] = data->info();
    const std::size_t sound = data->size() - statistics.broken.size();
    if (pictures && !(pictures->least == image && pictures->most == image))
        fmt::print("{}: {} pictures of {}x{} to {}x{}, as images of {}x{}x{}\n", split, sound,
                   pictures->least.height, pictures->least.width, pictures->most.height, pictures->most.width,
                   image.height, image.width, image.channels);
    else
        fmt::print("{}: {} images of {}x{}x{}\n", split, sound, image.height, image.width, image.channels);
    std::size_t width = 12;
    for (const std::string& each : names) width = std::clamp(each.size(), width, std::size_t(40));
    for (std::size_t i = 0; i < names.size(); ++i)
        fmt::print("  {} {:<{}} {:>6}\n", i, names[i], width, statistics.counts[i]);
    if (statistics.labels)
        fmt::print("  labels an image: {} to {}, mean {:.3g}; {} without any\n", statistics.labels->least,
                   statistics.labels->most, double(statistics.labels->all) / double(sound),
                   count_of(statistics.labels->without, "image"));
    fmt::print("{}", tell_missing(request.split, statistics.counts, names));
    if (request.split == Split::train)
        fmt::print("{}", tell_imbalance(statistics.counts, names, statistics.labels.has_value()));
    fmt::print("  mean = [{}], deviation = [{}]\n", joined(statistics.mean), joined(statistics.deviation));
    print_broken();
    if (!broken.empty() && !skip)
        fmt::print("  replace what is broken, or leave it out with --skip-broken\n");
    const std::string damage = data->find_damage();
    if (!damage.empty()) fmt::print("  broken: {}\n", damage);
    return damage.empty() && (broken.empty() || skip);
}

int describe_source(const DataFlags& flags) {
    const bool train = describe("train", flags.source.request(Split::train));
    bool test = true;
    if (const DataRequest request = flags.source.request(Split::test); has_examples(request))
        test = describe("test", request);
    else
        fmt::print("test: none\n");
    return train && test ? 0 : 1;
}

int make(const DataFlags& flags) {
    for (const char* name : {"data_batch_1.bin", "test_batch.bin"})
        if (fs::exists(fs::path(flags.target) / name))
            throw InputError(
                fmt::format("{} already holds a data set ({}); choose another folder", flags.target, name));
    for (const Split split : {Split::train, Split::test})
        write_cifar10(make_shapes(split, flags.source.seed), split, flags.target);
    fmt::print("wrote the shapes of seed {} to {}; train on them with: {}\n", flags.source.seed, flags.target,
               hint({"train", "--data", path_argument(flags.target)}));
    return 0;
}

using SplitSources = std::array<std::unique_ptr<DataSource>, 2>; ///< by split; there may be no test examples

/// Opens what is to be copied. Refuses a test split that does not fit the training's.
SplitSources open_sources(const DataFlags& flags) {
    SplitSources sources;
    for (const Split split : {Split::train, Split::test}) {
        DataRequest request = flags.source.request(split);
        request.stand_in = false;
        if (split == Split::test && !has_examples(request)) continue;
        auto& source = sources[std::size_t(split)];
        source = flags.recipe.empty() ? open_data(request)
                                      : open_data_for(find_recipe(flags.recipe, flags.set), request);
        if (request.skip_broken) source = without_broken(std::move(source));
    }
    const auto& [train, test] = sources;
    // Numbered classes end with the largest label of a split.
    if (test && (test->image_size() != train->image_size() ||
                 test->info().classes.size() > train->info().classes.size() ||
                 !std::ranges::equal(test->info().classes,
                                     std::span(train->info().classes).first(test->info().classes.size()))))
        throw InputError(
            fmt::format("{}: the test images have another size or other classes than the training "
                        "images; choose the size with '?size=N' or with --recipe of 'data pack', or "
                        "mend the data",
                        flags.source.source));
    if (test && (test->label_sets() == nullptr) != (train->label_sets() == nullptr))
        throw InputError(fmt::format("{}: only the images of one of training and testing may have several "
                                     "labels; mend the data",
                                     as_printable(flags.source.source)));
    return sources;
}

/// A format that `import` writes.
struct Written {
    const char* name;
    std::array<const char*, 2> files; ///< one that a folder then has, by split
    void (*write)(const SplitSources& sources, Split split, const fs::path& folder);
};

constexpr std::array<Written, 3> written = {
    {{"tfrecord",
      {"train.tfrecord", "test.tfrecord"},
      [](const SplitSources& sources, Split split, const fs::path& folder) {
          write_tfrecord(*sources[std::size_t(split)],
                         folder / (split == Split::train ? "train.tfrecord" : "test.tfrecord"));
      }},
     {"cifar10",
      {"data_batch_1.bin", "test_batch.bin"},
      [](const SplitSources& sources, Split split, const fs::path& folder) {
          write_cifar10(*sources[std::size_t(split)], split, folder);
      }},
     {"folder", {"train", "test"}, [](const SplitSources& sources, Split split, const fs::path& folder) {
          write_picture_files(*sources[std::size_t(split)], sources[0]->info().classes,
                              folder / (split == Split::train ? "train" : "test"));
      }}}};

void tell(const SplitSources& sources, const DataFlags& flags) {
    fmt::print("wrote {} training and {} test examples to {}; train on them with: {}\n", sources[0]->size(),
               sources[1] ? sources[1]->size() : 0, flags.target,
               hint({"train", "--data", path_argument(flags.target)}));
}

/// A folder for files that are not complete yet; deletes them when it goes.
class UnfinishedFolder {
public:
    /// `target`: where they belong.
    explicit UnfinishedFolder(fs::path target) : target_(std::move(target)) {
        std::error_code error;
        is_new_ = !fs::exists(target_, error);
        path_ = is_new_ ? target_.parent_path() / fmt::format(".{}{}", target_.filename().string(), suffix)
                        : target_ / suffix;
        for (fs::path above = path_.parent_path(); !above.empty() && !fs::exists(above, error);
             above = above.parent_path())
            created_.push_back(above);
        fs::remove_all(path_, error); // of a program that was killed
        fs::create_directories(path_, error);
        if (error) throw_file_error("create", path_, error.value());
    }
    UnfinishedFolder(const UnfinishedFolder&) = delete;
    UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;
    ~UnfinishedFolder() {
        std::error_code error;
        fs::remove_all(path_, error);
        for (const fs::path& each : created_) fs::remove(each, error); // if it is empty
    }

    const fs::path& path() const { return path_; }

    /// Moves what is there to its place: at once if nothing was there, else `last` last, without which the
    /// others are no data set.
    void finish(const char* last) const {
        if (is_new_) return move(path_, target_);
        for (const bool is_last : {false, true})
            for (const auto& entry : fs::directory_iterator(path_))
                if ((entry.path().filename() == last) == is_last)
                    move(entry.path(), target_ / entry.path().filename());
    }

private:
    static constexpr const char* suffix = ".unfinished-import";

    static void move(const fs::path& from, const fs::path& to) {
        if (::rename(from.c_str(), to.c_str()) != 0) throw_file_error("write", to, errno);
    }

    fs::path target_, path_;
    bool is_new_ = false;           ///< there is nothing at the target
    std::vector<fs::path> created_; ///< folders above, from the lowest one on
};

/// Says if folders for the classes give other labels than the data set has. Refuses a class that only test
/// examples have: folders have the classes of the training examples.
void compare_labels(const SplitSources& sources) {
    const auto used = [](const DataSource& source) {
        return std::set<std::uint32_t>(source.labels().begin(), source.labels().end());
    };
    const std::vector<std::string>& classes = sources[0]->info().classes;
    const std::vector<std::string> folders = folder_names(classes);
    const std::set<std::uint32_t> trained = used(*sources[0]);
    if (sources[1])
        for (const std::uint32_t label : used(*sources[1]))
            if (!trained.contains(label))
                throw InputError(
                    fmt::format("class {} has test examples only, which folders cannot say; write "
                                "with --as tfrecord",
                                classes[label]));
    if (trained.size() < folders.size())
        spdlog::warn(
            "{} of {} classes have no training examples and get no folder, so later ones get other labels",
            folders.size() - trained.size(), folders.size());
    else if (!std::ranges::is_sorted(folders))
        spdlog::warn("the classes get other labels: those of their folders in the order of their names");
}

int import(const DataFlags& flags) {
    fs::path folder = fs::absolute(flags.target).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path(); // it ended with a slash
    const Written& as = *std::ranges::find(written, flags.as, &Written::name);
    std::error_code error; // what cannot be examined fails when it is written
    for (const char* name : as.files)
        if (fs::exists(folder / name, error))
            throw InputError(
                fmt::format("{} already holds a data set ({}); choose another folder", flags.target, name));
    const SplitSources sources = open_sources(flags);
    if (sources[0]->label_sets() != nullptr)
        throw InputError(
            fmt::format("{}: an image may have several labels, which --as {} cannot say; write a "
                        "packed file with 'towers data pack'",
                        as_printable(flags.source.source), flags.as));
    if (flags.as == "folder") compare_labels(sources);
    const UnfinishedFolder unfinished(folder);
    for (const Split split : {Split::train, Split::test})
        if (sources[std::size_t(split)]) as.write(sources, split, unfinished.path());
    unfinished.finish(as.files[0]);
    tell(sources, flags);
    return 0;
}

int pack(const DataFlags& flags) {
    if (std::error_code error; fs::exists(flags.target, error))
        throw InputError(fmt::format("{} is there already; choose another file", flags.target));
    const SplitSources sources = open_sources(flags);
    write_packed(*sources[0], sources[1].get(), flags.target);
    tell(sources, flags);
    return 0;
}

} // namespace

void add_data(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("data", "Make and describe data sets");
    command->require_subcommand(1);
    const auto flags = std::make_shared<DataFlags>();

    CLI::App* const info = command->add_subcommand("describe", "Check a data set and count its examples");
    add_source(*info, flags->source);
    info->callback([flags, &chosen] { chosen = [flags] { return describe_source(*flags); }; });

    CLI::App* const shapes =
        command->add_subcommand("shapes", "Write the drawn shapes in CIFAR-10's binary format");
    shapes->add_option("folder", flags->target, "Folder to write to")->required();
    add_number(*shapes, "--seed", flags->source.seed, "Seed for the drawn shapes")->capture_default_str();
    shapes->callback([flags, &chosen] { chosen = [flags] { return make(*flags); }; });

    CLI::App* const importing = command->add_subcommand("import", "Write a data set in another format");
    add_source(*importing, flags->source);
    importing->add_option("folder", flags->target, "Folder to write to")->required();
    importing
        ->add_option(
            "--as", flags->as,
            "Format to write: tfrecord (train.tfrecord and test.tfrecord), cifar10 (its binary files), or "
            "folder (train/CLASS/*.png and test/CLASS/*.png)")
        ->check(one_of({"tfrecord", "cifar10", "folder"}))
        ->type_name("tfrecord|cifar10|folder")
        ->capture_default_str();
    importing->callback([flags, &chosen] { chosen = [flags] { return import(*flags); }; });
    add_data_show(*command, chosen);

    CLI::App* const packing =
        command->add_subcommand("pack", "Write a data set as one file that is read as fast as possible");
    add_source(*packing, flags->source);
    packing->add_option("file", flags->target, "File to write")->required();
    packing->add_option("--recipe", flags->recipe,
                        "Store the images as this recipe takes them (default: as they are)");
    add_set(*packing, flags->set);
    packing->callback([flags, &chosen] { chosen = [flags] { return pack(*flags); }; });
}

} // namespace towers
