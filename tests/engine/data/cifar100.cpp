#include "engine/data/formats.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace towers {
namespace {

/// Record i has these labels and pixels of value i.
std::string records(const std::vector<std::pair<int, int>>& labels) {
    std::string bytes;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        bytes.push_back(char(labels[i].first));
        bytes.push_back(char(labels[i].second));
        bytes.append(3072, char(i));
    }
    return bytes;
}

std::string lines(const std::string& word, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += word + std::to_string(i) + '\n';
    return text;
}

struct Folder : test::TemporaryFolder {
    Folder() {
        test::write_text(*this / "train.bin", records({{3, 42}, {19, 99}}));
        test::write_text(*this / "test.bin", records({{0, 0}}));
        test::write_text(*this / "coarse_label_names.txt", lines("coarse", 20));
        test::write_text(*this / "fine_label_names.txt", lines("fine", 100));
    }
};

} // namespace

TEST_CASE("CIFAR-100 is read with its fine labels or its coarse ones") {
    const Folder folder;
    for (const char* option : {"", "?labels=fine"}) {
        const auto fine = open_data({folder.path().string() + option, Split::train});
        CHECK(fine->info().name == "cifar100");
        CHECK(fine->info().classes.size() == 100);
        CHECK(fine->info().classes[42] == "fine42");
        CHECK(std::ranges::equal(fine->labels(), std::vector<std::uint32_t>{42, 99}));
        std::vector<std::uint8_t> images(std::size_t(2) * 3072);
        fine->read(0, 2, images);
        CHECK(images[3071] == 0);
        CHECK(images[3072] == 1);
    }
    const auto coarse = open_data({folder.path().string() + "?labels=coarse", Split::train});
    CHECK(coarse->info().classes.size() == 20);
    CHECK(coarse->info().classes[19] == "coarse19");
    CHECK(std::ranges::equal(coarse->labels(), std::vector<std::uint32_t>{3, 19}));
    CHECK(open_data({folder.path().string() + "?labels=coarse", Split::test})->size() == 1);
}

TEST_CASE("CIFAR-100's folder is found in the folder above, and damaged records are refused") {
    const Folder folder;
    const test::TemporaryFolder above;
    std::filesystem::copy(folder.path(), above / "cifar-100-binary",
                          std::filesystem::copy_options::recursive);
    CHECK(open_data({above.path().string(), Split::train})->size() == 2);
    test::write_text(folder / "train.bin", records({{20, 42}}));
    CHECK(open_data({folder.path().string(), Split::train})->size() == 1); // the fine label is sound
    CHECK(test::input_error([&] {
              open_data({folder.path().string() + "?labels=coarse", Split::train});
          }) ==
          (folder / "train.bin").string() +
              " has label 20 in record 0 (of 0 to 0), but labels are 0 to 19; replace it with a sound copy");
    test::write_text(folder / "train.bin", records({{1, 42}}) + "x");
    CHECK(test::input_error([&] {
              open_data({folder.path().string(), Split::train});
          }) == (folder / "train.bin").string() +
                    " is cut short: its 3075 bytes are 1 whole records of 3074 bytes and 1 "
                    "more bytes; replace it with a complete copy");
}

} // namespace towers
