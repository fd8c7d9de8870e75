// What eval says of the classes.
#pragma once

#include "engine/files/canvas.h"
#include "engine/inference/classification_report.h"
#include "engine/inference/multilabel_report.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace towers {

/// A line for each class: its examples, precision, recall, F1, AUC, and what it is taken for most often; then
/// the averages. `names`: of the network's classes.
std::string class_table(const ClassificationReport& report, const std::vector<std::string>& names);

/// The same where examples may have several labels, with average precision, true and false positives and
/// negatives and the threshold. `names`: of the data's classes.
std::string class_table(const MultilabelReport& report, const std::vector<std::string>& names);

/// The same figures: `schema`, `towers_version`, `calibration_bins` and `classes` of eval.schema.json.
nlohmann::json to_json(const ClassificationReport& report, const std::vector<std::string>& names);

nlohmann::json to_json(const MultilabelReport& report, const std::vector<std::string>& names,
                       unsigned label_offset);

/// As CSV a row for each class with its threshold, true and false positives and negatives.
std::string confusion_csv(const MultilabelReport& report, const std::vector<std::string>& names);

/// The matrix as CSV (RFC 4180): a row for each class, a column for each predicted class, with their names.
std::string confusion_csv(const Confusion& confusion, const std::vector<std::string>& names);

/// The matrix as a picture, one cell per count, with the same order of rows and columns: white is 0, black
/// all of the row's examples. Rows have their names on the left and columns above, if cells are high enough
/// for text.
Canvas confusion_picture(const Confusion& confusion, const std::vector<std::string>& names);

/// Throws UsageError if write_confusion() knows no such file by its ending, and InputError if it could not
/// write it. Changes nothing.
void check_confusion_file(const std::filesystem::path& path);

/// Writes the matrix as the file's ending says; `-` is CSV on standard output. Throws InputError.
void write_confusion(const std::filesystem::path& path, const Confusion& confusion,
                     const std::vector<std::string>& names);

} // namespace towers
