// Pictures that somebody names one by one, without labels: files, folders, bytes at hand.
#pragma once

#include "engine/data/source.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// A picture's file, or its bytes if it has some.
struct NamedPicture {
    std::string name; ///< its path; of bytes, what messages call them
    std::string bytes = {};
    bool is_file = true;
};

/// The pictures that a path names: itself, or those below a folder, sorted as bytes. `complain` hears of what
/// cannot be read or has no pictures, `warn` of pictures in formats that are not read.
std::vector<NamedPicture> pictures_at(const std::filesystem::path& path,
                                      const std::function<void(const std::string&)>& complain,
                                      const std::function<void(const std::string&)>& warn);

/// The paths in a list: ended by zero bytes if it has one (`find -print0`), else the lines_in() it. Leaves out
/// empty ones. InputError for a list in UTF-16.
std::vector<std::string> paths_in(std::string_view list);

/// A data set of pictures whose labels are all 0. One that cannot be read is grey, and problem() says why.
class PictureList final : public DataSource {
public:
    /// `image`: of every record; the pictures are brought to it as prepare_picture() does.
    PictureList(std::vector<NamedPicture> pictures, ImageSize image);

    std::string place_of(std::uint32_t record) const override { return pictures_[record].name; }
    /// One line, which names it, about a picture that has been read; "" if nothing is wrong. From any thread.
    std::string problem(std::uint32_t record) const;

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override;

private:
    void read(std::uint32_t record, std::span<std::uint8_t> image) const;

    std::vector<NamedPicture> pictures_;
    mutable std::mutex mutex_;
    mutable std::map<std::uint32_t, std::string> problems_; ///< by record
};

} // namespace towers
