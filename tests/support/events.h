// Reads TensorFlow's event files for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace towers::test {

struct ReadPicture {
    int height = 0, width = 0, channels = 0;
    std::string png;
};

struct ReadHistogram {
    double least = 0, largest = 0, count = 0, sum = 0, squares = 0;
    std::vector<double> limits, counts; ///< of the buckets
};

struct ReadEvent {
    double wall_time = 0;
    std::int64_t step = 0;
    std::string file_version;
    std::optional<int> session_status;
    std::map<std::string, float> scalars; ///< by tag
    std::map<std::string, ReadPicture> pictures;
    std::map<std::string, ReadHistogram> histograms;
};

/// The events of a file, in order. Checks the records' checksums and that there are no other fields.
std::vector<ReadEvent> read_events(const std::filesystem::path& file);

/// The event files of a run, the earliest first.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& run);

} // namespace towers::test
