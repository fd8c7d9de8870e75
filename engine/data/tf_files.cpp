#include "engine/data/tf_files.h"

#include "engine/data/picture_splits.h"

#include <algorithm>
#include <cctype>
#include <glob.h>
#include <iterator>
#include <string_view>
#include <system_error>

namespace towers {

namespace {

namespace fs = std::filesystem;

/// The files that a source names: itself, those that match a pattern, or a folder's files of records; sorted.
std::vector<fs::path> all_files(const std::string& source) {
    std::vector<fs::path> files;
    std::error_code error; // what cannot be examined counts as absent
    if (fs::is_directory(source, error)) {
        for (fs::directory_iterator entry(source, error), end; !error && entry != end; entry.increment(error))
            if (const std::string name = entry->path().filename().string();
                is_named_tfrecord(name) && !name.starts_with('.'))
                files.push_back(entry->path());
    } else if (fs::is_regular_file(source, error)) {
        files.emplace_back(source);
    } else if (is_pattern(source)) {
        glob_t found{};
        if (glob(source.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
            files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
        globfree(&found);
    }
    std::ranges::sort(files);
    return files;
}

/// The words of a name in lower case, without numbers at their ends: `mnistTrain-01.tfrecord` has mnist,
/// train and tfrecord.
std::vector<std::string> words_of(const std::string& name) {
    std::vector<std::string> words(1);
    bool was_lower = false;
    for (const unsigned char c : name) {
        if (!std::isalnum(c) || (std::isupper(c) && was_lower)) words.emplace_back();
        if (std::isalnum(c)) words.back() += char(std::tolower(c));
        was_lower = std::islower(c) != 0;
    }
    for (std::string& word : words)
        while (!word.empty() && std::isdigit(static_cast<unsigned char>(word.back()))) word.pop_back();
    return words;
}

bool has_word_of(const std::vector<std::string>& words, Split split) {
    return std::ranges::any_of(words, [&](const std::string& word) {
        return split_called(word) == split || (split == Split::test && word == "t10k");
    });
}

} // namespace

bool is_named_tfrecord(const std::string& name) {
    return name.find("tfrecord") != name.npos || name.find("tfrec") != name.npos;
}

std::vector<fs::path> tf_record_files(const DataRequest& request) {
    const std::vector<fs::path> files = all_files(request.source);
    const bool training = request.split == Split::train;
    if (training && files.size() == 1 && files[0] == request.source) return files;
    const auto is_of_split = [&](const fs::path& file) {
        const std::vector<std::string> words = words_of(file.filename().string());
        const bool test = has_word_of(words, Split::test), train = has_word_of(words, Split::train);
        return training ? !test || train : test && !train;
    };
    std::vector<fs::path> of_split;
    std::ranges::copy_if(files, std::back_inserter(of_split), is_of_split);
    return request.whole && of_split.empty() ? files : of_split;
}

} // namespace towers
