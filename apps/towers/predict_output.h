// How `towers predict` prints what a network sees in pictures.
#pragma once

#include "engine/inference/predict.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace towers {

enum class PredictionFormat { text, json, csv };

/// What a CSV file begins with; "" of the other formats. `top`: classes of each picture.
std::string prediction_header(PredictionFormat format, std::size_t top);
/// The same where a picture may have several labels.
std::string labels_header(PredictionFormat format, const std::vector<std::string>& names);

/// A picture's line, with its line end. `names`: of the network's classes. `scores`: for JSON; of all
/// classes, or empty.
std::string prediction_line(PredictionFormat format, const std::string& picture,
                            std::span<const ClassProbability> classes, const std::vector<std::string>& names,
                            std::span<const float> scores);
/// The same where a picture may have several labels or none: those in `labels`, and for CSV the probabilities
/// of all classes.
std::string labels_line(PredictionFormat format, const std::string& picture,
                        std::span<const ClassProbability> labels, std::span<const double> probabilities,
                        const std::vector<std::string>& names, std::span<const float> scores);

/// Prints lines on standard output, and problems on standard error, in the order of the pictures, whoever
/// brings them first. On a terminal that does not get the lines, it shows how far they are.
class PredictionOutput {
public:
    explicit PredictionOutput(std::uint64_t pictures);
    ~PredictionOutput() { hide_progress(); }
    PredictionOutput(const PredictionOutput&) = delete;
    PredictionOutput& operator=(const PredictionOutput&) = delete;

    /// Of so many consecutive pictures: a line each, or a problem.
    struct Part {
        std::size_t pictures = 0;
        std::string lines;
        std::vector<std::string> problems;
    };
    /// `first`: the number of the part's first picture. From any thread. Throws std::system_error if standard
    /// output fails.
    void add(std::uint64_t first, Part part);

private:
    void show_progress();
    void hide_progress();

    std::uint64_t pictures_;
    bool shows_progress_;
    std::chrono::steady_clock::time_point begun_, shown_;
    std::size_t width_ = 0; ///< of what the terminal shows of the progress
    std::mutex mutex_;
    std::map<std::uint64_t, Part> waiting_; ///< for those before them
    std::uint64_t printed_ = 0;             ///< pictures
};

} // namespace towers
