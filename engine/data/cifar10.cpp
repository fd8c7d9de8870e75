#include "engine/data/cifar10.h"

#include "engine/data/formats.h"
#include "engine/data/source.h"
#include "engine/error.h"
#include "engine/files/atomic_file.h"
#include "engine/files/file.h"
#include "engine/files/text.h"

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

constexpr unsigned side = 32;
constexpr unsigned channels = 3;
constexpr std::size_t image_bytes = channels * side * side;
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

/// The folder itself or the archive's folder in it, whichever has one of the split's files.
std::optional<fs::path> find_folder(const fs::path& folder, Split split) {
    std::error_code error; // what cannot be examined counts as absent
    if (!fs::is_directory(folder, error)) return std::nullopt;
    for (const fs::path& candidate : {folder, folder / archive_folder})
        for (const std::string& name : file_names(split))
            if (fs::exists(candidate / name, error)) return candidate;
    return std::nullopt;
}

std::size_t count_records(const fs::path& path, std::uint64_t bytes) {
    const std::uint64_t records = bytes / record_bytes;
    const auto refuse = [&](const std::string& what) {
        throw InputError(fmt::format("{} {}; replace it with a complete copy", path.string(), what));
    };
    if (bytes == 0) refuse("is empty");
    if (bytes > records_per_file * record_bytes)
        refuse(fmt::format("has {} bytes, more than {} records of {} bytes", bytes, records_per_file,
                           record_bytes));
    if (bytes % record_bytes != 0)
        refuse(fmt::format("is cut short: its {} bytes are {} whole records of {} bytes and {} more bytes",
                           bytes, records, record_bytes, bytes % record_bytes));
    return records;
}

/// Reads the class names, or returns the official ones if there is no such file. `tell`: report a wrong
/// number of names.
std::vector<std::string> read_classes(const fs::path& path, bool tell) {
    std::error_code error;
    if (!fs::exists(path, error)) return official_classes();
    const InputFile file(path);
    std::string text(std::min<std::uint64_t>(file.size(), 4096), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    std::erase(text, '\r');
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        if (end > begin) names.push_back(as_printable(text.substr(begin, end - begin)));
        begin = end + 1;
    }
    if (names.size() == class_count) return names;
    if (tell)
        spdlog::warn("{} names {} classes, but CIFAR-10's records have {}; their own names stand in for it",
                     path.string(), names.size(), class_count);
    return official_classes();
}

/// Appends the labels and images of a file's records.
void read_records(const fs::path& path, std::vector<std::uint32_t>& labels,
                  std::vector<std::uint8_t>& images) {
    const InputFile file(path);
    const std::size_t records = count_records(path, file.size());
    std::vector<std::uint8_t> bytes(records * record_bytes);
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    for (std::size_t i = 0; i < records; ++i) {
        const auto record = bytes.begin() + std::ptrdiff_t(i * record_bytes);
        if (*record >= class_count)
            throw InputError(fmt::format("{} has label {} in record {} (of 0 to {}), but labels are 0 to 9; "
                                         "replace it with a sound copy",
                                         path.string(), *record, i, records - 1));
        labels.push_back(*record);
        images.insert(images.end(), record + 1, record + record_bytes);
    }
}

} // namespace

std::unique_ptr<DataSource> open_cifar10(const fs::path& folder, Split split) {
    const fs::path found = find_folder(folder, split).value_or(folder);
    const std::vector<std::string> files = file_names(split);
    std::vector<std::uint32_t> labels;
    std::vector<std::uint8_t> images;
    labels.reserve(files.size() * records_per_file);
    images.reserve(files.size() * records_per_file * image_bytes);
    for (const std::string& name : files) read_records(found / name, labels, images);
    // Training and `data describe` open both splits, and one line is enough.
    const bool tell = split == Split::train;
    return std::make_unique<Dataset>(
        DataInfo{"cifar10", read_classes(found / names_file, tell), {side, side, channels}},
        std::move(images), std::move(labels));
}

const DataFormat& cifar10_format() {
    static constexpr DataFormat format{
        .what = "a folder with CIFAR-10's binary files",
        .more = {},
        .give = "a folder of CIFAR-10's binary files",
        .name = "CIFAR-10's",
        .files = {"data_batch_1.bin", "test_batch.bin"},
        .remedy = "unpack cifar-10-binary.tar.gz there",
        .recognizes = [](const std::string& source,
                         Split split) { return find_folder(source, split).has_value(); },
        .open = [](const DataRequest& request) { return open_cifar10(request.source, request.split); }};
    return format;
}

void write_cifar10(const DataSource& data, Split split, const fs::path& folder) {
    const std::vector<std::string> names = file_names(split);
    const auto& [name, classes, image] = data.info();
    const bool fits = image == ImageSize{side, side, channels} && classes.size() == class_count &&
                      data.size() >= names.size() && data.size() <= names.size() * records_per_file;
    if (!fits)
        throw InputError(
            fmt::format("the data set {} ({} examples of {}x{}x{}, {} classes) does not fit CIFAR-10's "
                        "format: {} to {} examples of 32x32x3, 10 classes; choose another",
                        name, data.size(), image.height, image.width, image.channels, classes.size(),
                        names.size(), names.size() * records_per_file));
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
