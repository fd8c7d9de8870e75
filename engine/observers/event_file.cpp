#include "engine/observers/event_file.h"

#include "engine/data/record_file.h"

#include <chrono>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {
namespace {

using protozero::pbf_writer;
using Tag = protozero::pbf_tag_type;

// The fields' numbers
namespace event {
constexpr Tag wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
} // namespace event
namespace session_log {
constexpr Tag status = 1;
constexpr int start = 1; // a value of `status`
} // namespace session_log
namespace summary {
constexpr Tag value = 1;
} // namespace summary
namespace value {
constexpr Tag tag = 1, simple_value = 2, image = 4, histo = 5;
} // namespace value
namespace image {
constexpr Tag height = 1, width = 2, colorspace = 3, encoded_image_string = 4;
} // namespace image

namespace histogram_proto {
constexpr Tag least = 1, largest = 2, num = 3, sum = 4, sum_squares = 5, bucket_limit = 6, bucket = 7;
} // namespace histogram_proto

/// An event of now, as a record; `fill` adds what it says.
template<class Fill>
std::string record_of(const Fill& fill) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    std::string bytes;
    pbf_writer writer(bytes);
    writer.add_double(event::wall_time, now.count());
    fill(writer);
    return framed(bytes);
}

/// Adds a `Summary.Value` to a summary's bytes; `fill` adds what it holds.
template<class Fill>
void add_value(std::string& summary, const std::string& tag, const Fill& fill) {
    std::string bytes;
    pbf_writer writer(bytes);
    writer.add_string(value::tag, tag);
    fill(writer);
    pbf_writer(summary).add_message(summary::value, bytes);
}

} // namespace

void Summary::add_scalar(const std::string& tag, double value) {
    add_value(bytes_, tag, [&](pbf_writer& writer) { writer.add_float(value::simple_value, float(value)); });
}

void Summary::add_picture(const std::string& tag, const PngSize& size, const std::string& png) {
    add_value(bytes_, tag, [&](pbf_writer& writer) {
        pbf_writer picture(writer, value::image);
        picture.add_int32(image::height, std::int32_t(size.height));
        picture.add_int32(image::width, std::int32_t(size.width));
        picture.add_int32(image::colorspace, std::int32_t(size.channels));
        picture.add_bytes(image::encoded_image_string, png);
    });
}

void Summary::add_histogram(const Histogram& histogram, const std::string& tag) {
    std::vector<double> limits, counts;
    for (std::size_t bin = 0; bin < histogram.bins.size(); ++bin) {
        // A run of empty buckets is one, as TensorFlow has it.
        if (histogram.bins[bin] == 0 && !counts.empty() && counts.back() == 0)
            limits.back() = bin_limit(bin);
        else {
            limits.push_back(bin_limit(bin));
            counts.push_back(double(histogram.bins[bin]));
        }
    }
    add_value(bytes_, tag, [&](pbf_writer& writer) {
        pbf_writer message(writer, value::histo);
        message.add_double(histogram_proto::least, histogram.least);
        message.add_double(histogram_proto::largest, histogram.largest);
        message.add_double(histogram_proto::num, double(histogram.count));
        message.add_double(histogram_proto::sum, histogram.sum);
        message.add_double(histogram_proto::sum_squares, histogram.squares);
        message.add_packed_double(histogram_proto::bucket_limit, limits.begin(), limits.end());
        message.add_packed_double(histogram_proto::bucket, counts.begin(), counts.end());
    });
}

void EventFile::add(std::uint64_t step, const Summary& summary) {
    waiting_ += record_of([&](pbf_writer& writer) {
        writer.add_int64(event::step, std::int64_t(step));
        writer.add_message(event::summary, summary.bytes());
    });
}

void EventFile::append(std::uint64_t step, const Summary& summary) {
    constexpr std::size_t most = 64 * 1024 * 1024; // bytes to keep in memory while the disk is full
    if (waiting_.size() + (file_ ? file_->unwritten() : 0) > most) sync();
    add(step, summary);
    AppendFile& to = file();
    to.append(std::exchange(waiting_, {})); // which keeps it if it cannot write
}

void EventFile::sync() {
    if (!file_ && waiting_.empty()) return;
    AppendFile& to = file();
    if (!waiting_.empty()) to.append(std::exchange(waiting_, {}));
    to.sync();
}

AppendFile& EventFile::file() {
    if (file_) return *file_;
    file_.emplace(run_.make_events_file());
    waiting_.insert(
        0, record_of([](pbf_writer& writer) { writer.add_string(event::file_version, "brain.Event:2"); }) +
               record_of([this](pbf_writer& writer) {
                   writer.add_int64(event::step, std::int64_t(step_));
                   pbf_writer(writer, event::session_log).add_enum(session_log::status, session_log::start);
               }));
    return *file_;
}

} // namespace towers
