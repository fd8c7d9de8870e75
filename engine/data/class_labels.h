// The labels that classes have where a network was trained.
#pragma once

#include "engine/data/source.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// Whether names of classes are 0, 1, 2 ..., perhaps with zeros in front: those of data without names.
bool are_numbers_in_order(const std::vector<std::string>& names);

/// The whole numbers, perhaps with zeros in front, that all classes are called; none if one is called
/// otherwise, or two are called the same number.
std::optional<std::vector<std::uint32_t>> numbers_of(const std::vector<std::string>& names);

/// Labels are below it.
constexpr std::uint32_t most_classes = 1 << 20;

/// The numbers that all classes are called, where these may be labels: names such as 1990 and 2000 would
/// leave most classes without examples, so the largest is below ten times the number of classes.
std::optional<std::vector<std::uint32_t>> labels_in(const std::vector<std::string>& names);

/// Gives a data set the classes of the data that a network was trained on, and its records their labels: by
/// name, or by number where both sides' names are numbers. If it is not `named`, so that its labels have
/// their own meaning, it keeps them unless both sides are numbers in different orders. InputError, which
/// names `source`, for examples of a class that was not trained.
void take_training_classes(DataSource& data, const std::vector<std::string>& trained, bool named,
                           const std::string& source);

} // namespace towers
