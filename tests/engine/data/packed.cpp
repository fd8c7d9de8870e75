#include "engine/data/packed.h"
#include "engine/data/converted.h"
#include "engine/data/formats.h"
#include "engine/data/shapes.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace towers {
namespace {

/// Whether two sources have the same images and labels.
bool same(const DataSource& a, const DataSource& b) {
    std::vector<std::uint8_t> of_a(a.size() * a.image_size().elements()), of_b(of_a.size());
    if (a.size() != b.size() || a.image_size() != b.image_size()) return false;
    a.read(0, a.size(), of_a);
    b.read(0, b.size(), of_b);
    return of_a == of_b && std::ranges::equal(a.labels(), b.labels()) &&
           a.info().classes == b.info().classes && a.info().name == b.info().name;
}

/// Grey pictures without a label, of no class at all.
class NoClasses final : public DataSource {
public:
    NoClasses() : DataSource({.name = "none", .classes = {}, .image = {4, 4, 1}}, empty_sets()) {}

    using DataSource::read;
    void read(std::span<const std::uint32_t>, std::span<std::uint8_t> images) const override {
        std::ranges::fill(images, std::uint8_t(7));
    }

private:
    static LabelSets empty_sets() {
        LabelSets sets;
        for (int record = 0; record < 3; ++record) sets.add({});
        return sets;
    }
};

} // namespace

TEST_CASE("a packed file has the examples of both splits, and the checksums of the data set") {
    const test::TemporaryFolder folder;
    for (const ImageSize& size : {ImageSize{8, 6, 3}, {5, 5, 1}}) {
        const Dataset train = make_shapes(Split::train, 3, size, 50),
                      test = make_shapes(Split::test, 3, size, 20);
        const std::string path = (folder / "data").string();
        write_packed(train, &test, path);
        const auto read_train = open_data({path, Split::train}), read_test = open_data({path, Split::test});
        CHECK(same(*read_train, train));
        CHECK(same(*read_test, test));
        CHECK(read_train->checksum() == train.checksum());
        CHECK(read_test->checksum() == test.checksum());
        std::vector<std::uint8_t> images(5 * size.elements()), expected(images.size());
        const std::vector<std::uint32_t> records{7, 8, 9, 3, 49};
        read_train->read(records, images);
        train.read(records, expected);
        CHECK(images == expected);
    }
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"data"});
}

TEST_CASE("a packed file with one split serves any split that it is named for") {
    const test::TemporaryFolder folder;
    const Dataset train = make_shapes(Split::train, 3, {8, 8, 3}, 30);
    const std::string path = (folder / "data").string();
    write_packed(train, nullptr, path);
    CHECK(open_data({path, Split::train})->size() == 30);
    CHECK(open_data({.source = path, .split = Split::test, .whole = true})->size() == 30);
    CHECK(
        test::input_error([&] {
            open_data({path, Split::test});
        }) ==
        path +
            " has no test examples, no packed file; give some with --test-data of train, or --data of eval");
}

TEST_CASE("a packed file that is cut short or damaged is refused, and never a foreign one taken for it") {
    const test::TemporaryFolder folder;
    const Dataset train = make_shapes(Split::train, 3, {8, 8, 3}, 30);
    const std::string path = (folder / "data").string();
    write_packed(train, &train, path);
    const std::string sound = test::read_text(path);
    const auto refusal = [&](const std::string& bytes) {
        test::write_text(path, bytes);
        return test::input_error([&] { open_data({path, Split::train}); });
    };
    const std::string remedy = "; make it anew with 'towers data pack'";
    for (std::size_t bytes = 16; bytes < sound.size(); bytes += 1 + bytes / 50)
        CHECK(refusal(sound.substr(0, bytes)).ends_with(remedy));
    CHECK(refusal(sound.substr(0, sound.size() - 1)) == path + " is cut short: its end is missing" + remedy);
    CHECK(refusal(sound + "x").ends_with(remedy));
    for (std::size_t at = sound.rfind("{\"classes"); at < sound.size(); at += 7) {
        std::string damaged = sound;
        damaged[at] ^= 4;
        CHECK(refusal(damaged).ends_with(remedy));
    }
    std::string damaged;
    damaged = sound;
    damaged[8192 + 4096] = 99; // the second label
    CHECK(refusal(damaged) == path + " is damaged: it has a label without a class" + remedy);
    CHECK(refusal(sound.substr(1)).find("pack'") == std::string::npos);
}

TEST_CASE("a packed file without classes is refused") {
    const test::TemporaryFolder folder;
    const std::string path = (folder / "data").string();
    write_packed(NoClasses(), nullptr, path);
    CHECK(test::input_error([&] { open_data({path, Split::train}); }).starts_with(path + " is damaged"));
}

TEST_CASE("a packed file that shrinks while it is used ends reading with a message") {
    const test::TemporaryFolder folder;
    const Dataset train = make_shapes(Split::train, 3, {8, 8, 3}, 30);
    const std::string path = (folder / "data").string();
    write_packed(train, nullptr, path);
    const auto data = open_data({path, Split::train});
    std::filesystem::resize_file(path, 5000);
    std::vector<std::uint8_t> image(192);
    CHECK(test::input_error([&] {
              data->read(29, 1, image);
          }).starts_with(path + " ends at byte 9664, 192 bytes early"));
}

TEST_CASE("only data that is not in memory has a fingerprint, also when its images are converted") {
    const test::TemporaryFolder folder;
    const Dataset train = make_shapes(Split::train, 3, {8, 8, 3}, 30);
    const std::string path = (folder / "data").string();
    write_packed(train, nullptr, path);
    CHECK_FALSE(train.fingerprint());
    CHECK(open_data({path, Split::train})->fingerprint() == train.checksum());
    const auto converted = [&](const ImageSize& size) {
        return ConvertedSource(open_data({path, Split::train}), size).checksum();
    };
    CHECK(converted({4, 8, 3}) != converted({8, 4, 3}));
    CHECK(converted({4, 8, 3}) == converted({4, 8, 3}));
    const auto drawn = [&] { return std::make_unique<Dataset>(make_shapes(Split::train, 3, {8, 8, 3}, 30)); };
    CHECK_FALSE(ConvertedSource(drawn(), {4, 4, 1}).fingerprint());
}

} // namespace towers
