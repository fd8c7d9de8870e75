// The formats of data sets, and opening what --data names.
#pragma once

#include "engine/data/source.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace towers {

struct DataRequest {
    std::string source; ///< what --data says: a path, a pattern of paths, or a format's word
    Split split;
    std::uint64_t seed = 1;        ///< of what is drawn
    ImageSize image = {32, 32, 3}; ///< the size at which images are drawn; files keep theirs
    bool whole = false;            ///< the source is for this split alone, whatever its files are called
    std::map<std::string, std::string> wishes = {}; ///< `?NAME=VALUE&NAME=VALUE` after the source's path
};

/// Each format is a line in formats.def.
struct DataFormat {
    std::string_view
        name; ///< of a folder's files: `MNIST's`, after "a folder with"; or the word that --data takes
    std::string_view more;                  ///< about a word: `ten classes of drawn shapes`
    std::array<std::string_view, 2> files;  ///< one that a folder has, by split; empty: a word
    std::array<std::string_view, 2> wishes; ///< the names that it knows
    /// Whether a request's source, without wishes, is of this format. Never throws.
    bool (*recognizes)(const DataRequest& request);
    /// Of a source that it recognizes. InputError for what is damaged.
    std::unique_ptr<DataSource> (*open)(const DataRequest& request);

    bool is_word() const { return files[0].empty(); }
};

/// Opens what --data names. A word comes before a path, so a folder called shapes is "./shapes". Wishes after
/// the source's path are added to the request's. InputError when nothing is there, when it is of no known
/// format, or damaged; the message says what to do.
std::unique_ptr<DataSource> open_data(DataRequest request);

/// Whether a source is a path, not a word such as `shapes`.
bool is_path(const std::string& source);

/// `a folder with CIFAR-10's binary files or MNIST's, or 'shapes' (ten classes of drawn shapes)`, for help
/// texts; with or without what stands in brackets.
std::string data_help(bool with_more);

/// `give a folder with CIFAR-10's binary files or MNIST's, or 'shapes', which needs no files`, for messages.
std::string what_to_give();

} // namespace towers
