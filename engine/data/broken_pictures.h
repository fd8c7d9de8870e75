// What becomes of pictures that cannot be read.
#pragma once

#include "engine/data/formats.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>

namespace towers {

/// Refuses broken pictures, or with --skip-broken leaves them out when a data set is opened, and lets grey
/// ones stand in for those that prove broken later, so that every feed has the same records.
class BrokenPictures {
public:
    explicit BrokenPictures(const DataRequest& request)
        : skip_(request.skip_broken), stand_in_(skip_ && request.stand_in), tell_(request.left_out) {}

    bool stands_in() const { return stand_in_; }

    /// Counts a picture that is left out. InputError unless broken ones are skipped. `what`: a
    /// PictureError's.
    void leave_out(const std::string& place, const std::string& what);

    /// Says how many of `all` pictures are left out, if any, unless the request hears of each.
    void report(const std::string& source, std::size_t all) const;

    /// ` (the first: ` and what is wrong with the first picture that is left out; "" if none is.
    std::string example() const { return first_.empty() ? "" : " (the first: " + first_ + ')'; }

    /// Fills an image with grey, and says so of the first one. InputError unless grey ones stand in. From any
    /// thread.
    void stand_in(const std::string& place, const std::string& what, std::span<std::uint8_t> image);

private:
    [[noreturn]] void refuse(const std::string& problem) const;

    bool skip_, stand_in_;
    std::function<void(const std::string&)> tell_;
    std::size_t left_out_ = 0;
    std::string first_;
    std::once_flag said_;
};

} // namespace towers
