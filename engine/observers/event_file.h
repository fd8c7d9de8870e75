// TensorFlow's event files, which TensorBoard reads: a sequence of records (engine/data/record_file.h), each
// a protobuf message `Event` (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).
#pragma once

#include "engine/files/append_file.h"
#include "engine/files/png_file.h"
#include "engine/run/run_directory.h"
#include "engine/step/histograms.h"

#include <cstdint>
#include <optional>
#include <string>

namespace towers {

/// The values of a step: the message `Summary`.
class Summary {
public:
    void add_scalar(const std::string& tag, double value);
    void add_histogram(const Histogram& histogram, const std::string& tag);
    void add_picture(const std::string& tag, const PngSize& size, const std::string& png);

    const std::string& bytes() const { return bytes_; }

private:
    std::string bytes_;
};

/// Writes the events of one start of a run to a file of its own. Makes the file with the first summary.
class EventFile {
public:
    /// `step`: the first that this start takes. The file begins with it, so that a viewer drops what earlier
    /// files say of it and of later steps.
    EventFile(const RunDirectory& run, std::uint64_t step) : run_(run), step_(step) {}

    /// The file's path; before the first summary, the folder's.
    std::string place() const { return (file_ ? file_->path() : run_.path()).string(); }

    /// Adds a summary to those that the next append() or sync() writes.
    void add(std::uint64_t step, const Summary& summary);
    /// Errors as of AppendFile, except that a summary is lost if too many cannot be written.
    void append(std::uint64_t step, const Summary& summary);
    void sync();

private:
    AppendFile& file();

    const RunDirectory& run_;
    std::uint64_t step_;
    std::optional<AppendFile> file_;
    std::string waiting_; ///< records that append() and sync() give to the file
};

} // namespace towers
