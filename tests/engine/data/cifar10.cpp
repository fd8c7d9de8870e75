#include "engine/data/cifar10.h"
#include "engine/data/formats.h"
#include "engine/data/source.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace towers {

namespace {

using test::input_error;
using test::write_text;

constexpr std::size_t record_bytes = 3073;

// Record i of a file has the label (start + i) % 10 and pixels that encode its place.
std::string records(std::size_t count, unsigned start) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) {
        bytes.push_back(char((start + i) % 10));
        for (std::size_t k = 0; k < 3072; ++k) bytes.push_back(char((start * 31 + i * 7 + k * 13) % 251));
    }
    return bytes;
}

void write_train(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    for (unsigned i = 1; i <= 5; ++i)
        write_text(folder / ("data_batch_" + std::to_string(i) + ".bin"), records(i + 1, i));
}

std::string load_error(const std::filesystem::path& folder, Split split = Split::train) {
    return input_error([&] { open_data({folder.string(), split}); });
}

std::vector<std::string> classes_of(const std::filesystem::path& folder) {
    return open_cifar10(folder, Split::test)->info().classes;
}

void check_says(const std::string& message, std::initializer_list<const char*> parts) {
    for (const char* part : parts) {
        CAPTURE(message);
        CAPTURE(part);
        CHECK(message.find(part) != std::string::npos);
    }
}

} // namespace

TEST_CASE("CIFAR-10's records arrive in order, planes and labels untouched") {
    const test::TemporaryFolder folder;
    write_train(folder.path());
    write_text(folder / "test_batch.bin", records(9, 77));

    const auto train = open_cifar10(folder.path(), Split::train);
    CHECK(train->size() == 2 + 3 + 4 + 5 + 6);
    CHECK(train->image_size() == ImageSize{32, 32, 3});
    std::vector<std::uint8_t> images(train->size() * 3072);
    train->read(0, train->size(), images);
    std::size_t at = 0;
    for (unsigned i = 1; i <= 5; ++i) {
        const std::string expected = records(i + 1, i);
        for (std::size_t r = 0; r <= i; ++r, ++at) {
            REQUIRE(train->labels()[at] == std::uint32_t(std::uint8_t(expected[r * record_bytes])));
            for (std::size_t k = 0; k < 3072; ++k)
                REQUIRE(images[at * 3072 + k] == std::uint8_t(expected[r * record_bytes + 1 + k]));
        }
    }
    const auto test = open_data({folder.path().string(), Split::test});
    CHECK(test->size() == 9);
    CHECK(test->labels()[0] == 7);
}

TEST_CASE("CIFAR-10's records are read in any order and by any thread, across its files") {
    const test::TemporaryFolder folder;
    write_train(folder.path());
    const auto data = open_cifar10(folder.path(), Split::train);
    std::vector<std::uint8_t> all(data->size() * 3072);
    data->read(0, data->size(), all);
    // Neighbours within a file and in two files, repetitions, the first and the last record
    const std::vector<std::uint32_t> records{19, 0, 1, 2, 3, 3, 2, 13, 14, 15};
    std::array<bool, 4> same{};
    std::vector<std::thread> threads;
    for (bool& each : same)
        threads.emplace_back([&] {
            std::vector<std::uint8_t> images(records.size() * 3072);
            each = true;
            for (int round = 0; round < 20; ++round) {
                data->read(records, images);
                for (std::size_t i = 0; i < records.size(); ++i)
                    each = each && std::ranges::equal(std::span(images).subspan(i * 3072, 3072),
                                                      std::span(all).subspan(records[i] * 3072ul, 3072));
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (const bool each : same) CHECK(each);
}

TEST_CASE("the folder above the unpacked archive works too") {
    const test::TemporaryFolder folder;
    write_train(folder / "cifar-10-batches-bin");
    CHECK(open_data({folder.path().string(), Split::train})->size() == 20);
}

TEST_CASE("class names come from the meta file, or are the official ones") {
    const test::TemporaryFolder folder;
    write_text(folder / "test_batch.bin", records(1, 0));
    CHECK(classes_of(folder.path()).at(9) == "truck");
    write_text(folder / "batches.meta.txt", "a\r\nb\nc\nd\ne\nf\ng\nh\ni\nlast\n\n");
    CHECK(classes_of(folder.path()) ==
          std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g", "h", "i", "last"});
    write_text(folder / "batches.meta.txt", "only\nthree\nnames\n");
    CHECK(classes_of(folder.path()).at(0) == "airplane");
}

TEST_CASE("other data is named for what it is") {
    const test::TemporaryFolder folder;
    const auto file = [&](const std::string& name, std::string_view bytes) {
        const std::filesystem::path path = folder / name;
        std::filesystem::create_directories(path.parent_path());
        write_text(path, bytes);
        return load_error(path);
    };
    check_says(file("cifar-10-binary.tar.gz", "\x1f\x8b\x08"),
               {"cifar-10-binary.tar.gz is compressed by gzip; unpack it (tar -xzf FILE) and give a folder"});
    check_says(file("images.gz", "\x1f\x8b\x08"), {"unpack it (gunzip FILE)"});
    check_says(file("data.zip", "PK\x03\x04"), {"data.zip is a zip archive; unpack it"});
    check_says(file("cat.jpg", "\xff\xd8\xff\xe0"), {"cat.jpg is one picture; give a folder"});
    check_says(file("cat.png", "\x89PNG\r\n"), {"is one picture"});
    using namespace std::string_view_literals;
    check_says(file("cat.tif", "II*\0\x08"sv), {"is one picture"});
    check_says(file("dog.tif", "MM\0*\0"sv), {"is one picture"});
    check_says(file("summer", "MMXXVI"), {"summer is a file; give a folder"});
    check_says(file("list", "II* of them"), {"list is a file; give a folder"});
    check_says(file("empty", ""), {"empty is a file; give a folder"});

    file("packed/cifar-10-binary.tar.gz", "\x1f\x8b\x08");
    check_says(load_error(folder / "packed"), {"packed holds cifar-10-binary.tar.gz, which is still packed"});
    file("python/data_batch_1", "");
    check_says(load_error(folder / "python"), {"python holds CIFAR-10 for Python; get its binary version"});
    file("hundred/train", "");
    file("hundred/meta", "");
    check_says(load_error(folder / "hundred"), {"hundred holds CIFAR-100 for Python"});
    file("photos/cats/A.GIF", "");
    check_says(load_error(folder / "photos"),
               {"photos holds pictures (cats/a.gif), but none that are JPEG, PNG or WebP"});
    check_says(load_error(folder / "photos" / "cats"), {"cats holds pictures (a.gif)"});
    // CIFAR-10's files are found beside other files.
    write_train(folder / "photos");
    CHECK(open_data({(folder / "photos").string(), Split::train})->size() == 20);
}

TEST_CASE("the error about missing data names it and says what to do") {
    const test::TemporaryFolder folder;
    const std::filesystem::path nowhere = folder / "nowhere";
    check_says(load_error(nowhere), {"there is no file or folder", nowhere.c_str(), "shapes"});
    check_says(input_error([] { open_data({"", Split::train}); }), {"there is no file or folder"});
    check_says(load_error(folder.path()), {folder.path().c_str(), "data_batch_1.bin", "put CIFAR-10"});
    check_says(load_error(folder.path(), Split::test), {"test_batch.bin"});
    write_text(folder / "a file", "x");
    check_says(load_error(folder / "a file"), {"a file is a file; give a folder"});

    write_train(folder.path());
    std::filesystem::remove(folder / "data_batch_4.bin");
    check_says(load_error(folder.path()), {"data_batch_4.bin is missing; put it there"});
    std::filesystem::create_directory(folder / "data_batch_4.bin");
    check_says(load_error(folder.path()), {"data_batch_4.bin", "Is a directory"});
}

TEST_CASE("damaged data is refused before it spoils a training") {
    const test::TemporaryFolder folder;
    write_train(folder.path());
    const std::filesystem::path file = folder / "data_batch_3.bin";

    SUBCASE("empty") {
        write_text(file, "");
        check_says(load_error(folder.path()), {file.c_str(), "is empty"});
    }
    SUBCASE("cut short") {
        write_text(file, records(3, 0).substr(0, 3 * record_bytes - 1));
        check_says(load_error(folder.path()),
                   {file.c_str(), "9218 bytes", "2 whole records", "3072 more bytes"});
    }
    SUBCASE("trailing bytes") {
        write_text(file, records(3, 0) + "x");
        check_says(load_error(folder.path()),
                   {file.c_str(), "9220 bytes", "3 whole records", "1 more bytes"});
    }
    SUBCASE("too long") {
        write_text(file, std::string(10'001 * record_bytes, '\0'));
        check_says(load_error(folder.path()), {file.c_str(), "30733073 bytes", "more than 10000 records"});
    }
    SUBCASE("unknown label") {
        std::string bytes = records(4, 0);
        bytes[2 * record_bytes] = char(10);
        write_text(file, bytes);
        check_says(load_error(folder.path()), {file.c_str(), "label 10", "record 2"});
        bytes[2 * record_bytes] = char(255);
        write_text(file, bytes);
        check_says(load_error(folder.path()), {file.c_str(), "label 255", "record 2"});
    }
}

TEST_CASE("a data set that CIFAR-10's format cannot hold is not written") {
    const test::TemporaryFolder folder;
    write_train(folder / "in");
    const auto refused = [&](const DataSource& data) {
        return input_error([&] { write_cifar10(data, Split::train, folder / "out"); });
    };
    const auto data_of = [](std::size_t count, std::size_t classes, const ImageSize& size) {
        return Dataset({"any", std::vector<std::string>(classes, "any"), size},
                       std::vector<std::uint8_t>(count * size.elements()), std::vector<std::uint32_t>(count));
    };
    check_says(refused(data_of(4, 10, {32, 32, 3})), {"4 examples", "5 to 50000"});
    check_says(refused(data_of(20, 9, {32, 32, 3})), {"9 classes"});
    check_says(refused(data_of(20, 10, {28, 32, 3})), {"28x32x3"});
    write_text(folder / "out", "a file in the way");
    check_says(refused(*open_cifar10(folder / "in", Split::train)), {"cannot create", "out"});
}

} // namespace towers
