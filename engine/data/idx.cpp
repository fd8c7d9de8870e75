// MNIST's format (http://yann.lecun.com/exdb/mnist) and data sets stored like it, such as Fashion-MNIST and
// EMNIST: for each split a file of grey images and one of labels, plain or compressed by gzip. A file begins
// with two zeros, the type of the elements (8: bytes), the number of dimensions, and then each dimension as 4
// bytes, the highest first.
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/formats.h"
#include "engine/files/gzip_file.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

/// Whether it is the name of a split's images: `train-images-idx3-ubyte`, `t10k-images-idx3-ubyte`, with a
/// prefix as EMNIST's, with a dot in place of a hyphen, with `.gz`.
bool is_images(const std::string& name, Split split) {
    const auto has = [&](const char* part) { return name.find(part) != name.npos; };
    return has("images") && has("idx3-ubyte") &&
           (split == Split::train ? has("train") : !has("train") && (has("t10k") || has("test")));
}

/// The files of a split's images in a folder, sorted.
std::vector<fs::path> find_images(const fs::path& folder, Split split) {
    std::vector<fs::path> found;
    std::error_code error; // what cannot be examined counts as absent
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code unknown;
        const std::string name = entry->path().filename().string();
        if (!name.starts_with('.') && is_images(name, split) && !entry->is_directory(unknown))
            found.push_back(entry->path());
    }
    std::ranges::sort(found); // a plain file comes before its compressed copy, which is left out
    const auto is_copy = [](const fs::path& plain, const fs::path& other) {
        return other == plain.string() + ".gz";
    };
    found.erase(std::unique(found.begin(), found.end(), is_copy), found.end());
    return found;
}

/// The labels' file beside a file of images: itself or its compressed or unpacked copy. InputError if there
/// is none.
fs::path labels_of(const fs::path& images) {
    std::string name = images.filename().string();
    name.replace(name.rfind("images"), 6, "labels");
    name.replace(name.rfind("idx3"), 4, "idx1");
    const std::string plain = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
    std::error_code error;
    for (const std::string& each : {name, plain, plain + ".gz"})
        if (fs::exists(images.parent_path() / each, error)) return images.parent_path() / each;
    throw InputError(fmt::format("{} has no labels beside it; put {} there", images.string(), name));
}

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
    throw InputError(fmt::format("{} {}; replace it with a complete copy", path.string(), what));
}

struct Idx {
    std::vector<std::size_t> sizes; ///< of the dimensions
    std::vector<std::uint8_t> elements;
};

/// Reads a file of so many dimensions.
Idx read_idx(const fs::path& path, unsigned dimensions) {
    GzipFile file(path);
    const std::vector<std::uint8_t> header = file.read_up_to(4 + 4 * dimensions);
    if (header.size() < 4 || header[0] != 0 || header[1] != 0 || header[2] != 8 || header[3] != dimensions)
        refuse(path, fmt::format("does not begin as MNIST's {} do (bytes 0, 0, 8, {})",
                                 dimensions == 1 ? "labels" : "images", dimensions));
    if (header.size() < 4 + 4 * dimensions) refuse(path, "is cut short: it ends within its first bytes");
    Idx idx;
    std::size_t elements = 1;
    for (std::size_t i = 4; i < header.size(); i += 4) {
        std::size_t size = 0;
        for (std::size_t k = i; k < i + 4; ++k) size = size << 8 | header[k];
        idx.sizes.push_back(size);
        if (size > 0 && elements > most_bytes_in_memory / size)
            throw InputError(fmt::format("{} has {} bytes of elements, more than {} GiB, which this format's "
                                         "data sets may have; give a part of them",
                                         path.string(), fmt::join(idx.sizes, " x "),
                                         most_bytes_in_memory >> 30));
        elements *= size;
    }
    if (elements == 0) refuse(path, "is empty");
    idx.elements = file.read_up_to(elements + 1);
    if (idx.elements.size() > elements)
        refuse(path, fmt::format("has more than the {} bytes that its first bytes promise",
                                 fmt::join(idx.sizes, " x ")));
    if (idx.elements.size() < elements)
        refuse(path, fmt::format("is cut short: its first bytes promise {} bytes, and it has {}",
                                 fmt::join(idx.sizes, " x "), idx.elements.size()));
    return idx;
}

unsigned classes_in(const Idx& labels) { return std::ranges::max(labels.elements) + 1u; }

std::unique_ptr<DataSource> open_idx(const fs::path& folder, Split split) {
    const std::vector<fs::path> found = find_images(folder, split);
    if (found.empty()) throw_file_error("read", folder, ENOENT); // deleted since it was recognized
    const fs::path& path = found[0];
    if (found.size() > 1)
        throw InputError(fmt::format("{} holds several data sets, such as {} and {}; give each a folder of "
                                     "its own",
                                     folder.string(), path.filename().string(),
                                     found[1].filename().string()));
    Idx images = read_idx(path, 3);
    if (constexpr std::size_t most = 1 << 15; images.sizes[1] > most || images.sizes[2] > most)
        throw InputError(fmt::format("{} has images of {}x{}, more than {} pixels a side; give smaller ones",
                                     path.string(), images.sizes[1], images.sizes[2], most));
    const fs::path labels_path = labels_of(path);
    const Idx labels = read_idx(labels_path, 1);
    if (labels.sizes[0] != images.sizes[0])
        throw InputError(
            fmt::format("{} has {} labels, but {} has {} images; give files that belong together",
                        labels_path.string(), labels.sizes[0], path.string(), images.sizes[0]));
    unsigned classes = classes_in(labels);
    const Split other = split == Split::train ? Split::test : Split::train;
    try {
        if (const std::vector<fs::path> others = find_images(folder, other); !others.empty())
            classes = std::max(classes, classes_in(read_idx(labels_of(others[0]), 1)));
    } catch (const InputError&) {
        // Whoever opens that split learns it.
    }
    DataInfo info{"idx", {}, {unsigned(images.sizes[1]), unsigned(images.sizes[2]), 1}};
    for (unsigned i = 0; i < classes; ++i) info.classes.push_back(std::to_string(i));
    return std::make_unique<Dataset>(
        std::move(info), std::move(images.elements),
        std::vector<std::uint32_t>(labels.elements.begin(), labels.elements.end()));
}

} // namespace

const DataFormat& idx_format() {
    static constexpr DataFormat format{
        .key = "mnist",
        .name = "MNIST's",
        .more = {},
        .files = {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"},
        .options = {},
        .recognizes =
            [](const DataRequest& request) { return !find_images(request.source, request.split).empty(); },
        .open = [](const DataRequest& request) { return open_idx(request.source, request.split); }};
    return format;
}

} // namespace towers
