#include "engine/data/cifar10.h"

#include "backends/error.h"
#include "backends/files/atomic_file.h"
#include "backends/files/file.h"
#include "engine/data/cifar_files.h"
#include "engine/data/formats.h"
#include "engine/data/source.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <span>
#include <spdlog/spdlog.h>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace towers {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t image_bytes = cifar_image.elements();
constexpr std::size_t record_bytes = 1 + image_bytes;
constexpr std::size_t records_per_file = 10'000;
constexpr unsigned class_count = 10;
constexpr const char* archive_folder = "cifar-10-batches-bin";
constexpr const char* names_file = "batches.meta.txt";

const std::vector<std::string>& official_classes() {
    static const std::vector<std::string> names = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                   "dog",      "frog",       "horse", "ship", "truck"};
    return names;
}

std::vector<std::string> file_names(Split split) {
    if (split == Split::test) return {"test_batch.bin"};
    std::vector<std::string> names;
    for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
    return names;
}

fs::path folder_of(const fs::path& folder, Split split) {
    const fs::path found = find_cifar(folder, archive_folder, file_names(split));
    return found.empty() ? folder : found;
}

/// `tell`: report names that are not 10. Training and `data describe` open both splits, and one line is
/// enough.
std::vector<std::string> class_names_in(const fs::path& folder, Split split, bool tell) {
    std::vector<std::string> names =
        read_class_names(folder_of(folder, split) / names_file, class_count, tell);
    return names.empty() ? official_classes() : names;
}

} // namespace

std::unique_ptr<DataSource> open_cifar10(const fs::path& folder, Split split) {
    const fs::path from = folder_of(folder, split);
    std::vector<fs::path> files;
    for (const std::string& name : file_names(split)) files.push_back(from / name);
    return open_cifar({.name = "cifar10",
                       .files = std::move(files),
                       .most = records_per_file,
                       .label_bytes = 1,
                       .label = 0,
                       .classes = class_names_in(folder, split, split == Split::train)});
}

const DataFormat& cifar10_format() {
    static constexpr DataFormat format{
        .key = "cifar10",
        .name = "CIFAR-10's binary files",
        .more = {},
        .files = {"data_batch_1.bin", "test_batch.bin"},
        .options = {},
        .recognizes =
            [](const DataRequest& request) {
                return !find_cifar(request.source, archive_folder, file_names(request.split)).empty();
            },
        .open = [](const DataRequest& request) { return open_cifar10(request.source, request.split); }};
    return format;
}

void write_cifar10(const DataSource& data, Split split, const fs::path& folder) {
    const std::vector<std::string> names = file_names(split);
    const std::vector<std::string>& classes = data.info().classes;
    const ImageSize image = data.image_size();
    const bool fits = image == cifar_image && classes.size() == class_count && data.size() >= names.size() &&
                      data.size() <= names.size() * records_per_file;
    if (!fits)
        throw InputError(
            fmt::format("{} examples of {}x{}x{} in {} classes do not fit CIFAR-10's format, {} to {} "
                        "examples of 32x32x3 in 10 classes; choose another with --as",
                        data.size(), image.height, image.width, image.channels, classes.size(), names.size(),
                        names.size() * records_per_file));
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw_file_error("create", folder, error.value());

    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::size_t begin = data.size() * i / names.size();
        const std::size_t end = data.size() * (i + 1) / names.size();
        std::vector<std::uint8_t> images((end - begin) * image_bytes);
        data.read(begin, end - begin, images);
        std::string records;
        records.reserve((end - begin) * record_bytes);
        for (std::size_t k = begin; k < end; ++k) {
            records.push_back(char(data.labels()[k]));
            records.append(reinterpret_cast<const char*>(&images[(k - begin) * image_bytes]), image_bytes);
        }
        write_file_atomically(folder / names[i], records);
    }
    std::string lines;
    for (const std::string& each : classes) lines += each + '\n';
    write_file_atomically(folder / names_file, lines);
}

} // namespace towers
