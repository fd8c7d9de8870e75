#include "engine/data/cifar_files.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/files/text.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <spdlog/spdlog.h>
#include <system_error>
#include <utility>

namespace towers {

namespace fs = std::filesystem;

namespace {

std::size_t count_records(const fs::path& path, std::uint64_t bytes, std::size_t record_bytes,
                          std::size_t most) {
    const std::uint64_t records = bytes / record_bytes;
    const auto refuse = [&](const std::string& what) {
        throw InputError(fmt::format("{} {}; replace it with a complete copy", path.string(), what));
    };
    if (bytes == 0) refuse("is empty");
    if (bytes > most * record_bytes)
        refuse(fmt::format("has {} bytes, more than {} records of {} bytes", bytes, most, record_bytes));
    if (bytes % record_bytes != 0)
        refuse(fmt::format("is cut short: its {} bytes are {} whole records of {} bytes and {} more bytes",
                           bytes, records, record_bytes, bytes % record_bytes));
    return records;
}

/// Appends the labels and images of a file's records.
void read_records(const CifarFiles& from, const fs::path& path, std::vector<std::uint32_t>& labels,
                  std::vector<std::uint8_t>& images) {
    if (std::error_code error; !fs::exists(path, error) && !error)
        throw InputError(fmt::format("{} is missing; put it there", path.string()));
    const InputFile file(path);
    const std::size_t record_bytes = from.label_bytes + cifar_image.elements();
    const std::size_t records = count_records(path, file.size(), record_bytes, from.most);
    std::vector<std::uint8_t> bytes(records * record_bytes);
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    for (std::size_t i = 0; i < records; ++i) {
        const auto record = bytes.begin() + std::ptrdiff_t(i * record_bytes);
        const unsigned label = record[from.label];
        if (label >= from.classes.size())
            throw InputError(fmt::format("{} has label {} in record {} (of 0 to {}), but labels are 0 to {}; "
                                         "replace it with a sound copy",
                                         path.string(), label, i, records - 1, from.classes.size() - 1));
        labels.push_back(label);
        images.insert(images.end(), record + from.label_bytes, record + std::ptrdiff_t(record_bytes));
    }
}

} // namespace

std::unique_ptr<DataSource> open_cifar(CifarFiles files) {
    std::vector<std::uint32_t> labels;
    std::vector<std::uint8_t> images;
    labels.reserve(files.files.size() * files.most);
    images.reserve(files.files.size() * files.most * cifar_image.elements());
    for (const fs::path& path : files.files) read_records(files, path, labels, images);
    return std::make_unique<Dataset>(DataInfo{files.name, std::move(files.classes), cifar_image},
                                     std::move(images), std::move(labels));
}

std::vector<std::string> read_class_names(const fs::path& path, std::size_t count, bool tell) {
    std::error_code error;
    if (!fs::exists(path, error)) return {};
    const InputFile file(path);
    std::string text(std::min<std::uint64_t>(file.size(), 4096), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    std::vector<std::string> names = lines_in(text);
    for (std::string& name : names) name = as_printable(name);
    if (names.size() == count) return names;
    if (tell)
        spdlog::warn("{} names {} classes, but the records have {}; their usual names stand in for it",
                     path.string(), names.size(), count);
    return {};
}

fs::path find_cifar(const fs::path& folder, const char* archive, const std::vector<std::string>& files) {
    std::error_code error; // what cannot be examined counts as absent
    if (!fs::is_directory(folder, error)) return {};
    for (const fs::path& candidate : {folder, folder / archive})
        for (const std::string& name : files)
            if (fs::exists(candidate / name, error)) return candidate;
    return {};
}

} // namespace towers
