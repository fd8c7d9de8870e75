// The formats of data sets, and opening what --data names.
#pragma once

#include "engine/data/source.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// Which pictures are for testing, if nothing else says it: those whose names have hashes in a range of those
/// from 0 to 1, so that pictures keep their side when others are added.
struct HeldOut {
    double begin = 0, end = 0; ///< the first one, and the one after the last; equal: none

    bool any() const { return end > begin; }
};

struct DataRequest {
    std::string source; ///< what --data says: a path, a pattern of paths, or a format's word
    Split split;
    std::uint64_t seed = 1; ///< of what is drawn
    /// The size at which shapes are drawn and pictures prepared, while others keep theirs. Zeros: none is
    /// asked for.
    ImageSize image = {0, 0, 0};
    bool whole = false; ///< the source is for this split alone, whatever its files are called
    std::map<std::string, std::string> options = {}; ///< `?NAME=VALUE&NAME=VALUE` after the source's path
    std::string format = {}; ///< the key of the only format to try; empty: the one that recognizes the source
    HeldOut held_out = {};   ///< of pictures whose folders or table have none for testing
    bool skip_broken = false; ///< leave broken pictures out instead of refusing them
    /// With skip_broken: let grey pictures stand in for those that prove broken only when they are read,
    /// instead of refusing these.
    bool stand_in = true;
    /// With skip_broken: hears what is wrong with each picture that is left out when the source is opened, in
    /// place of a warning with their number.
    std::function<void(const std::string&)> left_out = {};
    /// The side of the images of pictures of many sizes if no size is asked for; 0: they have none.
    unsigned thumbnail = 0;
    /// The names of the classes on which a network was trained, in the order of their labels, which the
    /// source's are to have (take_training_classes). Empty: it is trained on this source.
    std::vector<std::string> trained = {};
};

/// Each format is a line in formats.def.
struct DataFormat {
    std::string_view key; ///< what --format calls it
    std::string_view
        name; ///< of a folder's files: `MNIST's`, after "a folder with"; or the word that --data takes
    std::string_view more;                   ///< about a word: `ten classes of drawn shapes`
    std::array<std::string_view, 2> files;   ///< one that a folder has, by split; empty: a word
    std::array<std::string_view, 8> options; ///< the names that it knows
    bool holds_out = false;                  ///< whether it obeys held_out
    /// Whether a request's source, without options, is of this format. Never throws.
    bool (*recognizes)(const DataRequest& request);
    /// Of a source that it recognizes. InputError for what is damaged.
    std::unique_ptr<DataSource> (*open)(const DataRequest& request);
    bool named = false; ///< whether its users name the classes

    bool is_word() const { return files[0].empty(); }
};

/// Opens what --data names. A word comes before a path, so a folder called shapes is "./shapes". Wishes after
/// the source's path are added to the request's. InputError when nothing is there, when it is of no known
/// format, or damaged; the message says what to do.
std::unique_ptr<DataSource> open_data(DataRequest request);

/// Whether the source has examples of the request's split, sound or not. Never throws.
bool has_examples(DataRequest request);

/// Whether a source is a path, not a word such as `shapes`.
bool is_path(const std::string& source);

/// A source's path as it is from any folder; words stay as they are.
std::string absolute_source(const std::string& source);

/// What --data says if it gives this option, too: `train.csv?root=images&label=breed`.
std::string with_option(const std::string& source, const std::map<std::string, std::string>& options,
                        std::string_view name, std::string_view value);
std::string with_option(const DataRequest& request, std::string_view name, std::string_view value);

/// A source without the options after it.
std::string without_options(const std::string& source);

/// Whether a path has characters of a pattern of paths.
bool is_pattern(const std::string& path);

/// `cifar10, cifar100, ...`: what --format takes.
std::string format_keys();

/// `a folder with CIFAR-10's binary files or MNIST's, or 'shapes' (ten classes of drawn shapes)`, for help
/// texts; with or without what stands in brackets.
std::string data_help(bool with_more);

/// `give a folder with CIFAR-10's binary files or MNIST's, or 'shapes', which needs no files`, for messages.
std::string what_to_give();

} // namespace towers
