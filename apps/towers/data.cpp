#include "apps/towers/commands.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/flags.h"
#include "apps/towers/hint.h"
#include "engine/data/cifar10.h"
#include "engine/data/formats.h"
#include "engine/data/shapes.h"
#include "engine/data/tfrecord.h"
#include "engine/error.h"
#include "engine/files/file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <system_error>
#include <utility>

namespace towers {
namespace {

struct DataFlags {
    std::string source, folder, format, hold_out;
    std::uint64_t seed = 1;
    bool skip_broken = false;
};

void describe(const char* split, const DataSource& data) {
    const auto& [name, classes, image, pictures] = data.info();
    std::vector<std::size_t> counts(classes.size(), 0);
    for (const std::uint32_t label : data.labels()) ++counts[label];
    if (pictures && image.height == 0)
        fmt::print("{}: {} pictures of {}x{} to {}x{}\n", split, data.size(), pictures->least.height,
                   pictures->least.width, pictures->most.height, pictures->most.width);
    else
        fmt::print("{}: {} images of {}x{}x{}\n", split, data.size(), image.height, image.width,
                   image.channels);
    for (std::size_t i = 0; i < counts.size(); ++i)
        fmt::print("  {} {:<12} {:>6}\n", i, classes[i], counts[i]);
}

int describe_source(const DataFlags& flags) {
    DataRequest request{flags.source, Split::train, flags.seed};
    request.format = flags.format;
    request.hold_out = hold_out_part(flags.hold_out);
    request.skip_broken = flags.skip_broken;
    describe("train", *open_data(request));
    request.split = Split::test;
    if (has_examples(request))
        describe("test", *open_data(request));
    else
        fmt::print("test: none\n");
    return 0;
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

int import(const DataFlags& flags) {
    const std::filesystem::path folder = flags.folder;
    constexpr std::array<std::pair<Split, const char*>, 2> files = {
        {{Split::train, "train.tfrecord"}, {Split::test, "test.tfrecord"}}};
    for (const auto& [split, name] : files)
        if (std::filesystem::exists(folder / name))
            throw InputError(
                fmt::format("{} already holds a data set ({}); choose another folder", flags.folder, name));
    std::array<std::unique_ptr<DataSource>, 2> sources; // both are sound before anything is written
    for (const auto& [split, name] : files)
        sources[std::size_t(split)] = open_data({flags.source, split, flags.seed});
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw_file_error("create", folder, error.value());
    for (const auto& [split, name] : files) write_tfrecord(*sources[std::size_t(split)], folder / name);
    fmt::print("wrote {} training and {} test examples to {}; train on them with: {}\n", sources[0]->size(),
               sources[1]->size(), flags.folder, hint({"train", "--data", path_argument(flags.folder)}));
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
    info->add_option("--format", flags->format, format_help());
    info->add_option("--hold-out", flags->hold_out, hold_out_help);
    info->add_flag("--skip-broken", flags->skip_broken, skip_broken_help);
    info->callback([flags, &chosen] { chosen = [flags] { return describe_source(*flags); }; });

    CLI::App* const shapes =
        command->add_subcommand("shapes", "Write the drawn shapes in CIFAR-10's binary format");
    shapes->add_option("folder", flags->folder, "Folder to write to")->required();
    add_seed(*shapes, *flags);
    shapes->callback([flags, &chosen] { chosen = [flags] { return make(*flags); }; });

    CLI::App* const importing = command->add_subcommand("import", "Write a data set as TFRecord files");
    importing->add_option("source", flags->source, "Data set: " + data_help(false))->required();
    importing->add_option("folder", flags->folder, "Folder to write to")->required();
    add_seed(*importing, *flags);
    importing->callback([flags, &chosen] { chosen = [flags] { return import(*flags); }; });
}

} // namespace towers
