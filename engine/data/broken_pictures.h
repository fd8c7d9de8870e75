// What becomes of pictures that cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

namespace towers {

/// Refuses broken pictures, or with --skip-broken leaves them out when a data set is opened, and lets grey
/// ones stand in for those that prove broken later, so that every feed has the same records.
class BrokenPictures {
public:
    /// `stand_in`: false refuses pictures that prove broken later even so.
    explicit BrokenPictures(bool skip, bool stand_in = true) : skip_(skip), stand_in_(skip && stand_in) {}

    bool stands_in() const { return stand_in_; }

    /// Counts a picture that is left out. InputError unless broken ones are skipped. `what`: a
    /// PictureError's.
    void leave_out(const std::string& place, const std::string& what);

    /// Says how many of `all` pictures are left out, if any.
    void report(const std::string& source, std::size_t all) const;

    /// Fills an image with grey, and says so of the first one. InputError unless grey ones stand in. From any
    /// thread.
    void stand_in(const std::string& place, const std::string& what, std::span<std::uint8_t> image);

private:
    [[noreturn]] void refuse(const std::string& problem) const;

    bool skip_, stand_in_;
    std::size_t left_out_ = 0;
    std::string first_;
    std::once_flag said_;
};

} // namespace towers
