// A recipe: model, data pipeline, optimizer and schedule under one name.
#pragma once

#include "engine/data/formats.h"
#include "engine/data/pipeline.h"
#include "engine/data/source.h"
#include "engine/model/model.h"
#include "engine/optimizers/optimizer.h"
#include "engine/recipes/schedule.h"
#include "engine/step/network.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// Defects of the published systems. They are fixed here; `--quirks` brings each one back.
struct Quirks {
    bool last_tower_loss = false;    ///< report the last tower's loss, not the mean over all
    bool step_schedule = false;      ///< decay the learning rate by steps, however many towers share them
    bool unordered_average = false;  ///< average the parameters from before the update
    bool delete_run = false;         ///< delete an earlier run in the run directory at start
    bool padded_evaluation = false;  ///< fill the last evaluation batch with repeated images, and count them
    bool divided_batch_time = false; ///< log seconds a batch divided by the number of towers

    bool operator==(const Quirks&) const = default;
};

/// Reads a list such as `last-tower-loss,step-schedule`, `all` or `none`. Throws UsageError, which lists the
/// names.
Quirks parse_quirks(const std::string& text);

struct Recipe {
    std::string name, description;
    std::string source;             ///< the file's name, for messages
    std::string text;               ///< the file's, or written anew if changes were made
    std::uint64_t checksum = 0;     ///< of the content without comments and layout
    std::vector<std::string> notes; ///< lines for the user about the changes
    Model model;
    Pipeline pipeline;
    std::shared_ptr<const Optimizer> optimizer;
    Schedule schedule;
    std::optional<double> average_decay; ///< of the moving averages; absent: there are none
    bool average_warm_up = false;        ///< the decay is min(average_decay, (1 + n) / (10 + n))
    unsigned batch = 0;                  ///< mean examples per tower and step
    std::uint64_t steps = 0;
};

/// Reads a recipe. `name` is a built-in recipe's, or the path of a TOML file if it ends in .toml or contains
/// a '/'. Each of `changes` is `table.key=value`; `key=` removes a key or table. Changing a table's kind
/// removes the keys that the new kind lacks. Throws UsageError with file and line.
Recipe find_recipe(const std::string& name, const std::vector<std::string>& changes = {});

/// Whether `name` is a path and not a built-in recipe's name.
bool is_recipe_file(const std::string& name);

/// A recipe's name: for a file, its name without folder and .toml, made valid UTF-8.
std::string recipe_name(const std::string& name);

/// The text of a recipe that find_recipe() would read, and its file's name for messages.
struct RecipeFile {
    std::string text, source;
};
RecipeFile find_recipe_file(const std::string& name);

/// `NAME KEY=VALUE ...`, for reports.
std::string with_changes(const std::string& name, const std::vector<std::string>& changes);

/// Reads the file in which a run keeps the recipe of this name.
Recipe read_recipe(const std::string& name, const std::filesystem::path& file);

/// Reads a recipe's text; `source` is the file's name, for messages.
Recipe parse_recipe(const std::string& name, const std::string& text, const std::string& source,
                    const std::vector<std::string>& changes = {});

/// The layout of the training state for this recipe.
StateLayout layout_of(const Recipe& recipe);

/// What plans of the recipe are made for: `rest` with the recipe's parts. What is named here must outlive it.
NetworkSpec network_spec(const Recipe& recipe, const StateLayout& layout, NetworkSpec rest);
UpdateSpec update_spec(const Recipe& recipe, const StateLayout& layout, const Quirks& quirks = {});

/// Throws InputError when the data does not fit the recipe's model: more classes, other colours, smaller
/// images. `place`: what the message calls the data; empty: by their name.
void check_data(const Recipe& recipe, const DataInfo& data, const std::string& place = "");
/// The same for the classes alone.
void check_classes(const Recipe& recipe, const DataInfo& data, const std::string& place = "");

/// Opens a data set as the recipe takes it. Shapes are drawn at the recipe's size; a file's images are
/// converted if the recipe takes other colours, or if its pipeline takes no images of their size, and the log
/// says so. InputError as open_data() and check_data().
std::unique_ptr<DataSource> open_data_for(const Recipe& recipe, DataRequest request);

/// The size to which open_data_for() converts images that are stored like this; `stored` if it need not.
ImageSize taken_size(const Recipe& recipe, const ImageSize& stored);

/// The size at which images are stored for this recipe if there is a choice.
ImageSize stored_size(const Recipe& recipe);

/// The moving averages' decay at update `n`, counted from 1.
double average_decay_at(const Recipe& recipe, std::uint64_t n);

/// The numbers that the host gives the step with update `n`, counted from 1.
StepNumbers numbers_of_update(const Recipe& recipe, double learning_rate, std::uint64_t n);

} // namespace towers
