#include "engine/run/safetensors.h"

#include "backends/checksum.h"
#include "backends/error.h"
#include "backends/files/atomic_file.h"
#include "backends/files/file.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>

namespace towers {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and so is this code");

namespace {

using nlohmann::json;

constexpr const char* metadata_key = "__metadata__";
constexpr const char* checksum_key = "tensors_checksum";
// The limit of the format's own library, about a million tensors.
constexpr std::uint64_t longest_header = 100'000'000;
// The most keys in the metadata or in one tensor, and the most numbers in a list. Parsed JSON takes up to 60
// times the memory of its text, so only a part may be in memory at once.
constexpr std::size_t longest_entry = 10'000;

// Shortens a file's content to one line for a message.
std::string excerpt(const json& value) {
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 100) text = text.substr(0, 100) + "...";
    return text;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
    throw InputError(
        fmt::format("{} is not a sound safetensors file: {}; use another copy of it", path.string(), what));
}

/// Calls visitor(dtype, tensors) for each type, in an order that aligns every tensor's numbers in the file.
template<class File, class Visitor>
void for_each_type(File& file, const Visitor& visitor) {
    visitor("F32", file.tensors);
    visitor("U32", file.words);
    visitor("U8", file.bytes);
}

template<class Tensors>
constexpr std::size_t element_bytes = sizeof(typename Tensors::mapped_type().values[0]);

/// One tensor's entry in the header. `begin` and `end` are bytes after the header.
struct Entry {
    std::string name, dtype;
    std::vector<std::size_t> shape;
    std::uint64_t begin = 0, end = 0;
};

/// Calls take(name, value) for each tensor and for the metadata as soon as it is parsed, so that the header's
/// tree is never in memory as a whole.
void parse_header(const std::filesystem::path& path, const std::string& text,
                  const std::function<void(const std::string& name, const json& value)>& take) {
    std::vector<std::set<std::string>> open_objects;
    std::string name;
    std::size_t parts = 0; // parsed so far of the value of `name`
    const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
        using Event = json::parse_event_t;
        // The library prints values recursively, so printing an endless "[[[[" would overflow the stack.
        if (depth > 16) refuse(path, "its header is nested too deeply");
        if (event == Event::object_start) open_objects.emplace_back();
        if (event == Event::object_end) open_objects.pop_back();
        // Refuses duplicate keys: the library would keep the last one, which may not be the one that was
        // meant.
        if (event == Event::key && !open_objects.back().insert(parsed.get<std::string>()).second)
            refuse(path, fmt::format("the name {} appears twice in its header", excerpt(parsed)));
        if (event == Event::key && depth == 1) {
            name = parsed.get<std::string>();
            parts = 0;
        } else if (++parts > longest_entry && depth > 0) {
            refuse(path, fmt::format("the entry of {} in its header is too long", excerpt(name)));
        }
        const bool whole =
            depth == 1 && (event == Event::value || event == Event::object_end || event == Event::array_end);
        if (whole) take(name, parsed);
        return !whole;
    };
    try {
        [[maybe_unused]] const json rest = json::parse(text, check);
    } catch (const json::parse_error& error) {
        refuse(path, fmt::format("its header is not valid JSON at byte {}", 8 + error.byte));
    } catch (const json::exception&) {
        refuse(path, "its header is not valid JSON");
    }
}

bool is_list_of_counts(const json& value) {
    return value.is_array() &&
           std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_number_unsigned(); });
}

std::optional<std::uint64_t> product(const std::vector<std::size_t>& shape, std::uint64_t unit) {
    std::uint64_t result = unit;
    for (const std::size_t extent : shape) {
        if (extent != 0 && result > std::numeric_limits<std::uint64_t>::max() / extent) return std::nullopt;
        result *= extent;
    }
    return result;
}

/// The bytes of an element; 0 for a type that is not read.
std::size_t bytes_of_element(const json& dtype) {
    const TensorFile none;
    std::size_t bytes = 0;
    for_each_type(none, [&]<class Tensors>(const char* type, const Tensors&) {
        if (dtype == type) bytes = element_bytes<Tensors>;
    });
    return bytes;
}

/// Reads one tensor's entry in the header, which may be a tensor to skip.
Entry parse_entry(const std::filesystem::path& path, const std::string& name, const json& value,
                  bool wanted) {
    const std::string who = "tensor " + excerpt(name);
    const auto field = [&](const char* key) -> const json& {
        if (!value.is_object() || !value.contains(key)) refuse(path, fmt::format("{} has no {}", who, key));
        return value[key];
    };
    const json& dtype = field("dtype");
    const std::size_t unit = bytes_of_element(dtype);
    if (wanted && unit == 0)
        throw InputError(
            fmt::format("{} of {} has dtype {}, but only F32, U32 and U8 are read; convert it to float32",
                        who, path.string(), excerpt(dtype)));
    const json& shape = field("shape");
    if (!is_list_of_counts(shape))
        refuse(path, fmt::format("{} has shape {}, which is not a list of sizes", who, excerpt(shape)));
    const json& offsets = field("data_offsets");
    if (!is_list_of_counts(offsets) || offsets.size() != 2 || offsets[0] > offsets[1])
        refuse(path,
               fmt::format("{} has data_offsets {}, which is not a begin and an end", who, excerpt(offsets)));

    Entry entry{name, dtype.is_string() ? dtype.get<std::string>() : "",
                shape.get<std::vector<std::size_t>>(), offsets[0].get<std::uint64_t>(),
                offsets[1].get<std::uint64_t>()};
    if (!wanted) return entry;
    const std::optional<std::uint64_t> bytes = product(entry.shape, unit);
    if (!bytes) refuse(path, fmt::format("{} has shape {}, too large for any memory", who, excerpt(shape)));
    if (*bytes != entry.end - entry.begin)
        refuse(path, fmt::format("{} of shape {} takes {} bytes, but its data_offsets hold {}", who,
                                 excerpt(shape), *bytes, entry.end - entry.begin));
    return entry;
}

// The format requires every byte of the data to belong to exactly one tensor.
void check_cover(const std::filesystem::path& path, std::vector<Entry>& entries, std::uint64_t data_bytes) {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t covered = 0;
    for (const Entry& entry : entries) {
        if (entry.begin < covered)
            refuse(path, fmt::format("tensor {} overlaps another", excerpt(entry.name)));
        if (entry.begin > covered)
            refuse(path, fmt::format("no tensor owns the {} bytes before tensor {}", entry.begin - covered,
                                     excerpt(entry.name)));
        covered = entry.end;
        if (covered > data_bytes)
            refuse(path,
                   fmt::format("it is cut short: tensor {} ends at byte {} of the data, which has {} bytes",
                               excerpt(entry.name), covered, data_bytes));
    }
    if (covered < data_bytes)
        refuse(path, fmt::format("no tensor owns its last {} bytes", data_bytes - covered));
}

std::uint64_t header_length(const std::filesystem::path& path, const InputFile& file) {
    std::uint64_t length = 0;
    if (file.size() <= sizeof(length)) refuse(path, fmt::format("it has only {} bytes", file.size()));
    file.read(0, std::as_writable_bytes(std::span(&length, 1)));
    char first = 0; // the format requires it, so that its files can be recognized
    file.read(sizeof(length), std::as_writable_bytes(std::span(&first, 1)));
    if (first != '{')
        throw InputError(fmt::format("{} is not a safetensors file; give one, such as a run's "
                                     "model.ckpt-<step>.safetensors or diverged-<step>.safetensors",
                                     path.string()));
    if (length > file.size() - sizeof(length))
        refuse(path,
               fmt::format("its header should have {} bytes, but the file has {}", length, file.size()));
    if (length > longest_header)
        throw InputError(
            fmt::format("{}: its header has {} bytes, but at most {} are read; use a file with fewer tensors",
                        path.string(), length, longest_header));
    return length;
}

} // namespace

TensorFile read_safetensors(const std::filesystem::path& path, const TensorFilter& wanted) {
    const InputFile file(path);
    std::string text(header_length(path, file), '\0');
    file.read(8, std::as_writable_bytes(std::span(text)));
    const std::uint64_t data_begin = 8 + text.size();

    TensorFile result;
    std::vector<Entry> entries;
    parse_header(path, text, [&](const std::string& name, const json& value) {
        if (name != metadata_key) {
            entries.push_back(parse_entry(path, name, value, !wanted || wanted(name)));
            return;
        }
        if (!value.is_object()) refuse(path, "its __metadata__ is not a JSON object");
        for (const auto& [key, word] : value.items()) {
            if (!word.is_string())
                refuse(path, fmt::format("its __metadata__ has no string under {}", excerpt(key)));
            result.metadata[key] = word.get<std::string>();
        }
    });
    // Comes before any allocation, to ensure that every tensor lies within the file.
    check_cover(path, entries, file.size() - data_begin);

    const auto checksum = result.metadata.extract(checksum_key);
    Checksum found;
    for (const Entry& entry : entries) {
        const std::uint64_t size = entry.end - entry.begin;
        if (wanted && !wanted(entry.name)) {
            if (checksum.empty()) continue;
            std::vector<std::byte> skipped(size);
            file.read(data_begin + entry.begin, skipped);
            found.add(skipped);
            continue;
        }
        for_each_type(result, [&]<class Tensors>(const char* type, Tensors& tensors) {
            if (entry.dtype != type) return;
            auto& tensor = tensors[entry.name];
            tensor.shape = entry.shape;
            tensor.values.resize(size / element_bytes<Tensors>);
            file.read(data_begin + entry.begin, std::as_writable_bytes(std::span(tensor.values)));
            if (!checksum.empty()) found.add(std::as_bytes(std::span(tensor.values)));
        });
    }
    if (!checksum.empty() && checksum.mapped() != std::to_string(found.value()))
        refuse(path,
               fmt::format("its tensors are not those that it was written with, as '{}' in its metadata "
                           "tells; remove that if you changed them",
                           checksum_key));
    return result;
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
    json header = json::object();
    std::uint64_t end = 0;
    Checksum checksum;
    for_each_type(file, [&]<class Tensors>(const char* dtype, const Tensors& tensors) {
        for (const auto& [name, tensor] : tensors) {
            if (header.contains(name) || name == metadata_key ||
                product(tensor.shape, 1) != tensor.values.size())
                throw std::invalid_argument(
                    fmt::format("tensor {} cannot be stored: {} values for shape {}, or a name that is taken",
                                excerpt(name), tensor.values.size(), excerpt(tensor.shape)));
            const std::uint64_t begin = end;
            end += tensor.values.size() * element_bytes<Tensors>;
            header[name] = {{"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
            checksum.add(std::as_bytes(std::span(tensor.values)));
        }
    });
    header[metadata_key] = file.metadata;
    header[metadata_key][checksum_key] = std::to_string(checksum.value());
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' '); // so that the data is aligned
    const std::uint64_t length = text.size();
    if (length > longest_header)
        throw InputError(fmt::format("cannot write {}: its names take {} bytes, but at most {} can be read; "
                                     "use a model with fewer tensors or shorter names",
                                     path.string(), length, longest_header));

    AtomicFile target(path);
    target.write(std::as_bytes(std::span(&length, 1)));
    target.write(text);
    for_each_type(file, [&](const char*, const auto& tensors) {
        for (const auto& [name, tensor] : tensors) target.write(std::as_bytes(std::span(tensor.values)));
    });
    target.commit();
}

} // namespace towers
