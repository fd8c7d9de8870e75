// Pictures in files of their own. Only the index is in memory; pictures are decoded when they are read.
#pragma once

#include "backends/checksum.h"
#include "engine/data/formats.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// Which files a data set has, and its records, several of which may have one file.
struct PictureListing {
    struct Record {
        std::uint32_t file, label; ///< label: or the number of its set
    };

    std::filesystem::path folder;
    std::vector<std::string> files; ///< below the folder, or absolute
    std::vector<Record> records;    ///< in their order
    /// If a picture may have several labels, or none.
    std::optional<LabelSets> sets = {};
    Checksum checksum = {}; ///< of what else tells data sets apart
};

/// The most records of a data set.
constexpr std::size_t most_pictures = std::size_t(1) << 31;

/// Whether a request's split has a picture, as its held_out says. `name`: the class, '/' and the name in
/// it, on which alone it depends, so that pictures keep their side when others are added.
bool is_in_split(const std::string& name, const DataRequest& request);

/// ` with this --hold-out or --fold`, for messages, if the request holds pictures out, else "".
std::string with_held_out(const DataRequest& request);

/// Reads the header of every file, and makes a data set of those that are sound. InputError for broken ones,
/// unless the request leaves them out.
std::unique_ptr<DataSource> open_listed(PictureListing listing, std::vector<std::string> classes,
                                        const DataRequest& request);

} // namespace towers
