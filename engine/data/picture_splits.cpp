#include "engine/data/picture_splits.h"

#include "backends/error.h"
#include "engine/data/picture_folder.h"
#include "engine/data/source.h"
#include "engine/files/text.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr std::array<std::string_view, 2> train_words{"train", "training"};
/// The folder of the first one that has pictures counts.
constexpr std::array<std::string_view, 8> test_words{"val",  "valid",      "validation", "dev",
                                                     "eval", "evaluation", "test",       "testing"};

/// `Test_Set` as `test`
std::string plain(const std::string& name) {
    constexpr std::array<std::string_view, 4> ends{"dataset", "data", "set", "images"};
    std::string word = lower(name);
    const auto end = std::ranges::find_if(ends, [&](std::string_view each) { return word.ends_with(each); });
    if (end == ends.end()) return word;
    word.resize(word.size() - end->size());
    while (!word.empty() && std::string_view("_- .").find(word.back()) != std::string_view::npos)
        word.pop_back();
    return word;
}

/// The names of the folders in both, which are sorted.
Names common(const Names& one, const Names& other) {
    Names both;
    std::ranges::set_intersection(one, other, std::back_inserter(both));
    return both;
}

std::string remedy(const fs::path& folder) {
    return fmt::format("move the pictures to train/CLASS and test/CLASS, or, if they are classes, give "
                       "'{}?splits=none'",
                       folder.string());
}

/// Why folders may be no classes: each has folders of the same names and no pictures beside them. "" if they
/// are classes.
std::string doubt_about(const fs::path& folder, const Names& names) {
    Names doubtful, shared;
    for (const std::string& name : names) {
        const fs::path each = folder / name;
        if (holds_pictures_itself(each)) return "";
        if (!holds_pictures(each)) continue;
        Names below = class_folders(each);
        std::erase_if(below, [&](const std::string& one) { return !holds_pictures(each / one); });
        shared = doubtful.empty() ? std::move(below) : common(shared, below);
        doubtful.push_back(name);
        if (shared.empty()) return "";
    }
    const bool are_splits =
        std::ranges::any_of(shared, [](const std::string& name) { return split_called(name).has_value(); });
    if (doubtful.size() < 2 || (shared.size() < 2 && !are_splits)) return "";
    constexpr std::size_t most = 3;
    const std::size_t shown = std::min(most, shared.size());
    return fmt::format("{}: {} and {} hold folders of the same names ({}{}), so they may be no classes; {}",
                       folder.string(), doubtful[0], doubtful[1],
                       fmt::join(shared.begin(), shared.begin() + std::ptrdiff_t(shown), ", "),
                       shared.size() > shown ? " ..." : "", remedy(folder));
}

PictureFolders find(const fs::path& folder) {
    Names trains, tests, others;
    for (std::string& name : class_folders(folder)) {
        const auto split = split_called(name);
        (!split ? others : *split == Split::train ? trains : tests).push_back(std::move(name));
    }
    std::ranges::stable_sort(tests, {}, rank_for_testing);
    const auto has_classes = [&](const std::string& name) {
        return holds_classes_of_pictures(folder / name);
    };
    const auto has_pictures = [&](const std::string& name) { return holds_pictures(folder / name); };
    PictureFolders found{.train = {}, .test = {}};
    const auto train = std::ranges::find_if(trains, has_classes);
    const auto test = std::ranges::find_if(tests, has_classes);
    if (test != tests.end()) found.test = folder / *test;
    if (train != trains.end()) {
        found.train = folder / *train;
        const auto second = std::find_if(std::next(train), trains.end(), has_classes);
        if (second != trains.end())
            found.unclear =
                fmt::format("{} has two folders of training pictures, {} and {}; leave one of them",
                            folder.string(), *train, *second);
        const Names same = common(others, class_folders(found.train));
        if (const auto beside = std::ranges::find_if(same, has_pictures);
            beside != same.end() && found.unclear.empty())
            found.unclear = fmt::format(
                "{}: {} is called as a folder of training pictures, and {} beside it as a class; {}",
                folder.string(), *train, *beside, remedy(folder));
    }
    const bool are_splits = std::ranges::none_of(others, has_pictures) && !(trains.empty() && tests.empty());
    found.split = !found.train.empty() || are_splits;
    if (found.split) return found;
    // A folder that is called as the training's but has no classes is one, of trains.
    found = {.train = folder, .test = {}};
    if (const auto called = std::ranges::find_if(tests, has_pictures); called != tests.end())
        found.unclear = fmt::format(
            "{}: {} is called as a folder of test pictures, and {} beside it as a class; {}", folder.string(),
            *called, *std::ranges::find_if(others, has_pictures), remedy(folder));
    else
        found.unclear = doubt_about(folder, others);
    return found;
}

} // namespace

std::optional<Split> split_called(const std::string& name) {
    const std::string word = plain(name);
    if (std::ranges::find(train_words, word) != train_words.end()) return Split::train;
    if (std::ranges::find(test_words, word) != test_words.end()) return Split::test;
    return std::nullopt;
}

std::size_t rank_for_testing(const std::string& name) {
    return std::size_t(std::ranges::find(test_words, plain(name)) - test_words.begin());
}

PictureFolders find_picture_folders(const fs::path& folder) {
    try {
        return find(folder);
    } catch (const InputError&) { // whoever opens it learns it
        return {.train = {}, .test = {}};
    }
}

} // namespace towers
