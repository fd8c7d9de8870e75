#include "engine/data/other_data.h"

#include "engine/data/formats.h"
#include "engine/data/picture_folder.h"
#include "engine/files/text.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

std::string first_bytes(const fs::path& path) {
    std::array<char, 262> bytes; // up to the end of a tar archive's magic number
    std::ifstream file(path, std::ios::binary);
    file.read(bytes.data(), bytes.size());
    return {bytes.data(), std::size_t(file.gcount())};
}

bool is_picture(std::string_view bytes) {
    using namespace std::string_view_literals; // TIFF's magic number contains a zero
    constexpr std::array marks{"\xff\xd8\xff"sv, "\x89PNG"sv, "GIF8"sv, "BM"sv, "II*\0"sv, "MM\0*"sv};
    return std::ranges::any_of(marks, [&](std::string_view mark) { return bytes.starts_with(mark); }) ||
           (bytes.starts_with("RIFF") &&
            bytes.substr(std::min<std::size_t>(8, bytes.size())).starts_with("WEBP"));
}

std::string describe_file(const fs::path& path) {
    const std::string bytes = first_bytes(path);
    const std::string name = path.filename().string();
    if (name.find("idx3-ubyte") != name.npos || name.find("idx1-ubyte") != name.npos)
        return "is one of the files of a data set like MNIST; give the folder with all of them";
    if (bytes.starts_with("\x1f\x8b"))
        return fmt::format("is compressed by gzip; unpack it ({} FILE) and {}",
                           name.find(".tar") != std::string::npos || name.ends_with(".tgz") ? "tar -xzf"
                                                                                            : "gunzip",
                           what_to_give());
    if (bytes.starts_with("PK\x03\x04"))
        return fmt::format("is a zip archive; unpack it and {}", what_to_give());
    if (bytes.size() >= 262 && bytes.substr(257).starts_with("ustar"))
        return fmt::format("is a tar archive; unpack it (tar -xf FILE) and {}", what_to_give());
    if (is_picture(bytes)) return fmt::format("is one picture; {}", what_to_give());
    return fmt::format("is a file; {}", what_to_give());
}

bool is_picture_name(const std::string& name) { return kind_of(name) != FileKind::no_picture; }

/// The first names in a folder, in lower case; a few suffice to recognize a folder of a million pictures.
std::vector<std::string> names_in(const fs::path& folder, std::vector<fs::path>* folders) {
    constexpr std::size_t most = 1000;
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end && names.size() < most;
         entry.increment(error)) {
        names.push_back(lower(entry->path().filename().string()));
        std::error_code unknown;
        if (folders != nullptr && entry->is_directory(unknown)) folders->push_back(entry->path());
    }
    std::ranges::sort(names);
    return names;
}

std::string describe_folder(const fs::path& folder, Split split) {
    std::vector<fs::path> folders;
    const std::vector<std::string> names = names_in(folder, &folders);
    const auto find = [&](auto&& fits) {
        const auto found = std::ranges::find_if(names, fits);
        return found == names.end() ? std::string() : *found;
    };
    if (const std::string name =
            find([](const std::string& n) { return n.starts_with("cifar-10") && n.find(".tar") != n.npos; });
        !name.empty())
        return fmt::format("holds {}, which is still packed; unpack it there (tar -xzf)", name);
    if (const std::string name =
            find([](const std::string& n) { return n.find("-ubyte") != n.npos && n.find("idx") != n.npos; });
        !name.empty())
        return split == Split::train
                   ? fmt::format("holds {}, but no training images; put train-images-idx3-ubyte there", name)
                   : fmt::format("holds {}, but no test images; put t10k-images-idx3-ubyte there", name);
    if (std::ranges::binary_search(names, "data_batch_1"))
        return "holds CIFAR-10 for Python; get its binary version";
    if (std::ranges::binary_search(names, "meta") && std::ranges::binary_search(names, "train"))
        return "holds CIFAR-100 for Python; get its binary version";
    if (const std::string name =
            find([](const std::string& n) { return n.ends_with(".csv") || n.ends_with(".tsv"); });
        !name.empty())
        return fmt::format(
            "holds a table, {}; if it names pictures and their classes, give it instead of its folder",
            as_printable(name));
    std::string picture = find(is_picture_name);
    for (std::size_t i = 0; picture.empty() && i < std::min<std::size_t>(folders.size(), 20); ++i) {
        const std::vector<std::string> below = names_in(folders[i], nullptr);
        const auto found = std::ranges::find_if(below, is_picture_name);
        if (found != below.end()) picture = lower(folders[i].filename().string()) + "/" + *found;
    }
    if (!picture.empty())
        return fmt::format(
            "holds pictures ({}), but none that are JPEG, PNG or WebP in a folder for each class, such "
            "as train/CLASS/*.jpg",
            as_printable(picture));
    return "";
}

} // namespace

std::string describe_other_data(const fs::path& path, Split split) {
    std::error_code error;
    if (fs::is_directory(path, error)) return describe_folder(path, split);
    return fs::is_regular_file(path, error) ? describe_file(path) : "";
}

} // namespace towers
