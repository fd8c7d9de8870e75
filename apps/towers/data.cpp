#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/flags.h"
#include "apps/towers/hint.h"
#include "engine/data/cifar10.h"
#include "engine/data/formats.h"
#include "engine/data/packed.h"
#include "engine/data/picture_files.h"
#include "engine/data/shapes.h"
#include "engine/data/statistics.h"
#include "engine/data/tfrecord.h"
#include "engine/error.h"
#include "engine/files/file.h"
#include "engine/files/text.h"
#include "engine/recipes/recipe.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace towers {
namespace {

struct DataFlags {
    SourceFlags source;
    std::string target, recipe, as = "tfrecord"; ///< target: the file or folder to write
    std::vector<std::string> set;
};

std::string joined(const std::vector<double>& values) {
    return listed(values, [](double value) { return fmt::format("{:.4f}", value); });
}

/// Returns whether all records are sound.
bool describe(const char* split, DataRequest request) {
    std::unique_ptr<DataSource> data = open_data(request);
    const auto& [name, classes, image, pictures] = data->info();
    if (pictures && image.height == 0) {
        fmt::print("{}: {} pictures of {}x{} to {}x{}\n", split, data->size(), pictures->least.height,
                   pictures->least.width, pictures->most.height, pictures->most.width);
        request.image = {64, 64, image.channels}; // to decode them
        data = open_data(request);
    } else {
        fmt::print("{}: {} images of {}x{}x{}\n", split, data->size(), image.height, image.width,
                   image.channels);
    }
    const DataStatistics statistics = statistics_of(*data);
    const std::vector<std::string>& names = data->info().classes;
    for (std::size_t i = 0; i < names.size(); ++i)
        fmt::print("  {} {:<12} {:>6}\n", i, names[i], statistics.counts[i]);
    fmt::print("  mean = [{}], deviation = [{}]\n", joined(statistics.mean), joined(statistics.deviation));
    constexpr std::size_t most = 10;
    for (const std::string& problem :
         std::span(statistics.broken).first(std::min(most, statistics.broken.size())))
        fmt::print("  broken: {}\n", problem);
    if (statistics.broken.size() > most) fmt::print("  and {} more\n", statistics.broken.size() - most);
    return statistics.broken.empty();
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
        if (std::filesystem::exists(std::filesystem::path(flags.target) / name))
            throw InputError(
                fmt::format("{} already holds a data set ({}); choose another folder", flags.target, name));
    for (const Split split : {Split::train, Split::test})
        write_cifar10(make_shapes(split, flags.source.seed), split, flags.target);
    fmt::print("wrote the shapes of seed {} to {}; train on them with: {}\n", flags.source.seed, flags.target,
               hint({"train", "--data", path_argument(flags.target)}));
    return 0;
}

/// A format that `import` writes.
struct Written {
    const char* name;
    std::array<const char*, 2> files; ///< one that a folder then has, by split
    void (*write)(const DataSource& data, Split split, const std::filesystem::path& folder);
};

constexpr std::array<Written, 3> written = {
    {{"tfrecord",
      {"train.tfrecord", "test.tfrecord"},
      [](const DataSource& data, Split split, const std::filesystem::path& folder) {
          write_tfrecord(data, folder / (split == Split::train ? "train.tfrecord" : "test.tfrecord"));
      }},
     {"cifar10", {"data_batch_1.bin", "test_batch.bin"}, write_cifar10},
     {"folder",
      {"train", "test"},
      [](const DataSource& data, Split split, const std::filesystem::path& folder) {
          write_picture_files(data, folder / (split == Split::train ? "train" : "test"));
      }}}};

void tell(const std::array<std::unique_ptr<DataSource>, 2>& sources, const DataFlags& flags) {
    fmt::print("wrote {} training and {} test examples to {}; train on them with: {}\n", sources[0]->size(),
               sources[1] ? sources[1]->size() : 0, flags.target,
               hint({"train", "--data", path_argument(flags.target)}));
}

int import(const DataFlags& flags) {
    const std::filesystem::path folder = flags.target;
    const Written& as = *std::ranges::find(written, flags.as, &Written::name);
    std::error_code error; // what cannot be examined fails when it is written
    for (const char* name : as.files)
        if (std::filesystem::exists(folder / name, error))
            throw InputError(
                fmt::format("{} already holds a data set ({}); choose another folder", flags.target, name));
    std::array<std::unique_ptr<DataSource>, 2> sources; // both are sound before anything is written
    for (const Split split : {Split::train, Split::test})
        if (const DataRequest request = flags.source.request(split);
            split == Split::train || has_examples(request))
            sources[std::size_t(split)] = open_data(request);
    std::filesystem::create_directories(folder, error);
    if (error) throw_file_error("create", folder, error.value());
    for (const Split split : {Split::train, Split::test})
        if (sources[std::size_t(split)]) as.write(*sources[std::size_t(split)], split, folder);
    tell(sources, flags);
    return 0;
}

int pack(const DataFlags& flags) {
    if (std::error_code error; std::filesystem::exists(flags.target, error))
        throw InputError(fmt::format("{} is there already; choose another file", flags.target));
    std::array<std::unique_ptr<DataSource>, 2> sources;
    for (const Split split : {Split::train, Split::test})
        if (const DataRequest request = flags.source.request(split);
            split == Split::train || has_examples(request))
            sources[std::size_t(split)] = flags.recipe.empty()
                                              ? open_data(request)
                                              : open_data_for(find_recipe(flags.recipe, flags.set), request);
    const auto& [train, test] = sources;
    if (test && (test->image_size() != train->image_size() || test->info().classes != train->info().classes))
        throw InputError(
            fmt::format("{}: the test images have another size or other classes than the training "
                        "images; choose the size with --recipe, or mend the data",
                        flags.source.source));
    write_packed(*train, test.get(), flags.target);
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
