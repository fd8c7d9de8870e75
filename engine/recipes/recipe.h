// Model, data pipeline, optimizer and schedule under one name.
#pragma once

#include "engine/data/pipeline.h"
#include "engine/data/source.h"
#include "engine/model/model.h"
#include "engine/optimizers/optimizer.h"
#include "engine/plan/state.h"
#include "engine/recipes/schedule.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// Defects of the published systems that are fixed here; `--quirks` brings each one back.
struct Quirks {
    bool last_tower_loss = false;    ///< report the last tower's loss, not the mean over all
    bool step_schedule = false;      ///< decay the learning rate by steps, however many towers share them
    bool unordered_average = false;  ///< average the parameters from before the update
    bool delete_run = false;         ///< delete an earlier run in the run directory at start
    bool padded_evaluation = false;  ///< fill the last evaluation batch with repeated images, and count them
    bool divided_batch_time = false; ///< log seconds a batch divided by the number of towers

    bool operator==(const Quirks&) const = default;
};

/// Reads `last-tower-loss,step-schedule`, `all` or `none`. Throws UsageError that lists the names.
Quirks parse_quirks(const std::string& text);
/// Text that parse_quirks() reads.
std::string format_quirks(const Quirks& quirks);

struct Recipe {
    std::string name, description;
    std::string source;             ///< the file's name, for messages
    std::string text;               ///< of the file; written anew where changes were made
    std::uint64_t checksum = 0;     ///< of all that it says, whatever its comments and layout
    std::vector<std::string> notes; ///< what a user should hear about the changes, a line each
    Model model;
    Pipeline pipeline;
    std::shared_ptr<const Optimizer> optimizer;
    Schedule schedule;
    std::optional<double> average_decay; ///< of the moving averages; none: none are kept
    bool average_warm_up = false;        ///< the decay grows to that: min(decay, (1 + n) / (10 + n))
    unsigned batch = 0;                  ///< mean examples per tower and step
    std::uint64_t steps = 0;
};

/// A built-in recipe's name, or the path of a TOML file (it ends in .toml or holds a '/'), with `changes`,
/// each `table.key=value`; `key=` takes the key or table out. A change of a table's kind takes out what the
/// new kind does not know. UsageError with file and line for whatever is wrong with it.
Recipe find_recipe(const std::string& name, const std::vector<std::string>& changes = {});

/// Whether `name` is a file's, not a built-in recipe's.
bool is_recipe_file(const std::string& name);

/// What a recipe is called: a file's name without folder and .toml, as UTF-8 whatever its bytes are.
std::string recipe_name(const std::string& name);

/// A recipe's text and the name of its file, for messages, as find_recipe() finds them.
struct RecipeFile {
    std::string text, source;
};
RecipeFile find_recipe_file(const std::string& name);

/// `NAME KEY=VALUE ...`, for reports.
std::string with_changes(const std::string& name, const std::vector<std::string>& changes);

/// The file that a run keeps of a recipe of that name.
Recipe read_recipe(const std::string& name, const std::filesystem::path& file);

/// Reads a recipe's text; `source` is the file's name, for messages.
Recipe parse_recipe(const std::string& name, const std::string& text, const std::string& source,
                    const std::vector<std::string>& changes = {});

/// Of the state that a training with this recipe keeps.
StateLayout layout_of(const Recipe& recipe);

/// Throws InputError when the data does not fit the recipe's model: more classes, other colours, smaller
/// images.
void check_data(const Recipe& recipe, const DataInfo& data);

/// The size at which to draw the built-in shapes for this recipe.
ImageSize shapes_size(const Recipe& recipe);

/// The moving averages' decay at update `n`, counted from 1.
double average_decay_at(const Recipe& recipe, std::uint64_t n);

/// What a step gets from the host that makes update `n`, counted from 1.
StepNumbers numbers_of_update(const Recipe& recipe, double learning_rate, std::uint64_t n);

} // namespace towers
