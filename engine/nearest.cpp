#include "engine/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace towers {
namespace {

/// The edit distance: letters to add, remove or change, and neighbours to swap.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1); // distances to the prefixes of b
    std::iota(row.begin(), row.end(), 0u);
    for (std::size_t i = 0; i < a.size(); ++i) {
        before = std::exchange(last, row);
        row[0] = i + 1;
        for (std::size_t k = 0; k < b.size(); ++k) {
            row[k + 1] = std::min({row[k] + 1, last[k + 1] + 1, last[k] + (a[i] == b[k] ? 0 : 1)});
            if (i > 0 && k > 0 && a[i] == b[k - 1] && a[i - 1] == b[k])
                row[k + 1] = std::min(row[k + 1], before[k - 1] + 1);
        }
    }
    return row.back();
}

} // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
    const auto far = [&](const std::string& name) { return distance(word, name); };
    const auto found = std::ranges::min_element(names, {}, far);
    if (found != names.end() && far(*found) <= 2 && far(*found) * 2 < word.size()) return *found;
    constexpr std::size_t least = 5; // letters that are no coincidence
    for (const std::string& name : names)
        if (std::min(name.size(), word.size()) >= least &&
            (name.find(word) != name.npos || word.find(name) != word.npos))
            return name;
    return "";
}

} // namespace towers
