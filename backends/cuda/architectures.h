// The cards for which a program contains CUDA kernels.
#pragma once

#include <algorithm>
#include <charconv>
#include <string_view>

namespace towers::cuda {

/// For which architecture what nvcc has compiled for `architectures`, in the words of
/// CMAKE_CUDA_ARCHITECTURES with commas, such as "75-real,86", runs on a card of compute capability
/// `major`.`minor`: 86; the latest one, 0: none. Machine code runs on cards of the same major number and no
/// lower minor one, PTX on all that are no older. Words without a number, such as "all", count as the card's
/// own.
inline int architecture_for(std::string_view architectures, int major, int minor) {
    const int card = 10 * major + minor;
    int latest = 0;
    while (!architectures.empty()) {
        const std::size_t comma = architectures.find(',');
        const std::string_view word = architectures.substr(0, comma);
        architectures.remove_prefix(comma == std::string_view::npos ? architectures.size() : comma + 1);
        int number = 0;
        const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (error != std::errc{}) return card;
        bool runs = false;
        if (rest != word.data() + word.size() && *rest != '-') { // such as 90a, for this card only
            runs = number == card;
        } else {
            const bool machine_code = !word.ends_with("-virtual"), ptx = !word.ends_with("-real");
            runs = (machine_code && number / 10 == major && number % 10 <= minor) || (ptx && number <= card);
        }
        if (runs) latest = std::max(latest, number);
    }
    return latest;
}

/// Whether the card runs it at all.
inline bool runs_on(std::string_view architectures, int major, int minor) {
    return architecture_for(architectures, major, minor) != 0;
}

} // namespace towers::cuda
