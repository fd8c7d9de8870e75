// Pictures that are named one by one: where they are found, and that a broken one costs no other.
#include "engine/data/picture_list.h"

#include "engine/data/picture.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

fs::path fixtures() { return test::source_folder() / "tests/fixtures/pictures"; }

struct Found {
    std::vector<std::string> names, complaints, warnings;
};

Found find(const fs::path& path) {
    Found found;
    for (const NamedPicture& each : pictures_at(
             path, [&](const std::string& line) { found.complaints.push_back(line); },
             [&](const std::string& line) { found.warnings.push_back(line); }))
        found.names.push_back(each.name);
    return found;
}

using Lines = std::vector<std::string>;

} // namespace

TEST_CASE("a folder names the pictures below it, sorted, however its path is written") {
    const test::TemporaryFolder folder;
    fs::create_directories(folder / "b/deep");
    for (const char* name : {"c.PNG", "b/2.jpg", "b/deep/1.jpeg", "a.png", ".hidden.png", "notes.txt"})
        test::write_text(folder / name, "");
    const std::string path = folder.path().string();
    const Lines below{"/a.png", "/b/2.jpg", "/b/deep/1.jpeg", "/c.PNG"};
    const Found found = find(folder.path());
    Lines expected;
    for (const std::string& each : below) expected.push_back(path + each);
    CHECK(found.names == expected);
    CHECK(found.complaints == Lines{});
    CHECK(found.warnings == Lines{});
    CHECK(find(path + "/").names == expected);
    CHECK(find(path + "/b/..").names.size() == 4);
    CHECK(find(path + "/.").names.size() == 4);

    // A link to a folder above leads to no picture twice.
    fs::create_directory_symlink(folder.path(), folder / "b/above");
    CHECK(find(path).names == expected);
    CHECK(find(path + "/b/").names.size() == 2);
}

TEST_CASE("what has no pictures is said, and a file is taken whatever its name") {
    const test::TemporaryFolder folder;
    const std::string path = folder.path().string();
    CHECK(find(path).complaints == Lines{path + " has no JPEG, PNG or WebP files; name another folder"});
    test::write_text(folder / "x.gif", "");
    test::write_text(folder / "y.tif", "");
    Found found = find(path);
    REQUIRE(found.complaints.size() == 1);
    const std::string left = "2 pictures left out: x.gif, y.tif; only names with .jpg, .jpeg, .png or .webp "
                             "count: convert such files";
    CHECK(found.complaints[0] == path + " has no JPEG, PNG or WebP files, " + left);
    test::write_text(folder / "a.png", "");
    found = find(path);
    CHECK(found.complaints == Lines{});
    REQUIRE(found.warnings.size() == 1);
    CHECK(found.warnings[0] == path + ": " + left);
    CHECK(find(path + "/x.gif").names == Lines{path + "/x.gif"});
    CHECK(find(path + "/absent").names == Lines{path + "/absent"}); // whoever reads it says so

    if (::geteuid() == 0) return; // who may read every folder
    fs::create_directory(folder / "closed");
    fs::permissions(folder / "closed", fs::perms::none);
    found = find(path);
    CHECK(found.names == Lines{path + "/a.png"});
    REQUIRE(found.complaints.size() == 1);
    CHECK(found.complaints[0].starts_with("cannot read " + path + "/closed: Permission denied"));
    fs::permissions(folder / "closed", fs::perms::owner_all);
}

TEST_CASE("a list of paths ends them by lines or, if it has one, by zero bytes") {
    CHECK(paths_in("") == Lines{});
    CHECK(paths_in("a\nb c\n\n d") == Lines{"a", "b c", " d"});
    CHECK(paths_in(std::string("a\nb\0c\0", 6)) == Lines{"a\nb", "c"});
    CHECK(paths_in("\xef\xbb\xbf"
                   "a\r\n\r\nb\rc\r\nd") == Lines{"a", "b\rc", "d"});
    CHECK(paths_in(std::string("a\r\0b", 4)) == Lines{"a\r", "b"}); // with zero bytes, names are exact
    CHECK(test::input_error([] {
              paths_in(std::string("\xff\xfe"
                                   "a\0",
                                   4));
          }) == "the list of pictures is UTF-16; write it as UTF-8");
}

TEST_CASE("a picture that cannot be read is grey, and the others are as prepare_picture() makes them") {
    const test::TemporaryFolder folder;
    const std::string jpeg = test::read_text(fixtures() / "rgb.jpg");
    test::write_text(folder / "cut.jpg", jpeg.substr(0, jpeg.size() / 2));
    test::write_text(folder / "text.png", "no picture");
    test::write_text(folder / "empty.png", "");
    const std::string at = folder.path().string() + "/";
    std::vector<NamedPicture> pictures{{.name = (fixtures() / "rgb.png").string()},
                                       {.name = at + "cut.jpg"},
                                       {.name = "standard input", .bytes = jpeg, .is_file = false},
                                       {.name = at + "text.png"},
                                       {.name = at + "empty.png"},
                                       {.name = at + "absent.png"},
                                       {.name = at},
                                       {.name = "standard input", .bytes = "", .is_file = false},
                                       {.name = "/dev/null"},
                                       {.name = (fixtures() / "rgb.jpg").string()}};
    const PictureList list(std::move(pictures), {12, 10, 3});
    REQUIRE(list.size() == 10);
    const std::size_t bytes = list.image_size().elements();
    std::vector<std::uint8_t> images(list.size() * bytes);
    list.read(0, list.size(), images);

    const auto image = [&](std::size_t i) {
        return std::vector<std::uint8_t>(images.begin() + std::ptrdiff_t(i * bytes),
                                         images.begin() + std::ptrdiff_t((i + 1) * bytes));
    };
    const auto prepared = [&](const char* name) {
        const std::string text = test::read_text(fixtures() / name);
        std::vector<std::uint8_t> result(bytes);
        prepare_picture({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, list.image_size(),
                        result);
        return result;
    };
    CHECK(image(0) == prepared("rgb.png"));
    CHECK(image(2) == prepared("rgb.jpg"));
    CHECK(image(9) == prepared("rgb.jpg"));
    const std::vector<std::string> problems{"",
                                            at + "cut.jpg is cut short",
                                            "",
                                            at + "text.png is neither JPEG, PNG nor WebP",
                                            at + "empty.png is empty",
                                            "cannot read " + at +
                                                "absent.png: No such file or directory; "
                                                "check the path",
                                            "cannot read " + at +
                                                ": Is a directory; it is a folder, so name "
                                                "a file",
                                            "standard input is empty",
                                            "cannot read /dev/null: it is not a regular file; name one",
                                            ""};
    for (std::uint32_t i = 0; i < problems.size(); ++i) {
        CAPTURE(i);
        CHECK(list.problem(i) == problems[i]);
        if (!problems[i].empty()) CHECK(image(i) == std::vector<std::uint8_t>(bytes, 128));
    }
}

} // namespace towers
