#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/flags.h"
#include "backends/error.h"
#include "engine/data/contact_sheet.h"
#include "engine/data/formats.h"
#include "engine/data/sampler.h"
#include "engine/files/text.h"
#include "engine/inference/preview.h"
#include "engine/recipes/recipe_data.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {
namespace {

struct ShowFlags {
    SourceFlags source;
    std::string file, recipe, split = "train";
    std::vector<std::string> set;
    std::uint32_t epoch = 0;
    unsigned count = 40, columns = 8;
};

SheetImage image_of(std::span<const std::uint8_t> images, const ImageSize& size, std::size_t index) {
    const auto image = images.subspan(index * size.elements(), size.elements());
    return {size, {image.begin(), image.end()}};
}

/// The files of the records on the sheet, a line for each; nothing where records have no files.
void print_places(const DataSource& data, const std::vector<std::uint32_t>& records) {
    const std::size_t width = records.empty() ? 0 : fmt::to_string(std::ranges::max(records)).size();
    for (const std::uint32_t record : records)
        if (const std::string place = data.place_of(record); !place.empty())
            fmt::print("{:>{}} {}\n", record, width, as_printable(place));
}

/// The names of a record's classes.
std::string labels_of(const DataSource& data, std::uint32_t record) {
    const std::vector<std::string>& names = data.info().classes;
    if (data.label_sets() == nullptr) return names[data.labels()[record]];
    const std::span<const std::uint32_t> labels = data.label_sets()->of(record);
    return labels.empty() ? "(no label)" : listed(labels, [&](std::uint32_t label) { return names[label]; });
}

std::string title_of(const DataSource& data, std::uint32_t record) {
    return fmt::format("{} {}", record, labels_of(data, record));
}

int show(const ShowFlags& flags) {
    if (lower(std::filesystem::path(flags.file).extension().string()) != ".png")
        throw UsageError(fmt::format("{}: a sheet is a PNG file; give a name that ends in .png", flags.file));
    if (flags.recipe.empty() && !flags.set.empty())
        throw UsageError("--set changes a recipe, of which there is none; give --recipe NAME too");
    const Split split = flags.split == "train" ? Split::train : Split::test;
    std::optional<Recipe> recipe;
    if (!flags.recipe.empty()) recipe = find_recipe(flags.recipe, flags.set);
    DataRequest request = flags.source.request(split);
    request.thumbnail = 96;
    const std::unique_ptr<DataSource> data = recipe ? open_data_for(*recipe, request) : open_data(request);

    // The first examples of the epoch, as training with this seed takes them: if it mixes them, those of one
    // tower's first batch there.
    const bool mixes = recipe && split == Split::train && recipe->mixing.mixes();
    std::uint64_t first = std::uint64_t(flags.epoch) * data->size();
    if (mixes) first = (first + recipe->batch - 1) / recipe->batch * recipe->batch;
    std::vector<Example> examples(mixes ? recipe->batch : std::min<std::size_t>(flags.count, data->size()));
    Sampler sampler = recipe && split == Split::train
                          ? make_sampler(*recipe, *data, flags.source.seed, true)
                          : Sampler(std::uint32_t(data->size()), flags.source.seed, true);
    sampler.fill(first, examples);
    std::vector<Mix> mixes_of_shown;
    if (mixes) {
        const BatchTables tables{
            .mixes = mixes_of(recipe->mixing, flags.source.seed, first, recipe->batch, recipe->model.input),
            .targets = {},
            .class_weights = {}};
        const std::size_t count = std::min<std::size_t>(flags.count, examples.size());
        const KeptBatch shown = keep(Batch::all(first, examples, {}, tables).slice(0, count));
        examples = shown.all();
        mixes_of_shown = shown.tables.mixes;
        mixes_of_shown.resize(examples.size()); // whose partners are as they are
    }
    std::vector<std::uint32_t> records;
    for (const Example& example : examples) records.push_back(example.record);
    std::vector<std::uint8_t> stored(records.size() * data->image_size().elements()), made;
    data->read(records, stored);
    if (recipe)
        made =
            preview(*recipe, *data, examples,
                    {.seed = flags.source.seed, .distort = split == Split::train, .mixes = mixes_of_shown});
    records.resize(std::min<std::size_t>(flags.count, records.size()));

    std::vector<SheetCell> cells;
    for (std::size_t i = 0; i < records.size(); ++i) {
        SheetCell cell{title_of(*data, records[i]), {}};
        if (const double part = mixes ? mixes_of_shown[i].partner_target(recipe->model.input) : 0; part > 0)
            cell.label += fmt::format(" + {:.0f}% {}", 100 * part,
                                      title_of(*data, examples[mixes_of_shown[i].partner].record));
        cell.images.push_back(image_of(stored, data->image_size(), i));
        if (recipe) cell.images.push_back(image_of(made, recipe->model.input, i));
        cells.push_back(std::move(cell));
    }
    write_contact_sheet(flags.file, cells, flags.columns);
    fmt::print("wrote {} of {} images with their records and classes to {}{}\n", cells.size(), data->size(),
               flags.file,
               recipe ? fmt::format(": as stored, and as {} sees them in epoch {}", recipe->name, flags.epoch)
                      : "");
    print_places(*data, records);
    return 0;
}

} // namespace

void add_data_show(CLI::App& data, Action& chosen) {
    CLI::App* const command = data.add_subcommand("show", "Draw some images of a data set with their labels");
    const auto flags = std::make_shared<ShowFlags>();
    add_source(*command, flags->source);
    command->add_option("file", flags->file, "PNG file to write")->required();
    command->add_option("--recipe", flags->recipe,
                        "Show also what this recipe's network sees: a TOML file, or a built-in one's name");
    add_set(*command, flags->set);
    add_number(*command, "--epoch", flags->epoch,
               "Pass over the data, from 0, whose first images and distortions to show")
        ->capture_default_str();
    command->add_option("--split", flags->split, "Examples to show: train or test")
        ->check(one_of({"train", "test"}))
        ->type_name("train|test")
        ->capture_default_str();
    add_number(*command, "--count", flags->count, "Number of images", 1)->capture_default_str();
    add_number(*command, "--columns", flags->columns, "Number of images in a row", 1)->capture_default_str();
    command->callback([flags, &chosen] { chosen = [flags] { return show(*flags); }; });
}

} // namespace towers
