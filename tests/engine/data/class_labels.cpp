#include "engine/data/class_labels.h"

#include "engine/data/formats.h"
#include "engine/data/packed.h"
#include "engine/data/tfrecord.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

/// Records with these labels.
Dataset records(Names classes, std::vector<std::uint32_t> labels) {
    const std::size_t count = labels.size();
    return {{"some", std::move(classes), {2, 2, 1}}, std::vector<std::uint8_t>(4 * count), std::move(labels)};
}

std::vector<std::uint32_t> labels_of(const DataSource& data) {
    return {data.labels().begin(), data.labels().end()};
}

/// What labels 0, 1 and 2 of `own` classes become where `trained` ones were trained.
std::vector<std::uint32_t> taken(const Names& own, const Names& trained, bool named = true) {
    Dataset data = records(own, {0, 1, 2});
    take_training_classes(data, trained, named, "X");
    return labels_of(data);
}

std::string refusal(const Names& own, const Names& trained, bool named = true) {
    return test::input_error([&] { taken(own, trained, named); });
}

using Labels = std::vector<std::uint32_t>;

} // namespace

TEST_CASE("names of classes that are numbers") {
    CHECK(are_numbers_in_order({"0", "1", "2"}));
    CHECK(are_numbers_in_order({"00", "01"}));
    CHECK_FALSE(are_numbers_in_order({"1", "2"}));
    CHECK_FALSE(are_numbers_in_order({"0", "1", "10", "2"}));
    CHECK(numbers_of({"10", "2", "007"}) == Labels{10, 2, 7});
    for (const Names& none :
         {Names{"1", "cat"}, {"-1", "0"}, {"1.5"}, {""}, {"7", "07"}, {"99999999999"}, {"4294967295"}})
        CHECK_FALSE(numbers_of(none));
}

TEST_CASE("classes get the labels of those that were trained, by name or by number") {
    CHECK(taken({"ant", "bee", "cow"}, {"cow", "ape", "bee", "ant"}) == Labels{3, 2, 0});
    CHECK(taken({"7", "10", "2"}, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}) ==
          Labels{7, 10, 2});
    CHECK(taken({"002", "010", "007"}, {"0", "1", "10", "2", "7"}) == Labels{3, 2, 4});
    CHECK(taken({"1", "10", "2"}, {"1", "10", "2"}) == Labels{0, 1, 2});
    // Numbers without names have a meaning of their own, unless what was trained are other numbers.
    CHECK(taken({"0", "1", "2"}, {"ant", "bee", "cow"}, false) == Labels{0, 1, 2});
    CHECK(taken({"0", "1", "2"}, {"0", "1"}, false) == Labels{0, 1, 2});
    CHECK(taken({"0", "1", "2"}, {"1", "10", "2", "0"}, false) == Labels{3, 0, 2});
    CHECK(taken({"cat", "dog", "eel"}, {"0", "1"}) == Labels{0, 1, 2});
    CHECK(taken({"airplane", "bird", "cat"}, {"bird", "cat"}, false) == Labels{0, 1, 2});

    const std::string advice = " classes of the training data; call it as one of them, or leave it out";
    CHECK(refusal({"ant", "bee", "cow"}, {"ant", "cow"}) == "X: its class bee is none of the 2" + advice);
    CHECK(refusal({"1", "2", "3"}, {"0", "1", "2"}) == "X: its class 3 is none of the 3" + advice);
    CHECK(refusal({"-1", "0", "1"}, {"0", "1", "2"}) == "X: its class -1 is none of the 3" + advice);
    CHECK(refusal({"0", "1", "2"}, {"1", "10", "2"}, false) == "X: its class 0 is none of the 3" + advice);
    CHECK(refusal({"0", "1", "2"}, {"ant", "bee", "cow"}) == "X: its class 0 is none of the 3" + advice);
}

TEST_CASE("classes called as numbers keep these where they are packed or become records") {
    const test::TemporaryFolder folder;
    const Dataset data = records({"0", "1", "10", "11", "2"}, {2, 4, 3});
    write_packed(data, nullptr, folder / "packed");
    write_tfrecord(data, folder / "train.tfrecord");
    const auto open = [&](const char* name, Names trained) {
        DataRequest request{.source = (folder / name).string(), .split = Split::train, .whole = true};
        request.trained = std::move(trained);
        return open_data(request);
    };
    CHECK(open("packed", {})->info().classes == data.info().classes);
    CHECK(labels_of(*open("train.tfrecord", {})) == Labels{10, 2, 11});
    Names numbers;
    for (int i = 0; i < 12; ++i) numbers.push_back(std::to_string(i));
    for (const char* name : {"packed", "train.tfrecord"}) {
        CHECK(labels_of(*open(name, numbers)) == Labels{10, 2, 11});
        CHECK(labels_of(*open(name, data.info().classes)) == Labels{2, 4, 3});
    }
    for (const Names& names : {Names{"1990", "2000"}, {"20230101", "20230102"}, {"0", "20"}, {"5", "6"}}) {
        const bool are_labels = names[0] == "5"; // others would give many classes without examples
        CAPTURE(names[0]);
        const fs::path file = folder / (names[0] + ".tfrecord");
        write_tfrecord(records(names, {1, 0}), file);
        CHECK(labels_of(*open(file.filename().c_str(), {})) == (are_labels ? Labels{6, 5} : Labels{1, 0}));
        CHECK(open(file.filename().c_str(), {})->info().classes.size() == (are_labels ? 7 : 2));
    }
    const Dataset named = records({"ant", "bee"}, {1, 0});
    write_tfrecord(named, folder / "named.tfrecord");
    CHECK(labels_of(*open("named.tfrecord", {"ant", "bee"})) == Labels{1, 0});
}

} // namespace towers
