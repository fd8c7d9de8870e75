// The file begins with a mark. For each split, training first, follow the images, [records][channels][height]
// [width] bytes, and the labels, 4 bytes each, both at multiples of 4096 bytes; where an image may have
// several labels or none, first the number of each image's labels, then all labels. The file ends with a
// table of contents (JSON: name, classes, image, and records, checksum and perhaps the number of labels of
// each split), its length and its FNV-1a checksum in 8 bytes each, and the mark. All numbers begin with their
// lowest byte.
#include "engine/data/packed.h"

#include "backends/checksum.h"
#include "backends/error.h"
#include "backends/files/atomic_file.h"
#include "backends/files/file.h"
#include "engine/data/formats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little);

/// Without label sets, and with them.
constexpr std::array<std::string_view, 2> marks = {"towers packed 1\n", "towers packed 2\n"};
constexpr std::size_t mark_bytes = marks[0].size();
constexpr std::array<const char*, 2> split_names = {"train", "test"};
constexpr std::uint64_t alignment = 4096, most_contents = std::uint64_t(256) << 20;
constexpr std::size_t tail_bytes = 2 * sizeof(std::uint64_t) + mark_bytes;

constexpr std::uint64_t aligned_up(std::uint64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

[[noreturn]] void refuse(const fs::path& path, const char* what) {
    throw InputError(fmt::format("{} {}; make it anew with 'towers data pack'", path.string(), what));
}

/// A split's place in the file.
struct PackedSplit {
    std::uint64_t records = 0, checksum = 0, images = 0, labels = 0; ///< the latter two: offsets
    std::optional<std::uint64_t> all_labels = {};                    ///< their number, of label sets

    std::uint64_t label_bytes() const { return (records + all_labels.value_or(0)) * sizeof(std::uint32_t); }
};

struct Contents {
    DataInfo info;
    std::array<std::optional<PackedSplit>, 2> splits;
};

/// Finds the splits' places. Returns the end of the last one.
std::uint64_t place(Contents& contents) {
    std::uint64_t end = alignment;
    for (std::optional<PackedSplit>& split : contents.splits) {
        if (!split) continue;
        split->images = end;
        split->labels = aligned_up(end + split->records * contents.info.image.elements());
        end = aligned_up(split->labels + split->label_bytes());
    }
    return end;
}

std::string to_json(const Contents& contents) {
    const auto& [name, classes, image, pictures, unconverted] = contents.info;
    Json json{{"name", name}, {"classes", classes}, {"image", {image.channels, image.height, image.width}}};
    for (std::size_t i = 0; i < split_names.size(); ++i)
        if (const auto& split = contents.splits[i]) {
            json[split_names[i]] = {{"records", split->records}, {"checksum", split->checksum}};
            if (split->all_labels) json[split_names[i]]["labels"] = *split->all_labels;
        }
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// `sets`: the file has label sets. Throws exceptions of Json for what is missing or of another type.
Contents from_json(const std::string& text, bool sets) {
    const Json json = Json::parse(text);
    const auto image = json.at("image").get<std::array<unsigned, 3>>();
    Contents contents{.info = {.name = json.at("name").get<std::string>(),
                               .classes = json.at("classes").get<std::vector<std::string>>(),
                               .image = {.height = image[1], .width = image[2], .channels = image[0]}},
                      .splits = {}};
    for (std::size_t i = 0; i < split_names.size(); ++i)
        if (json.contains(split_names[i])) {
            const Json& split = json.at(split_names[i]);
            contents.splits[i] = PackedSplit{.records = split.at("records").get<std::uint64_t>(),
                                             .checksum = split.at("checksum").get<std::uint64_t>()};
            if (sets) contents.splits[i]->all_labels = split.at("labels").get<std::uint64_t>();
        }
    return contents;
}

bool is_plausible(const Contents& contents, std::uint64_t file_bytes) {
    constexpr unsigned most_side = 1 << 15;
    const ImageSize& image = contents.info.image;
    if (image.height == 0 || image.height > most_side || image.width == 0 || image.width > most_side ||
        (image.channels != 1 && image.channels != 3) || !contents.splits[0] || contents.info.classes.empty())
        return false;
    const std::uint64_t most = std::min<std::uint64_t>(file_bytes / image.elements(), UINT32_MAX);
    return std::ranges::all_of(contents.splits, [most, file_bytes](const auto& split) {
        return !split || (split->records > 0 && split->records <= most &&
                          split->all_labels.value_or(0) <= file_bytes / sizeof(std::uint32_t));
    });
}

std::string read_text(const InputFile& file, std::uint64_t offset, std::size_t bytes) {
    std::string text(bytes, '\0');
    file.read(offset, std::as_writable_bytes(std::span(text)));
    return text;
}

/// The mark with which a file begins; none if it is no packed file.
std::optional<std::string_view> mark_of(const InputFile& file) {
    if (file.size() < mark_bytes) return std::nullopt;
    const auto found = std::ranges::find(marks, read_text(file, 0, mark_bytes));
    return found != marks.end() ? std::optional(*found) : std::nullopt;
}

bool begins_with_mark(const fs::path& path) {
    try {
        return mark_of(InputFile(path)).has_value();
    } catch (const InputError&) {
        return false;
    }
}

Contents read_contents(const InputFile& file, const fs::path& path) {
    const std::optional<std::string_view> mark = mark_of(file);
    if (!mark || file.size() < alignment + tail_bytes) refuse(path, "is cut short");
    const std::uint64_t tail = file.size() - tail_bytes;
    std::array<std::uint64_t, 2> length_and_sum{};
    file.read(tail, std::as_writable_bytes(std::span(length_and_sum)));
    if (read_text(file, tail + sizeof length_and_sum, mark_bytes) != *mark)
        refuse(path, "is cut short: its end is missing");
    const auto [length, sum] = length_and_sum;
    const std::string json =
        length <= most_contents && length <= tail ? read_text(file, tail - length, length) : "";
    if (fnv1a(json) != sum) refuse(path, "is damaged: its table of contents has another checksum");
    Contents contents;
    try {
        contents = from_json(json, *mark == marks[1]);
    } catch (const Json::exception&) {
        refuse(path, "is damaged: its table of contents cannot be read");
    }
    if (!is_plausible(contents, file.size()) || place(contents) != tail - length)
        refuse(path, "is damaged: its size does not fit its table of contents");
    return contents;
}

class PackedSource final : public DataSource {
public:
    /// `labels`: one or a set of each record.
    template<class Labels>
    PackedSource(InputFile file, DataInfo info, Labels labels, const PackedSplit& split)
        : DataSource(std::move(info), std::move(labels)), file_(std::move(file)), split_(split) {}

    // Not mapped: a file that vanishes would then end the program, not the run.
    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        const std::size_t image = image_size().elements();
        for (std::size_t i = 0, count = 1; i < records.size(); i += count) {
            for (count = 1; i + count < records.size() && records[i + count] == records[i] + count;) ++count;
            file_.read(split_.images + records[i] * std::uint64_t(image),
                       std::as_writable_bytes(images.subspan(i * image, count * image)));
        }
    }
    /// What checksum() of the packed source was, so that a run can go on with either.
    std::optional<std::uint64_t> fingerprint() const override { return split_.checksum; }
    std::string find_damage() const override {
        return compute_checksum() == split_.checksum
                   ? ""
                   : "the images or labels have another checksum; make it anew";
    }

private:
    InputFile file_;
    PackedSplit split_;
};

/// The split that a request finds in a file; null: none.
const PackedSplit* find_split(const Contents& contents, const DataRequest& request) {
    const auto& asked = contents.splits[std::size_t(request.split)];
    if (asked) return &*asked;
    return request.whole ? &*contents.splits[0] : nullptr;
}

bool recognizes(const DataRequest& request) {
    const fs::path path = request.source;
    if (!begins_with_mark(path)) return false;
    try {
        return find_split(read_contents(InputFile(path), path), request) != nullptr;
    } catch (const InputError&) {
        return true; // open() says what is wrong
    }
}

/// `counts`: how many of the labels each record has.
LabelSets sets_of(std::span<const std::uint32_t> counts, std::span<const std::uint32_t> labels,
                  const fs::path& path) {
    LabelSets sets;
    for (const std::uint32_t count : counts) {
        const auto its = labels.first(std::min<std::size_t>(count, labels.size()));
        if (its.size() != count || std::ranges::adjacent_find(its, std::ranges::greater_equal()) != its.end())
            refuse(path, "is damaged: it has labels that are no set");
        sets.add(its);
        labels = labels.subspan(count);
    }
    if (!labels.empty()) refuse(path, "is damaged: it has labels of no image");
    return sets;
}

std::unique_ptr<DataSource> open(const DataRequest& request) {
    const fs::path path = request.source;
    InputFile file(path);
    Contents contents = read_contents(file, path);
    const PackedSplit* const split = find_split(contents, request);
    if (split == nullptr) refuse(path, "has no such examples");
    std::vector<std::uint32_t> words(split->label_bytes() / sizeof(std::uint32_t));
    file.read(split->labels, std::as_writable_bytes(std::span(words)));
    const auto labels = std::span(words).last(split->all_labels.value_or(split->records));
    if (std::ranges::any_of(labels,
                            [&](std::uint32_t label) { return label >= contents.info.classes.size(); }))
        refuse(path, "is damaged: it has a label without a class");
    if (!split->all_labels)
        return std::make_unique<PackedSource>(std::move(file), contents.info, std::move(words), *split);
    return std::make_unique<PackedSource>(std::move(file), contents.info,
                                          sets_of(std::span(words).first(split->records), labels, path),
                                          *split);
}

/// Writes to the next multiple of `alignment`. `offset`: of the file's end.
void pad(AtomicFile& file, std::uint64_t& offset) {
    const std::string zeros(aligned_up(offset) - offset, '\0');
    file.write(zeros);
    offset += zeros.size();
}

/// Appends a split at this offset.
PackedSplit write_split(AtomicFile& file, std::uint64_t& offset, const DataSource& data) {
    PackedSplit split{.records = data.size()};
    Checksum sum; // as DataSource::checksum() adds it up
    data.add_labels(sum);
    data.read_all([&](std::size_t, std::span<const std::uint8_t> images) {
        sum.add(std::as_bytes(images));
        file.write(std::as_bytes(images));
    });
    offset += data.image_bytes();
    pad(file, offset);
    if (const LabelSets* const sets = data.label_sets().get()) {
        std::vector<std::uint32_t> counts;
        for (std::size_t i = 0; i < sets->size(); ++i) counts.push_back(std::uint32_t(sets->of(i).size()));
        file.write(std::as_bytes(std::span(counts)));
        file.write(std::as_bytes(sets->labels()));
        split.all_labels = sets->labels().size();
    } else
        file.write(std::as_bytes(data.labels()));
    offset += split.label_bytes();
    pad(file, offset);
    split.checksum = sum.value();
    return split;
}

} // namespace

void write_packed(const DataSource& train, const DataSource* test, const fs::path& path) {
    Contents contents{.info = train.info(), .splits = {}};
    const std::string_view mark = marks[train.label_sets() != nullptr ? 1 : 0];
    AtomicFile file(path);
    file.write(mark);
    std::uint64_t offset = mark.size();
    pad(file, offset);
    contents.splits[0] = write_split(file, offset, train);
    if (test != nullptr) contents.splits[1] = write_split(file, offset, *test);
    const std::string json = to_json(contents);
    const std::array<std::uint64_t, 2> length_and_sum{json.size(), fnv1a(json)};
    file.write(json);
    file.write(std::as_bytes(std::span(length_and_sum)));
    file.write(mark);
    file.commit();
}

const DataFormat& packed_format() {
    static constexpr DataFormat format{.key = "packed",
                                       .name = "a packed file",
                                       .more = {},
                                       .files = {"packed file", "packed file"},
                                       .options = {},
                                       .recognizes = recognizes,
                                       .open = open,
                                       .named = true};
    return format;
}

} // namespace towers
