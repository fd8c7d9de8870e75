// Folders of pictures.
#include "engine/data/formats.h"
#include "engine/data/picture.h"
#include "tests/engine/data/picture_folders.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

using test::Folder, test::fixture, test::labels_of;

constexpr const char* remedy = "; replace it, or leave broken pictures out with --skip-broken";

} // namespace

TEST_CASE("a folder for each class: names sorted as bytes, in any case, nested, without what is hidden") {
    const Folder folder;
    folder.put("train/cats/2.JPG", "rgb.jpg");
    folder.put("train/cats/10.jpeg", "grey.jpg");
    folder.put("train/Dogs/deep/er/a.Png");
    folder.put("train/caf\u00e9 au lait/x.png", "palette.png");
    folder.put("train/.hidden/x.png");
    folder.put("train/cats/.x.png");
    folder.put("train/loose.png");
    folder.put("Val/cats/a.jpg", "progressive.jpg");
    test::write_text(folder / "train/cats/Thumbs.db", "of no concern");
    const auto train = folder.open();
    CHECK(train->info().name == "pictures");
    CHECK(train->info().classes == std::vector<std::string>{"Dogs", "caf\u00e9 au lait", "cats"});
    CHECK(labels_of(*train) == std::vector<std::uint32_t>{0, 1, 2, 2});
    CHECK(train->image_size() == ImageSize{8, 8, 3});
    CHECK(train->info().pictures->least == ImageSize{13, 19, 3});
    std::vector<std::uint8_t> image(8 * 8 * 3), expected(image.size());
    const std::uint32_t record = 3; // cats/2.JPG
    train->read({&record, 1}, image);
    const std::string bytes = test::read_text(fixture("rgb.jpg"));
    prepare_picture({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, {8, 8, 3}, expected);
    CHECK(image == expected);
    const auto test = folder.open(Split::test); // it has one of the classes, with its label
    CHECK(labels_of(*test) == std::vector<std::uint32_t>{2});
    CHECK(test->info().classes == train->info().classes);
    folder.put("Val/birds/a.png");
    CHECK(folder.error(folder.request(Split::test)) ==
          "/Val/birds is none of the 3 classes of the training data; call it as one of them, or remove it");
}

TEST_CASE("the size is asked for, an option of the source, or that of all pictures") {
    const Folder folder;
    folder.put("a/1.png");
    folder.put("b/1.png", "grey.png");
    const auto size_of = [&](const char* option, ImageSize image) {
        DataRequest request = folder.request(Split::train, image);
        request.source += option;
        return open_data(request)->image_size();
    };
    CHECK(size_of("", {8, 9, 1}) == ImageSize{8, 9, 1});
    CHECK(size_of("?size=20", {8, 9, 1}) == ImageSize{20, 20, 1});
    CHECK(size_of("?size=20x30", {}) == ImageSize{20, 30, 1});
    CHECK(size_of("?size=20x30", {0, 0, 0}) == ImageSize{20, 30, 3});
    CHECK(size_of("", {0, 0, 0}) == ImageSize{13, 19, 3});
    folder.put("b/2.png", "large.png");
    CHECK(size_of("", {0, 0, 0}) == ImageSize{0, 0, 3});
    DataRequest thumbnails = folder.request(Split::train, {0, 0, 0});
    thumbnails.thumbnail = 7;
    CHECK(open_data(thumbnails)->image_size() == ImageSize{7, 7, 3});
    CHECK(folder.error(folder.request(Split::train, {0, 0, 0})) ==
          " has pictures of many sizes; name one for all with '" + folder.path().string() + "?size=64'");
    for (const char* wrong : {"", "0", "x", "9x", "x9", "-1", "9000", "1e3", "3x3x3"}) {
        CAPTURE(wrong);
        DataRequest request = folder.request();
        request.source += std::string("?size=") + wrong;
        CHECK(folder.error(request) == std::string("?size=") + wrong +
                                           ": give the pixels of a side, or HEIGHTxWIDTH, up to 8192 each");
    }
}

TEST_CASE("pictures without a split are held out by their names, which others do not change") {
    const Folder folder;
    for (unsigned i = 0; i < 60; ++i)
        folder.put(std::string(i % 2 ? "a/" : "b/") + std::to_string(i) + ".png");
    CHECK(folder.open()->size() == 60);
    CHECK(
        folder.error(folder.request(Split::test)) ==
        " has no test examples, no val/CLASS/*.jpg; give some with --test-data of train, or --data of eval, "
        "or let train hold some out with --hold-out 10%");
    DataRequest train = folder.request(), test = folder.request(Split::test);
    train.held_out = test.held_out = {0, 0.25};
    const std::size_t held_out = open_data(test)->size();
    CHECK(open_data(train)->size() + held_out == 60);
    CHECK(held_out >= 6);
    CHECK(held_out <= 24);
    const std::uint64_t before = open_data(test)->checksum();
    DataRequest whole = folder.request(Split::test);
    whole.whole = true;
    CHECK(open_data(whole)->size() == 60);
    // A new picture joins one side and moves none.
    folder.put("b/one more.png");
    const std::size_t now = open_data(test)->size();
    CHECK((now == held_out || now == held_out + 1));
    CHECK((open_data(test)->checksum() == before) == (now == held_out));
    fs::create_directory(folder / "train");
    for (const char* name : {"a", "b"}) fs::rename(folder / name, folder / "train" / name);
    CHECK(folder.error(train) ==
          " has folders for training and testing already; leave out --hold-out or --fold");
    DataRequest shapes{.source = "shapes", .split = Split::train};
    shapes.held_out = {0, 0.1};
    CHECK(folder.error(shapes) == "shapes: --hold-out and --fold are for folders and tables of pictures, and "
                                  "these are shapes; leave it out");
}

TEST_CASE("pictures that come apart have the labels of the classes that were trained") {
    const Folder testing;
    testing.put("cow/1.png");
    for (const Split split : {Split::test, Split::train}) {
        DataRequest request = testing.request(split);
        request.whole = true;
        request.trained = {"ant", "bee", "cow"};
        const auto data = open_data(request);
        CHECK(labels_of(*data) == std::vector<std::uint32_t>{2});
        CHECK(data->info().classes == request.trained);
        testing.put("dog/1.png");
        CHECK(testing.error(request) ==
              ": its class dog is none of the 3 classes of the training data; call it as "
              "one of them, or leave it out");
        fs::remove(testing / "dog/1.png"); // a folder without pictures has no labels
        CHECK(labels_of(*open_data(request)) == std::vector<std::uint32_t>{2});
    }
    // A folder for training beside them does not count then.
    testing.put("pictures/val/cow/1.png");
    testing.put("pictures/train/ape/1.png");
    DataRequest request{.source = (testing / "pictures").string(), .split = Split::test, .image = {8, 8, 3}};
    request.whole = true;
    request.trained = {"ape", "bee", "cow"};
    CHECK(labels_of(*open_data(request)) == std::vector<std::uint32_t>{2});
}

TEST_CASE("folders called as numbers are the labels of these numbers where labels are numbers") {
    const std::vector<std::string> digits{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"};
    const Folder folder;
    for (const char* name : {"10/1.png", "2/1.png", "07/1.png"}) folder.put(name);
    CHECK(folder.open()->info().classes == std::vector<std::string>{"07", "10", "2"}); // among themselves
    DataRequest request = folder.request(Split::test);
    request.whole = true;
    request.trained = digits;
    CHECK(labels_of(*open_data(request)) == std::vector<std::uint32_t>{7, 10, 2});
    request.trained = {"0", "1", "10", "11", "2", "3", "4", "5", "6", "7", "8", "9"}; // trained on folders
    CHECK(labels_of(*open_data(request)) == std::vector<std::uint32_t>{9, 2, 4});
    request.trained.resize(8);
    CHECK(folder.error(request) ==
          ": its class 07 is none of the 8 classes of the training data; call it as one "
          "of them, or leave it out");
    request.trained.assign(digits.begin(), digits.begin() + 10);
    CHECK(folder.error(request).find(": its class 10 is none of the 10 classes") == 0);
    // Names that are no numbers get numbers in their order, unless some are labels.
    fs::rename(folder / "10", folder / "ten");
    CHECK(folder.error(request).find(": its class 07 is none of the 10 classes") == 0);
    fs::rename(folder / "07", folder / "seven");
    fs::rename(folder / "2", folder / "two");
    CHECK(labels_of(*open_data(request)) == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("a class without pictures stays one, so that the labels of others do not depend on it") {
    const Folder folder;
    folder.put("ant/1.png");
    folder.put("cow/1.png");
    fs::create_directory(folder / "bee");
    test::write_text(folder / "bee/1.gif", "GIF8");
    const auto data = folder.open();
    CHECK(data->info().classes == std::vector<std::string>{"ant", "bee", "cow"});
    CHECK(labels_of(*data) == std::vector<std::uint32_t>{0, 2});
    CHECK(data->place_of(1) == (folder / "cow/1.png").string());
    fs::remove_all(folder / "cow");
    CHECK(folder.error(folder.request()) == " has pictures of one class only, since " +
                                                (folder / "bee").string() +
                                                " has no JPEG, PNG or WebP files; add some");
}

TEST_CASE("broken pictures are refused, or left out; those that prove broken later become grey") {
    const Folder folder;
    folder.put("a/1.png");
    folder.put("b/1.jpg", "rgb.jpg");
    folder.put("b/2.png");
    test::write_text(folder / "a/text.jpg", "this is no picture");
    CHECK(folder.error(folder.request()) ==
          std::string("/a/text.jpg is neither JPEG, PNG nor WebP") + remedy);
    DataRequest skipping = folder.request();
    skipping.skip_broken = true;
    CHECK(labels_of(*open_data(skipping)) == std::vector<std::uint32_t>{0, 1, 1});
    test::write_text(folder / "b/empty.png", "");
    std::vector<std::string> left_out;
    DataRequest hearing = skipping;
    hearing.left_out = [&](const std::string& problem) { left_out.push_back(problem); };
    CHECK(open_data(hearing)->size() == 3);
    CHECK(left_out == std::vector{(folder / "a/text.jpg").string() + " is neither JPEG, PNG nor WebP",
                                  (folder / "b/empty.png").string() + " is empty"});
    fs::remove(folder / "b/empty.png");
    fs::remove(folder / "a/text.jpg");

    fs::create_symlink("nowhere.png", folder / "a/link.png");
    CHECK(folder.error(folder.request()).find("cannot read ") == 0);
    CHECK(open_data(skipping)->size() == 3);
    fs::remove(folder / "a/link.png");

    const std::string whole = test::read_text(folder / "b/1.jpg");
    test::write_text(folder / "b/1.jpg", whole.substr(0, whole.size() - 40)); // its header is sound
    CHECK(folder.error(folder.request()) == std::string("/b/1.jpg is cut short") + remedy);
    const auto data = open_data(skipping);
    CHECK(data->size() == 3);
    const std::vector<std::uint8_t> images = Folder::read_all(*data);
    const auto broken = std::span(images).subspan(8 * 8 * 3, 8 * 8 * 3);
    CHECK(std::ranges::count(broken, 128) == 8 * 8 * 3);
    fs::remove(folder / "b/1.jpg"); // vanished since
    CHECK(Folder::read_all(*data) == images);
}

TEST_CASE("pictures of which none is sound are refused with an example") {
    const Folder folder;
    for (const char* name : {"a/1.jpg", "b/1.jpg"}) {
        fs::create_directories((folder / name).parent_path());
        test::write_text(folder / name, "this is no picture");
    }
    DataRequest request = folder.request();
    request.skip_broken = true;
    CHECK(folder.error(request) ==
          " has no picture that is sound (the first: " + (folder / "a/1.jpg").string() +
              " is neither JPEG, PNG nor WebP); give others");
}

TEST_CASE("classes whose names read the same are refused") {
    const Folder folder;
    folder.put("caf\xe8/1.png");
    folder.put("caf\xe9/1.png");
    CHECK(folder.error(folder.request()).find(" has two folders that read caf") != std::string::npos);
}

TEST_CASE("there may be many classes") {
    const Folder folder;
    folder.put("0/1.png");
    constexpr std::size_t count = 10'100;
    for (std::size_t i = 1; i < count; ++i) {
        fs::create_directory(folder / std::to_string(i));
        fs::create_symlink("../0/1.png", folder / (std::to_string(i) + "/1.png"));
    }
    CHECK(folder.open()->info().classes.size() == count);
}

TEST_CASE("classes without pictures, one class, and links in circles") {
    const Folder folder;
    folder.put("a/1.png");
    CHECK(folder.error(folder.request()) ==
          " has one class only (a); give a folder to each of two classes or more");
    fs::create_directory(folder / "b\n");
    CHECK(folder.error(folder.request()) == " has pictures of one class only, since " +
                                                folder.path().string() +
                                                "/b? has no JPEG, PNG or WebP files; add some");
    fs::remove(folder / "b\n");
    fs::create_directory_symlink(folder.path(), folder / "a/circle");
    fs::create_directory_symlink(".", folder / "a/itself");
    fs::create_directory_symlink(folder / "a", folder / "b"); // a class may be a link
    CHECK(folder.open()->size() == 2);
    fs::create_directory(folder / "c");
    fs::create_directory_symlink(folder.path(), folder / "c/above"); // not the others' pictures
    CHECK(labels_of(*folder.open()) == std::vector<std::uint32_t>{0, 1});
    fs::remove_all(folder / "c");
    folder.put("c/real/2.png"); // found under its own name, not under a link's
    fs::create_directory_symlink("real", folder / "c/alias");
    CHECK(folder.open()->size() == 3);
    fs::remove_all(folder / "c");
    fs::remove(folder / "b");
    fs::remove(folder / "a/1.png");
    test::write_text(folder / "a/1.gif", "GIF8");
    CHECK(
        folder.error(folder.request()) ==
        " holds pictures (a/1.gif), but none that are JPEG, PNG or WebP in a folder for each class, such as "
        "train/CLASS/*.jpg");
}

} // namespace towers
