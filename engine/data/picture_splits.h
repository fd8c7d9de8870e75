// Which folders of a data set of pictures are for training and testing, and which are classes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace towers {

enum class Split;

/// The split that a folder or a word is called as, in any case: `train`, `Testing`, `val_set`, `dev-data`.
std::optional<Split> split_called(const std::string& name);

/// Of what is called as for testing: where several of a data set are, the least counts: `val` before `test`.
std::size_t rank_for_testing(const std::string& name);

/// The folders of a data set whose pictures lie in one folder a class. Empty: there is none.
struct PictureFolders {
    std::filesystem::path train; ///< the set's own folder if its classes are not split
    std::filesystem::path test;
    bool split = false;       ///< into train, and val, valid, validation, dev, eval, evaluation, test or so
    std::string unclear = {}; ///< one line, if folders may be splits or classes; else empty
};

/// Looks at names, and at a few thousand files at most. Never throws.
PictureFolders find_picture_folders(const std::filesystem::path& folder);

} // namespace towers
