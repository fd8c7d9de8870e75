// The cards for which a program contains CUDA kernels.
#pragma once

#include <charconv>
#include <string_view>

namespace towers::cuda {

/// Whether a card of compute capability `major`.`minor` runs what nvcc has compiled for `architectures`, in
/// the words of CMAKE_CUDA_ARCHITECTURES with commas, such as "75-real,86". Machine code runs on cards of the
/// same major number and no lower minor one, PTX on all that are no older. Words without a number, such as
/// "all", count as true.
inline bool runs_on(std::string_view architectures, int major, int minor) {
    while (!architectures.empty()) {
        const std::size_t comma = architectures.find(',');
        const std::string_view word = architectures.substr(0, comma);
        architectures.remove_prefix(comma == std::string_view::npos ? architectures.size() : comma + 1);
        int number = 0;
        const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (error != std::errc{}) return true;
        if (rest != word.data() + word.size() && *rest != '-') { // such as 90a, for this card only
            if (number == 10 * major + minor) return true;
            continue;
        }
        const bool machine_code = !word.ends_with("-virtual"), ptx = !word.ends_with("-real");
        if (machine_code && number / 10 == major && number % 10 <= minor) return true;
        if (ptx && number <= 10 * major + minor) return true;
    }
    return false;
}

} // namespace towers::cuda
