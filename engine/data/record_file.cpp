#include "engine/data/record_file.h"

#include "engine/error.h"

#include <boost/crc.hpp>
#include <fmt/format.h>

namespace towers {

namespace {

std::uint32_t masked_checksum(const void* bytes, std::size_t count) {
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc; // CRC-32C
    crc.process_bytes(bytes, count);
    const std::uint32_t sum = crc.checksum();
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

void append_number(std::string& text, std::uint64_t number, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) text.push_back(char(number >> 8 * i & 255));
}

std::uint64_t number_of(const std::vector<std::uint8_t>& bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = bytes.size(); i > 0; --i) number = number << 8 | bytes[i - 1];
    return number;
}

} // namespace

std::string RecordReader::place() const {
    return fmt::format("{}, record {}", file_.path().string(), records_ - 1);
}

std::vector<std::uint8_t> RecordReader::take(std::uint64_t count) {
    std::vector<std::uint8_t> bytes = file_.read_up_to(count);
    if (bytes.size() < count)
        throw InputError(fmt::format("{} is cut short in record {}; replace it with a complete copy",
                                     file_.path().string(), records_));
    return bytes;
}

std::optional<std::uint64_t> RecordReader::read_length() {
    constexpr std::uint64_t most = std::uint64_t(256) << 20;
    const std::vector<std::uint8_t> bytes = file_.read_up_to(8);
    if (bytes.empty()) return std::nullopt;
    if (bytes.size() < 8 || number_of(take(4)) != masked_checksum(bytes.data(), bytes.size()))
        throw InputError(
            records_ == 0
                ? fmt::format("{} is no TFRecord file: its first length has another checksum; name "
                              "one, or replace it with a sound copy",
                              file_.path().string())
                : fmt::format("{} is damaged: the length of record {} has another checksum; replace "
                              "it with a sound copy",
                              file_.path().string(), records_));
    const std::uint64_t length = number_of(bytes);
    if (length > most)
        throw InputError(fmt::format("{} has {} bytes in record {}, more than {} MiB; give smaller records",
                                     file_.path().string(), length, records_, most >> 20));
    return length;
}

bool RecordReader::read(std::vector<std::uint8_t>& record) {
    const std::optional<std::uint64_t> length = read_length();
    if (!length) return false;
    record = take(*length);
    if (number_of(take(4)) != masked_checksum(record.data(), record.size()))
        throw InputError(
            fmt::format("{} is damaged: record {} has another checksum; replace it with a sound copy",
                        file_.path().string(), records_));
    ++records_;
    return true;
}

std::string framed(std::string_view record) {
    std::string text;
    append_number(text, record.size(), 8);
    append_number(text, masked_checksum(text.data(), 8), 4);
    text += record;
    append_number(text, masked_checksum(record.data(), record.size()), 4);
    return text;
}

} // namespace towers
