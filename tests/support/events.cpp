#include "tests/support/events.h"

#include "engine/data/record_file.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <protozero/pbf_reader.hpp>

namespace towers::test {
namespace {

using protozero::pbf_reader;

ReadPicture read_picture(pbf_reader image) {
    ReadPicture picture;
    while (image.next()) switch (image.tag()) {
        case 1:
            picture.height = image.get_int32();
            break;
        case 2:
            picture.width = image.get_int32();
            break;
        case 3:
            picture.channels = image.get_int32();
            break;
        case 4:
            picture.png = image.get_string();
            break;
        default:
            FAIL("an image has a field ", image.tag());
        }
    return picture;
}

std::vector<double> read_list(pbf_reader& message) {
    const auto range = message.get_packed_double();
    return {range.begin(), range.end()};
}

ReadHistogram read_histogram(pbf_reader message) {
    ReadHistogram read;
    while (message.next()) switch (message.tag()) {
        case 1:
            read.least = message.get_double();
            break;
        case 2:
            read.largest = message.get_double();
            break;
        case 3:
            read.count = message.get_double();
            break;
        case 4:
            read.sum = message.get_double();
            break;
        case 5:
            read.squares = message.get_double();
            break;
        case 6:
            read.limits = read_list(message);
            break;
        case 7:
            read.counts = read_list(message);
            break;
        default:
            FAIL("a histogram has a field ", message.tag());
        }
    return read;
}

void read_value(pbf_reader value, ReadEvent& event) {
    std::string tag;
    while (value.next()) switch (value.tag()) {
        case 1:
            tag = value.get_string();
            break;
        case 2:
            CHECK(event.scalars.emplace(tag, value.get_float()).second);
            break;
        case 4:
            CHECK(event.pictures.emplace(tag, read_picture(value.get_message())).second);
            break;
        case 5:
            CHECK(event.histograms.emplace(tag, read_histogram(value.get_message())).second);
            break;
        default:
            FAIL("a value has a field ", value.tag());
        }
}

ReadEvent read_event(pbf_reader message) {
    ReadEvent event;
    while (message.next()) switch (message.tag()) {
        case 1:
            event.wall_time = message.get_double();
            break;
        case 2:
            event.step = message.get_int64();
            break;
        case 3:
            event.file_version = message.get_string();
            break;
        case 5:
            for (pbf_reader summary = message.get_message(); summary.next(1);)
                read_value(summary.get_message(), event);
            break;
        case 7: {
            pbf_reader log = message.get_message();
            REQUIRE(log.next(1));
            event.session_status = log.get_enum();
            break;
        }
        default:
            FAIL("an event has a field ", message.tag());
        }
    return event;
}

} // namespace

std::vector<ReadEvent> read_events(const std::filesystem::path& file) {
    std::vector<ReadEvent> events;
    std::uint64_t room = 0;
    const RecordFile read(file, room, [&](const RecordName&, const RecordView& record) {
        CHECK(record.is_sound());
        events.push_back(
            read_event(pbf_reader(reinterpret_cast<const char*>(record.bytes.data()), record.bytes.size())));
    });
    return events;
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& run) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(run))
        if (entry.path().filename().string().starts_with("events.out.tfevents."))
            files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
}

} // namespace towers::test
