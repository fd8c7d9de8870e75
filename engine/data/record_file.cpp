#include "engine/data/record_file.h"

#include "backends/error.h"
#include "engine/files/gzip_file.h"
#include "engine/files/mapped_file.h"

#include <array>
#include <cstring>
#include <fmt/format.h>
#include <isa-l/crc.h>
#include <utility>

namespace towers {

namespace {

constexpr std::size_t length_bytes = 8, checksum_bytes = 4;

/// The masked CRC-32C of fewer than 2^31 bytes.
std::uint32_t masked_checksum(const void* bytes, std::size_t count) {
    auto* const text = static_cast<unsigned char*>(const_cast<void*>(bytes)); // which ISA-L only reads
    const std::uint32_t sum = ~crc32_iscsi(text, int(count), ~0u);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

void append_number(std::string& text, std::uint64_t number, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) text.push_back(char(number >> 8 * i & 255));
}

std::uint64_t number_of(std::span<const std::uint8_t> bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = bytes.size(); i > 0; --i) number = number << 8 | bytes[i - 1];
    return number;
}

/// The record's length, if its checksum is right.
std::optional<std::uint64_t> length_of(std::span<const std::uint8_t> bytes) {
    const auto length = bytes.first(length_bytes);
    if (number_of(bytes.subspan(length_bytes, checksum_bytes)) !=
        masked_checksum(length.data(), length.size()))
        return std::nullopt;
    return number_of(length);
}

bool is_compressed(const std::filesystem::path& path) {
    const InputFile file(path);
    std::array<std::uint8_t, 2> mark{};
    if (file.size() < mark.size()) return false;
    file.read(0, std::as_writable_bytes(std::span(mark)));
    return mark == std::array<std::uint8_t, 2>{0x1f, 0x8b};
}

void visit_records(std::span<const std::uint8_t> file, const std::filesystem::path& path,
                   const std::function<void(const RecordName&, const RecordView&)>& visit) {
    constexpr std::uint64_t most = std::uint64_t(256) << 20;
    std::uint64_t at = 0;
    for (std::size_t record = 0; at < file.size(); ++record) {
        const auto refuse = [&](const std::string& what) {
            throw InputError(fmt::format("{} {}", path.string(), what));
        };
        const auto rest = file.subspan(at);
        const bool complete = rest.size() >= length_bytes + checksum_bytes;
        const std::optional<std::uint64_t> length = complete ? length_of(rest) : std::nullopt;
        if (!length)
            refuse(record == 0 ? "is no TFRecord file: its first length has another checksum; name one, or "
                                 "replace it with a sound copy"
                               : fmt::format("is damaged: the length of record {} has another checksum; "
                                             "replace it with a sound copy",
                                             record));
        if (*length > most)
            refuse(fmt::format("has {} bytes in record {}, more than {} MiB; give smaller records", *length,
                               record, most >> 20));
        const auto record_on = rest.subspan(length_bytes + checksum_bytes);
        if (record_on.size() < *length + checksum_bytes)
            refuse(fmt::format("is cut short in record {}; replace it with a complete copy", record));
        at += length_bytes + checksum_bytes;
        visit({path, record}, {at, record_on.first(*length),
                               std::uint32_t(number_of(record_on.subspan(*length, checksum_bytes)))});
        at += *length + checksum_bytes;
    }
}

} // namespace

std::string RecordName::text() const { return fmt::format("{}, record {}", file.string(), record); }

bool RecordView::is_sound() const { return checksum == masked_checksum(bytes.data(), bytes.size()); }

RecordFile::RecordFile(std::filesystem::path path, std::uint64_t& room,
                       const std::function<void(const RecordName&, const RecordView&)>& visit)
    : path_(std::move(path)), compressed_(is_compressed(path_)) {
    if (!compressed_) {
        MappedFile file(path_);
        visit_records(file.bytes(), path_, [&](const RecordName& name, const RecordView& record) {
            visit(name, record);
            file.forget(record.offset);
        });
        return;
    }
    if (!begins_with_a_record(path_))
        visit_records(GzipFile(path_).read_up_to(length_bytes + checksum_bytes), path_, visit);
    try {
        unpacked_ = GzipFile(path_).read_up_to(room + 1);
        unpacked_.shrink_to_fit();
    } catch (const std::bad_alloc&) {
        throw InputError(
            fmt::format("{}: there is not enough memory to unpack it; do so first (gunzip)", path_.string()));
    }
    if (unpacked_.size() > room)
        throw InputError(
            fmt::format("{} goes beyond 4 GiB of unpacked records, the most that compressed files "
                        "may have; unpack it (gunzip)",
                        path_.string()));
    room -= unpacked_.size();
    visit_records(unpacked_, path_, visit);
}

RecordFile::Reader::Reader(const RecordFile& from) : from_(from) {
    if (!from.compressed_) file_.emplace(from.path_);
}

RecordView RecordFile::Reader::read(std::uint64_t offset, std::uint32_t length) {
    std::span<const std::uint8_t> bytes;
    if (file_) {
        bytes_.resize(length + checksum_bytes);
        file_->read(offset, std::as_writable_bytes(std::span(bytes_)));
        bytes = bytes_;
    } else {
        bytes = std::span(from_.unpacked_).subspan(offset, length + checksum_bytes);
    }
    return {offset, bytes.first(length), std::uint32_t(number_of(bytes.subspan(length)))};
}

bool begins_with_a_record(const std::filesystem::path& file) {
    try {
        const std::vector<std::uint8_t> bytes = GzipFile(file).read_up_to(length_bytes + checksum_bytes);
        return bytes.size() == length_bytes + checksum_bytes && length_of(bytes).has_value();
    } catch (const InputError&) {
        return false;
    }
}

std::string framed(std::string_view record) {
    std::string text;
    append_number(text, record.size(), length_bytes);
    append_number(text, masked_checksum(text.data(), length_bytes), checksum_bytes);
    text += record;
    append_number(text, masked_checksum(record.data(), record.size()), checksum_bytes);
    return text;
}

} // namespace towers
