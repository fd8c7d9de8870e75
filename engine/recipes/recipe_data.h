// The data that a recipe takes.
#pragma once

#include "engine/data/formats.h"
#include "engine/recipes/recipe.h"

#include <cstdint>
#include <memory>
#include <string>

namespace towers {

/// Throws InputError when the data does not fit the recipe's model: more classes, other colours, smaller
/// images. `place`: what the message calls the data; empty: by their name.
void check_data(const Recipe& recipe, const DataInfo& data, const std::string& place = "");
/// The same for the classes alone.
void check_classes(const Recipe& recipe, const DataInfo& data, const std::string& place = "");
/// InputError when an example may have several labels and a loss of the recipe wants one of each.
void check_labels(const Recipe& recipe, const DataSource& data, const std::string& place = "");

/// Opens a data set as the recipe takes it. Shapes are drawn at the recipe's size; a file's images are
/// converted if the recipe takes other colours, or if its pipeline takes no images of their size, and the log
/// says so. InputError as open_data() and check_data().
std::unique_ptr<DataSource> open_data_for(const Recipe& recipe, DataRequest request);

/// The order in which training takes the examples. InputError if the recipe wants each class equally often,
/// and one has no examples, or examples may have several classes.
Sampler make_sampler(const Recipe& recipe, const DataSource& data, std::uint64_t seed, bool shuffle);

/// The size to which open_data_for() converts images that are stored like this; `stored` if it need not.
ImageSize taken_size(const Recipe& recipe, const ImageSize& stored);

/// The size at which images are stored for this recipe if there is a choice.
ImageSize stored_size(const Recipe& recipe);

} // namespace towers
