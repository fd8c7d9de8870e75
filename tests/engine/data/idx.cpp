#include "engine/data/formats.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

namespace towers {
namespace {

using namespace std::string_literals;
namespace fs = std::filesystem;

std::string idx(const std::vector<unsigned>& sizes, const std::string& elements, char type = 8) {
    std::string bytes{'\0', '\0', type, char(sizes.size())};
    for (const unsigned size : sizes)
        for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(char(size >> shift & 255));
    return bytes + elements;
}

void write_gzip(const fs::path& path, const std::string& text) {
    const gzFile file = gzopen(path.c_str(), "wb");
    REQUIRE(gzwrite(file, text.data(), unsigned(text.size())) == int(text.size()));
    REQUIRE(gzclose(file) == Z_OK);
}

constexpr const char *train_images = "train-images-idx3-ubyte", *train_labels = "train-labels-idx1-ubyte";

/// Two training images and one test image, of 2x3 pixels.
struct Folder : test::TemporaryFolder {
    Folder() {
        test::write_text(*this / train_images, idx({2, 2, 3}, "abcdefghijkl"));
        test::write_text(*this / train_labels, idx({2}, "\x03\x01"));
        test::write_text(*this / "t10k-images-idx3-ubyte", idx({1, 2, 3}, "uvwxyz"));
        test::write_text(*this / "t10k-labels-idx1-ubyte", idx({1}, "\x06"));
    }
    std::unique_ptr<DataSource> open(Split split = Split::train) const {
        return open_data({path().string(), split});
    }
    std::string error() const {
        return test::input_error([&] { open(); });
    }
    /// The error after a file has been replaced, without the file's path.
    std::string error_with(const char* name, const std::string& bytes) const {
        test::write_text(*this / name, bytes);
        const std::string message = error(), file = (*this / name).string();
        return message.starts_with(file) ? message.substr(file.size() + 1) : message;
    }
};

std::string images_of(const DataSource& data) {
    std::vector<std::uint8_t> images(data.size() * data.image_size().elements());
    data.read(0, data.size(), images);
    return {images.begin(), images.end()};
}

} // namespace

TEST_CASE("MNIST's files are read, plain and compressed, and the classes are those of both splits") {
    const Folder folder;
    const auto check = [&] {
        const auto train = folder.open();
        CHECK(train->info().name == "idx");
        CHECK(train->image_size() == ImageSize{2, 3, 1});
        CHECK(train->info().classes == std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6"});
        CHECK(std::ranges::equal(train->labels(), std::vector<std::uint32_t>{3, 1}));
        CHECK(images_of(*train) == "abcdefghijkl");
        CHECK(images_of(*folder.open(Split::test)) == "uvwxyz");
        CHECK(folder.open(Split::test)->info().classes.size() == 7);
    };
    check();
    for (const char* name : {train_images, "t10k-labels-idx1-ubyte"}) { // some compressed, some not
        write_gzip(folder / (name + ".gz"s), test::read_text(folder / name));
        check(); // with both
        fs::remove(folder / name);
        check();
    }
}

TEST_CASE("the names of Fashion-MNIST's relatives are known") {
    const test::TemporaryFolder folder;
    test::write_text(folder / "emnist-letters-train-images-idx3-ubyte", idx({1, 1, 1}, "x"));
    test::write_text(folder / "emnist-letters-train-labels-idx1-ubyte", idx({1}, "\1"));
    test::write_text(folder / "test-images.idx3-ubyte", idx({1, 1, 1}, "y"));
    test::write_text(folder / "test-labels.idx1-ubyte", idx({1}, "\0"s));
    CHECK(images_of(*open_data({folder.path().string(), Split::train})) == "x");
    CHECK(images_of(*open_data({folder.path().string(), Split::test})) == "y");
    test::write_text(folder / "train-images-idx3-ubyte.gz", "");
    CHECK(test::input_error([&] {
              open_data({folder.path().string(), Split::train});
          }) == folder.path().string() +
                    " holds several data sets, such as emnist-letters-train-images-idx3-ubyte and "
                    "train-images-idx3-ubyte.gz; give each a folder of its own");
}

TEST_CASE("damaged files of MNIST's format are refused by name") {
    const Folder folder;
    const char* const copy = "; replace it with a complete copy";
    const auto with_images = [&](const std::string& bytes) { return folder.error_with(train_images, bytes); };
    CHECK(with_images("") == "does not begin as MNIST's images do (bytes 0, 0, 8, 3)"s + copy);
    CHECK(with_images("<html>") == "does not begin as MNIST's images do (bytes 0, 0, 8, 3)"s + copy);
    CHECK(with_images(idx({2, 2, 3}, "", 9)) ==
          "does not begin as MNIST's images do (bytes 0, 0, 8, 3)"s + copy);
    CHECK(with_images(idx({2, 2, 3}, "").substr(0, 10)) ==
          "is cut short: it ends within its first bytes"s + copy);
    CHECK(with_images(idx({2, 2, 3}, "abcdefghijk")) ==
          "is cut short: its first bytes promise 2 x 2 x 3 bytes, and it has 11"s + copy);
    CHECK(with_images(idx({2, 2, 3}, "abcdefghijklm")) ==
          "has more than the 2 x 2 x 3 bytes that its first bytes promise"s + copy);
    CHECK(with_images(idx({0, 2, 3}, "")) == "is empty"s + copy);
    CHECK(with_images(idx({~0u, ~0u, ~0u}, "abc")) == "has 4294967295 x 4294967295 bytes of elements, more "
                                                      "than 4 GiB, which this format's data sets may have; "
                                                      "give a part of them");
    CHECK(with_images(idx({1, 2, 3}, "abcdef")) == (folder / train_labels).string() + " has 2 labels, but " +
                                                       (folder / train_images).string() +
                                                       " has 1 images; give files that belong together");

    CHECK(with_images(idx({2, 1, 40000}, std::string(80000, 'x'))) ==
          "has images of 1x40000, more than 32768 pixels a side; give smaller ones");

    with_images(idx({2, 2, 3}, "abcdefghijkl"));
    const std::string test_labels = test::read_text(folder / "t10k-labels-idx1-ubyte");
    fs::remove(folder / "t10k-labels-idx1-ubyte");
    CHECK(folder.open()->info().classes.size() == 4); // those of the training alone
    test::write_text(folder / "t10k-labels-idx1-ubyte", test_labels);
    CHECK(folder.error_with(train_labels, idx({2, 1}, "ab")) ==
          "does not begin as MNIST's labels do (bytes 0, 0, 8, 1)"s + copy);
    fs::remove(folder / train_labels);
    CHECK(folder.error() ==
          (folder / train_images).string() + " has no labels beside it; put train-labels-idx1-ubyte there");
    fs::remove(folder / train_images);
    CHECK(folder.error() == folder.path().string() + " holds t10k-images-idx3-ubyte, but no training images; "
                                                     "put train-images-idx3-ubyte there");
}

TEST_CASE("compressed files that are cut short, damaged or endless are refused") {
    const Folder folder;
    const std::string name = train_images + ".gz"s, plain = test::read_text(folder / train_images);
    fs::remove(folder / train_images);
    write_gzip(folder / name, plain);
    const std::string sound = test::read_text(folder / name);
    for (std::size_t length = 3; length < sound.size(); ++length) {
        CAPTURE(length);
        CHECK(folder.error_with(name.c_str(), sound.substr(0, length))
                  .find("replace it with a complete copy") != std::string::npos);
    }
    std::string damaged = sound;
    damaged[damaged.size() - 6] ^= 1; // in the checksum
    CHECK(folder.error_with(name.c_str(), damaged).starts_with("is damaged: gzip says"));
    // 64 MB of zeros in 64 KB: read up to the first byte that is not promised.
    write_gzip(folder / name, idx({2, 2, 3}, std::string(std::size_t(1) << 26, '\0')));
    CHECK(folder.error().find("has more than the 2 x 2 x 3 bytes") != std::string::npos);
}

} // namespace towers
