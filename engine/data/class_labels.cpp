#include "engine/data/class_labels.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <set>
#include <spdlog/spdlog.h>
#include <system_error>

namespace towers {

namespace {

constexpr std::uint32_t absent = std::numeric_limits<std::uint32_t>::max();

/// Where each of some elements is among others; `absent` if it is not.
template<class T>
std::vector<std::uint32_t> places_in(const std::vector<T>& others, const std::vector<T>& some) {
    std::vector<std::uint32_t> places;
    for (const T& each : some) {
        const auto found = std::ranges::find(others, each);
        places.push_back(found == others.end() ? absent : std::uint32_t(found - others.begin()));
    }
    return places;
}

} // namespace

bool are_numbers_in_order(const std::vector<std::string>& names) {
    const auto numbers = numbers_of(names);
    if (!numbers) return false;
    std::vector<std::uint32_t> in_order(names.size());
    std::iota(in_order.begin(), in_order.end(), 0u);
    return *numbers == in_order;
}

std::optional<std::vector<std::uint32_t>> numbers_of(const std::vector<std::string>& names) {
    std::vector<std::uint32_t> numbers;
    std::set<std::uint32_t> seen;
    for (const std::string& name : names) {
        std::uint32_t number = 0;
        const char* const end = name.data() + name.size();
        const auto [rest, error] = std::from_chars(name.data(), end, number);
        if (error != std::errc() || rest != end || number == absent || !seen.insert(number).second)
            return std::nullopt;
        numbers.push_back(number);
    }
    return numbers;
}

std::optional<std::vector<std::uint32_t>> labels_in(const std::vector<std::string>& names) {
    auto numbers = numbers_of(names);
    const std::size_t end = std::min<std::size_t>(10 * names.size(), most_classes);
    if (numbers && std::ranges::any_of(*numbers, [&](std::uint32_t number) { return number >= end; }))
        return std::nullopt;
    return numbers;
}

void take_training_classes(DataSource& data, const std::vector<std::string>& trained, bool named,
                           const std::string& source) {
    const std::vector<std::string>& own = data.info().classes;
    const auto own_numbers = numbers_of(own), trained_numbers = numbers_of(trained);
    const bool by_number = own_numbers && trained_numbers, without_names = are_numbers_in_order(trained);
    if (own == trained || (!named && (!by_number || without_names))) return;
    const std::vector<std::uint32_t> labels =
        by_number ? places_in(*trained_numbers, *own_numbers) : places_in(trained, own);
    if (without_names && std::ranges::all_of(labels, [](std::uint32_t label) { return label == absent; })) {
        spdlog::warn(
            "the training's classes are numbers, and those of {} get them in the order of their names",
            as_printable(source));
        return;
    }
    for (const std::uint32_t label :
         data.label_sets() != nullptr ? data.label_sets()->labels() : data.labels())
        if (labels[label] == absent)
            throw InputError(as_printable(
                fmt::format("{}: its class {} is none of the {} classes of the training data; call it as one "
                            "of them, or leave it out",
                            source, own[label], trained.size())));
    data.relabel(labels, trained);
}

} // namespace towers
