#include "engine/data/cifar10.h"

#include "engine/data/other_data.h"
#include "engine/error.h"
#include "engine/files/atomic_file.h"
#include "engine/files/file.h"
#include "engine/files/text.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <spdlog/spdlog.h>
#include <string_view>
#include <system_error>

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

fs::path find_folder(const fs::path& folder, const std::vector<std::string>& names) {
    std::error_code error; // what cannot be examined counts as absent; the message says what was sought
    const bool there = fs::is_directory(folder, error);
    for (const fs::path& candidate : {folder, folder / archive_folder})
        for (const std::string& name : names)
            if (there && fs::exists(candidate / name, error)) return candidate;
    if (const std::string other = describe_other_data(folder); !other.empty())
        throw InputError(fmt::format("{} {}", folder.string(), other));
    if (!there)
        throw InputError(
            fmt::format("there is no data folder {}; name CIFAR-10's, or 'shapes', which needs no files",
                        folder.string()));
    throw InputError(
        fmt::format("{} holds no {}; unpack cifar-10-binary.tar.gz there, or use --data shapes, which "
                    "needs no files",
                    folder.string(), names.front()));
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

/// The official names if there is no such file. `tell`: says so if it has another number of them.
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

} // namespace

Dataset load_cifar10(const fs::path& folder, Split split) {
    const std::vector<std::string> names = file_names(split);
    const fs::path found = find_folder(folder, names);

    struct Part {
        fs::path path;
        InputFile file;
        std::size_t records;
    };
    std::vector<Part> parts;
    std::size_t total = 0, largest = 0;
    for (const std::string& name : names) {
        const fs::path path = found / name;
        InputFile file(path);
        const std::size_t records = count_records(path, file.size());
        parts.push_back({path, std::move(file), records});
        total += records;
        largest = std::max(largest, records);
    }

    // Training and `data describe` read both splits, and one line is enough.
    const bool tell = split == Split::train;
    Dataset data{"cifar10", side, side, channels, read_classes(found / names_file, tell), {}, {}};
    // Read each file to where its images belong, then squeeze out the label bytes between them. So the last
    // file needs one byte per record beyond the end.
    data.images.resize(total * image_bytes + largest);
    data.labels.reserve(total);
    for (const Part& part : parts) {
        std::uint8_t* const begin = data.images.data() + data.size() * image_bytes;
        part.file.read(0, std::as_writable_bytes(std::span(begin, part.records * record_bytes)));
        for (std::size_t i = 0; i < part.records; ++i) {
            const std::uint8_t* const record = begin + i * record_bytes;
            if (*record >= class_count)
                throw InputError(
                    fmt::format("{} has label {} in record {} (of 0 to {}), but labels are 0 to 9; "
                                "replace it with a sound copy",
                                part.path.string(), *record, i, part.records - 1));
            data.labels.push_back(*record);
            std::memmove(begin + i * image_bytes, record + 1, image_bytes);
        }
    }
    data.images.resize(total * image_bytes);
    return data;
}

void write_cifar10(const Dataset& data, Split split, const fs::path& folder) {
    const std::vector<std::string> names = file_names(split);
    const bool fits = data.height == side && data.width == side && data.channels == channels &&
                      data.classes.size() == class_count && data.size() >= names.size() &&
                      data.size() <= names.size() * records_per_file;
    if (!fits)
        throw InputError(
            fmt::format("the data set {} ({} examples of {}x{}x{}, {} classes) does not fit CIFAR-10's "
                        "format: {} to {} examples of 32x32x3, 10 classes; choose another",
                        data.name, data.size(), data.height, data.width, data.channels, data.classes.size(),
                        names.size(), names.size() * records_per_file));
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw_file_error("create", folder, error.value());

    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::size_t begin = data.size() * i / names.size();
        const std::size_t end = data.size() * (i + 1) / names.size();
        std::string records;
        records.reserve((end - begin) * record_bytes);
        for (std::size_t k = begin; k < end; ++k) {
            records.push_back(char(data.labels[k]));
            records.append(reinterpret_cast<const char*>(data.images.data()) + k * image_bytes, image_bytes);
        }
        write_file_atomically(folder / names[i], records);
    }
    std::string classes;
    for (const std::string& name : data.classes) classes += name + '\n';
    write_file_atomically(folder / names_file, classes);
}

} // namespace towers
