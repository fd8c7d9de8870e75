#include "apps/towers/commands.h"
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
#include <spdlog/spdlog.h>
#include <string>
#include <system_error>
#include <vector>

namespace towers {
namespace {

struct DataFlags {
    std::string source, folder, recipe, as = "tfrecord";
    std::uint64_t seed = 1;
};

std::string joined(const std::vector<double>& values) {
    return listed(values, [](double value) { return fmt::format("{:.4f}", value); });
}

/// Returns whether all records are sound.
bool describe(const char* split, const DataSource& data) {
    const auto& [name, classes, image] = data.info();
    const DataStatistics statistics = statistics_of(data);
    fmt::print("{}: {} images of {}x{}x{}\n", split, data.size(), image.height, image.width, image.channels);
    for (std::size_t i = 0; i < classes.size(); ++i)
        fmt::print("  {} {:<12} {:>6}\n", i, classes[i], statistics.counts[i]);
    fmt::print("  mean = [{}], deviation = [{}]\n", joined(statistics.mean), joined(statistics.deviation));
    constexpr std::size_t most = 10;
    for (const std::string& problem :
         std::span(statistics.broken).first(std::min(most, statistics.broken.size())))
        fmt::print("  broken: {}\n", problem);
    if (statistics.broken.size() > most) fmt::print("  and {} more\n", statistics.broken.size() - most);
    return statistics.broken.empty();
}

int describe_source(const DataFlags& flags) {
    const bool train = describe("train", *open_data({flags.source, Split::train, flags.seed}));
    const bool test = describe("test", *open_data({flags.source, Split::test, flags.seed}));
    return train && test ? 0 : 1;
}

int make(const DataFlags& flags) {
    for (const char* name : {"data_batch_1.bin", "test_batch.bin"})
        if (std::filesystem::exists(std::filesystem::path(flags.folder) / name))
            throw InputError(
                fmt::format("{} already holds a data set ({}); choose another folder", flags.folder, name));
    for (const Split split : {Split::train, Split::test})
        write_cifar10(make_shapes(split, flags.seed), split, flags.folder);
    fmt::print("wrote the shapes of seed {} to {}; train on them with: {}\n", flags.seed, flags.folder,
               hint({"train", "--data", path_argument(flags.folder)}));
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

int import(const DataFlags& flags) {
    const std::filesystem::path folder = flags.folder;
    const Written& as = *std::ranges::find(written, flags.as, &Written::name);
    std::error_code error; // what cannot be examined fails when it is written
    for (const char* name : as.files)
        if (std::filesystem::exists(folder / name, error))
            throw InputError(
                fmt::format("{} already holds a data set ({}); choose another folder", flags.folder, name));
    std::array<std::unique_ptr<DataSource>, 2> sources; // both are sound before anything is written
    for (const Split split : {Split::train, Split::test})
        sources[std::size_t(split)] = open_data({flags.source, split, flags.seed});
    std::filesystem::create_directories(folder, error);
    if (error) throw_file_error("create", folder, error.value());
    for (const Split split : {Split::train, Split::test})
        as.write(*sources[std::size_t(split)], split, folder);
    fmt::print("wrote {} training and {} test examples to {}; train on them with: {}\n", sources[0]->size(),
               sources[1]->size(), flags.folder, hint({"train", "--data", path_argument(flags.folder)}));
    return 0;
}

int pack(const DataFlags& flags) {
    if (std::error_code error; std::filesystem::exists(flags.folder, error))
        throw InputError(fmt::format("{} is there already; choose another file", flags.folder));
    const auto open = [&](Split split) {
        const DataRequest request{flags.source, split, flags.seed};
        return flags.recipe.empty() ? open_data(request) : open_data_for(find_recipe(flags.recipe), request);
    };
    const std::unique_ptr<DataSource> train = open(Split::train);
    std::unique_ptr<DataSource> test;
    try {
        test = open(Split::test);
    } catch (const InputError& error) {
        spdlog::warn("{}; the file gets the training examples alone", as_printable(error.what()));
    }
    if (test && (test->image_size() != train->image_size() || test->info().classes != train->info().classes))
        throw InputError(
            fmt::format("{}: the test images have another size or other classes than the training "
                        "images; choose the size with --recipe, or mend the data",
                        flags.source));
    write_packed(*train, test.get(), flags.folder);
    fmt::print("wrote {} training and {} test examples to {}; train on them with: {}\n", train->size(),
               test ? test->size() : 0, flags.folder, hint({"train", "--data", path_argument(flags.folder)}));
    return 0;
}

void add_seed(CLI::App& command, DataFlags& flags) {
    // The same range as train's, so that train can use the same shapes.
    add_number(command, "--seed", flags.seed, "Seed for the drawn shapes")->capture_default_str();
}

} // namespace

void add_data(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("data", "Make and describe data sets");
    command->require_subcommand(1);
    const auto flags = std::make_shared<DataFlags>();

    CLI::App* const info = command->add_subcommand("describe", "Check a data set and count its examples");
    info->add_option("source", flags->source, "Data set: " + data_help(false))->required();
    add_seed(*info, *flags);
    info->callback([flags, &chosen] { chosen = [flags] { return describe_source(*flags); }; });

    CLI::App* const shapes =
        command->add_subcommand("shapes", "Write the drawn shapes in CIFAR-10's binary format");
    shapes->add_option("folder", flags->folder, "Folder to write to")->required();
    add_seed(*shapes, *flags);
    shapes->callback([flags, &chosen] { chosen = [flags] { return make(*flags); }; });

    CLI::App* const importing = command->add_subcommand("import", "Write a data set in another format");
    importing->add_option("source", flags->source, "Data set: " + data_help(false))->required();
    importing->add_option("folder", flags->folder, "Folder to write to")->required();
    importing
        ->add_option(
            "--as", flags->as,
            "Format to write: tfrecord (train.tfrecord and test.tfrecord), cifar10 (its binary files), or "
            "folder (train/CLASS/*.png and test/CLASS/*.png)")
        ->check(one_of({"tfrecord", "cifar10", "folder"}))
        ->type_name("tfrecord|cifar10|folder")
        ->capture_default_str();
    add_seed(*importing, *flags);
    importing->callback([flags, &chosen] { chosen = [flags] { return import(*flags); }; });
    add_data_show(*command, chosen);

    CLI::App* const packing =
        command->add_subcommand("pack", "Write a data set as one file that is read as fast as possible");
    packing->add_option("source", flags->source, "Data set: " + data_help(false))->required();
    packing->add_option("file", flags->folder, "File to write")->required();
    packing->add_option("--recipe", flags->recipe,
                        "Store the images as this recipe takes them (default: as they are)");
    add_seed(*packing, *flags);
    packing->callback([flags, &chosen] { chosen = [flags] { return pack(*flags); }; });
}

} // namespace towers
