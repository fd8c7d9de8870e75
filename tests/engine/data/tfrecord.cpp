#include "engine/data/tfrecord.h"
#include "engine/data/formats.h"
#include "engine/data/picture.h"
#include "engine/data/record_file.h"
#include "engine/data/shapes.h"
#include "engine/data/tf_example.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace towers {
namespace {

using namespace std::string_literals;
namespace fs = std::filesystem;

std::string example(std::string_view image, std::int64_t label,
                    std::map<std::string, std::int64_t> more = {}) {
    more["label"] = label;
    return framed(write_tf_example({{"image_raw", image}}, more));
}

std::string images_of(const DataSource& data) {
    std::vector<std::uint8_t> images(data.size() * data.image_size().elements());
    data.read(0, data.size(), images);
    return {images.begin(), images.end()};
}

struct Folder : test::TemporaryFolder {
    std::string source(const char* name = "") const { return (*this / name).string(); }
    std::unique_ptr<DataSource> open(const char* name = "", Split split = Split::train,
                                     bool whole = false) const {
        return open_data({.source = source(name), .split = split, .whole = whole});
    }
    /// The error for a file with these bytes, without the file's path.
    std::string error_of(const std::string& bytes, const char* options = "") const {
        test::write_text(*this / "x.tfrecord", bytes);
        const std::string file = source("x.tfrecord");
        const std::string message = test::input_error([&] {
            images_of(*open_data({.source = file + options, .split = Split::train, .image = {8, 8, 3}}));
        });
        return message.starts_with(file) ? message.substr(file.size()) : message;
    }
};

} // namespace

TEST_CASE("a record has TensorFlow's bytes") {
    // Written by TensorFlow 2.21: tf.io.TFRecordWriter(path).write(b"towers")
    CHECK(framed("towers") == "\x06\0\0\0\0\0\0\0\x73\x69\xd5\x37"s + "towers" + "\x65\xf3\xd9\xe2");
}

TEST_CASE("TFRecord files are read: a file, a pattern, a folder; plain or compressed") {
    const Folder folder;
    test::write_text(folder / "train-1.tfrecord", example("abcd", 3) + example("efgh", 1));
    test::write_text(folder / "train-2.tfrecord", example("ijkl", 0));
    test::write_text(folder / "test.tfrecord", example("mnop", 2));
    test::write_text(folder / "notes", "of no concern");
    const auto train = folder.open();
    CHECK(train->info().name == "tfrecord");
    CHECK(train->image_size() == ImageSize{2, 2, 1});
    CHECK(train->info().classes == std::vector<std::string>{"0", "1", "2", "3"});
    CHECK(std::ranges::equal(train->labels(), std::vector<std::uint32_t>{3, 1, 0}));
    CHECK(images_of(*train) == "abcdefghijkl");
    CHECK(train->place_of(2) == (folder / "train-2.tfrecord").string() + ", record 0");
    CHECK(images_of(*folder.open("", Split::test)) == "mnop");
    CHECK(images_of(*folder.open("train-2.tfrecord")) == "ijkl");
    CHECK(images_of(*folder.open("train-?.tfrecord")) == "abcdefghijkl");
    CHECK(images_of(*folder.open("t*.tfrecord", Split::test)) == "mnop");
    CHECK(images_of(*folder.open("train-2.tfrecord", Split::test, true)) == "ijkl");
    CHECK(images_of(*folder.open("", Split::test, true)) == "mnop");
    CHECK(images_of(*folder.open("test.tfrecord")) == "mnop"); // to train on
    CHECK(test::input_error([&] { folder.open("train-2.tfrecord", Split::test); }) ==
          folder.source("train-2.tfrecord") + " has no test examples, no *test*.tfrecord; give some with "
                                              "--test-data of train, or --data of eval");

    // Another name, compressed as tf.io.TFRecordOptions(compression_type="GZIP") does
    const gzFile file = gzopen((folder / "digits").c_str(), "wb");
    const std::string record = example("qrst", 1);
    REQUIRE(gzwrite(file, record.data(), unsigned(record.size())) == int(record.size()));
    REQUIRE(gzclose(file) == Z_OK);
    CHECK(images_of(*folder.open("digits")) == "qrst");
}

TEST_CASE("pictures in colour become planes, and their size is told or a square's") {
    const Folder folder;
    test::write_text(folder / "a.tfrecord",
                     example("rgbRGB", 0, {{"height", 1}, {"width", 2}, {"depth", 3}}));
    CHECK(folder.open("a.tfrecord")->image_size() == ImageSize{1, 2, 3});
    CHECK(images_of(*folder.open("a.tfrecord")) == "rRgGbB");
    const std::string like_jpeg = "\xff\xd8\xff\xe0\1\2"; // but they fill the picture
    test::write_text(folder / "d.tfrecord", example(like_jpeg, 0, {{"height", 1}, {"width", 2}}));
    CHECK(images_of(*folder.open("d.tfrecord")) == "\xff\xe0\xd8\1\xff\2");
    test::write_text(folder / "b.tfrecord", example("rgbRGBrgbRGB", 0));
    CHECK(folder.open("b.tfrecord")->image_size() == ImageSize{2, 2, 3});
    CHECK(images_of(*folder.open("b.tfrecord")) == "rRrRgGgGbBbB");
    test::write_text(folder / "c.tfrecord", example("abcdef", 0, {{"height", 3}, {"width", 2}}));
    CHECK(folder.open("c.tfrecord")->image_size() == ImageSize{3, 2, 1});
}

TEST_CASE("features of other names are named after the source") {
    const Folder folder;
    const std::string record = framed(write_tf_example({{"pixels", "abcd"}}, {{"digit", 4}}));
    CHECK(folder.error_of(record) == ", record 0 has no image under a known name (image_raw, image/encoded, "
                                     "image); its features are digit, "
                                     "pixels: name one with '" +
                                         folder.source("x.tfrecord") + "?image=NAME'");
    CHECK(folder.error_of(record, "?image=nope") ==
          ", record 0 has no feature 'nope', which ?image= names; it has digit, pixels");
    CHECK(folder.error_of(record, "?colour=red") ==
          "?colour=red: TFRecord files take no 'colour', only ?image=, ?label= and ?size=");
    const auto data = folder.open("x.tfrecord?image=pixels&label=digit");
    CHECK(images_of(*data) == "abcd");
    CHECK(data->labels()[0] == 4);
}

TEST_CASE("encoded pictures in records are decoded as files are") {
    const Folder folder;
    const auto fixture = [](const std::string& name) {
        return test::read_text(test::source_folder() / "tests/fixtures/pictures" / name);
    };
    const std::string jpeg = fixture("orientation-6.jpg"), png = fixture("palette.png");
    const std::string sound = example(jpeg, 1) + example(png, 0, {{"height", 13}, {"width", 19}});
    test::write_text(folder / "train.tfrecord", sound);
    DataRequest request{.source = folder.source(), .split = Split::train, .image = {8, 8, 3}};
    const auto data = open_data(request);
    CHECK(std::ranges::equal(data->labels(), std::vector<std::uint32_t>{1, 0}));
    CHECK(data->info().pictures->least == ImageSize{13, 13, 3});
    CHECK(data->info().pictures->most == ImageSize{19, 19, 3});
    std::vector<std::uint8_t> expected(2 * 192);
    const auto bytes = [](const std::string& text) {
        return std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    };
    prepare_picture(bytes(jpeg), {8, 8, 3}, std::span(expected).first(192));
    prepare_picture(bytes(png), {8, 8, 3}, std::span(expected).subspan(192));
    CHECK(images_of(*data) == std::string(expected.begin(), expected.end()));
    CHECK(folder.open()->image_size() == ImageSize{0, 0, 3});
    CHECK(folder.open("train.tfrecord?size=5x6")->image_size() == ImageSize{5, 6, 3});

    // Compressed
    const gzFile file = gzopen((folder / "packed.tfrecord").c_str(), "wb");
    REQUIRE(gzwrite(file, sound.data(), unsigned(sound.size())) == int(sound.size()));
    REQUIRE(gzclose(file) == Z_OK);
    const auto packed =
        open_data({.source = folder.source("packed.tfrecord"), .split = Split::train, .image = {8, 8, 3}});
    CHECK(images_of(*packed) == images_of(*data));
    CHECK(packed->checksum() == data->checksum());
    fs::remove(folder / "packed.tfrecord");

    // Broken ones: a header, the data, the bytes on the disk
    const char* const remedy = "; replace it, or leave broken pictures out with --skip-broken";
    CHECK(folder.error_of(sound + example("\xff\xd8\xff\xe0...", 0)) ==
          std::string(", record 2 is cut short") + remedy);
    CHECK(folder.error_of(sound + example("neither JPEG nor PNG!", 0)) ==
          std::string(", record 2 is neither JPEG, PNG nor WebP") + remedy);
    const std::string square(8 * 8, 'x'); // which could be pixels under another name
    CHECK(folder.error_of(framed(write_tf_example({{"image/encoded", square}}, {{"label", 0}}))) ==
          std::string(", record 0 is neither JPEG, PNG nor WebP") + remedy);
    CHECK(folder.error_of(sound + example(jpeg.substr(0, jpeg.size() - 9), 0)) ==
          std::string(", record 2 is cut short") + remedy);
    CHECK(folder.error_of(example("abcd", 0) + sound) ==
          ", record 1 has an encoded picture, but those before have pixels; give files of one kind");
    fs::remove(folder / "x.tfrecord");
    std::string damaged = sound;
    damaged[12 + jpeg.size() / 2] ^= 1;
    test::write_text(folder / "train.tfrecord", damaged + example("\xff\xd8\xff", 0));
    request.skip_broken = true;
    const auto skipped = open_data(request);
    CHECK(skipped->size() == 2);
    CHECK(images_of(*skipped) ==
          std::string(192, char(128)) + std::string(expected.begin() + 192, expected.end()));
}

TEST_CASE("the split is told from words of a file's name") {
    const Folder folder;
    for (const char* name : {"latest.tfrecord", "strain-1.tfrecord", "interval.tfrecord"})
        test::write_text(folder / name, example("abcd", 0));
    for (const char* name : {"mnistTest-00.tfrecord", "validation1.tfrecord", "t10k.tfrecord",
                             "dev-1.tfrecord", "testset.tfrecord"})
        test::write_text(folder / name, example("abcd", 0));
    test::write_text(folder / "._train.tfrecord", "what macOS leaves on other disks");
    CHECK(folder.open()->size() == 3);
    CHECK(folder.open("", Split::test)->size() == 5);
}

TEST_CASE("a data set written as TFRecord files is read back the same") {
    const Folder folder;
    for (const ImageSize size : {ImageSize{32, 32, 3}, ImageSize{7, 9, 1}}) {
        const auto shapes = make_shapes(Split::train, 3, size, 40);
        write_tfrecord(shapes, folder / "shapes.tfrecord");
        const auto data = folder.open("shapes.tfrecord");
        CHECK(data->image_size() == size);
        CHECK(data->checksum() == shapes.checksum());
    }
}

TEST_CASE("damaged TFRecord files and examples that do not fit are refused") {
    const Folder folder;
    const std::string sound = example("abcd", 3), file = folder.source("x.tfrecord");
    for (std::size_t length = 1; length < sound.size(); ++length) {
        CAPTURE(length);
        const std::string message = folder.error_of(sound + sound.substr(0, length));
        CHECK(message.find("replace it with a ") != std::string::npos);
    }
    for (std::size_t i = 0; i < sound.size(); ++i) {
        CAPTURE(i);
        std::string damaged = sound;
        damaged[i] ^= 4;
        const std::string message = folder.error_of(sound + damaged);
        CHECK(message.find("has another checksum; replace it") != std::string::npos);
    }
    CHECK(folder.error_of("<html><body>not found</body></html>") ==
          " is no TFRecord file: its first length has another checksum; name one, or replace it with a sound "
          "copy");
    CHECK(folder.error_of("") == " holds no records; give files that do");
    CHECK(folder.error_of(framed("\xff\xff\xff")) ==
          ", record 0 is no tf.train.Example; give files of these");
    CHECK(folder.error_of(sound + example("abcdefghi", 3)) ==
          ", record 1 has a picture of 3x3x1, but those before have 2x2x1; give pictures of one size");
    CHECK(folder.error_of(example("abc", 3, {{"height", 2}, {"width", 2}})) ==
          ", record 0 has 3 bytes of pixels, which are no picture of 2x2 in grey or colours; give a byte "
          "(uint8) for "
          "each colour of a pixel");
    CHECK(folder.error_of(example("abcde", 3)) ==
          ", record 0 has 5 bytes of pixels, which are no picture that is square, in grey or colours; give a "
          "byte "
          "(uint8) for each colour of a pixel, or the size in features height and width");
    CHECK(folder.error_of(example("", 3)).find("has 0 bytes of pixels") != std::string::npos);
    for (const std::int64_t label : {std::int64_t(-1), std::int64_t(1) << 20, INT64_MAX})
        CHECK(folder.error_of(example("abcd", label)) == ", record 0 has no label from 0 to 1048575");
}

} // namespace towers
