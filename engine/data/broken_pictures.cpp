#include "engine/data/broken_pictures.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <algorithm>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace towers {

namespace {

std::string problem_of(const std::string& place, const std::string& what) {
    return fmt::format("{} {}", as_printable(place), as_printable(what));
}

} // namespace

void BrokenPictures::refuse(const std::string& problem) const {
    throw InputError(skip_ ? problem
                           : problem + "; replace it, or leave broken pictures out with --skip-broken");
}

void BrokenPictures::leave_out(const std::string& place, const std::string& what) {
    const std::string problem = problem_of(place, what);
    if (!skip_) refuse(problem);
    if (first_.empty()) first_ = problem;
    if (tell_) return tell_(problem);
    ++left_out_;
}

void BrokenPictures::report(const std::string& source, std::size_t all) const {
    if (left_out_ > 0)
        spdlog::warn("{}: {} of {} pictures are broken and left out, such as: {}", as_printable(source),
                     left_out_, all, first_);
}

void BrokenPictures::stand_in(const std::string& place, const std::string& what,
                              std::span<std::uint8_t> image) {
    if (!stand_in_) refuse(problem_of(place, what));
    std::call_once(said_, [&] {
        spdlog::warn("{}; a grey picture stands in for it and for others like it", problem_of(place, what));
    });
    std::ranges::fill(image, std::uint8_t(128));
}

} // namespace towers
