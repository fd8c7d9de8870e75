// Which folders of pictures are splits, and which are classes.
#include "tests/engine/data/picture_folders.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

using test::Folder, test::labels_of;

/// While it lives, the process is that of a user who owns a folder, so that permissions count for root too.
class NotRoot {
public:
    explicit NotRoot(const fs::path& folder) {
        if (!was_root_) return;
        constexpr ::uid_t nobody = 65534;
        std::vector<fs::path> all{folder};
        for (const auto& entry : fs::recursive_directory_iterator(folder)) all.push_back(entry.path());
        for (const fs::path& each : all)
            if (::lchown(each.c_str(), nobody, ::gid_t(-1)) != 0) return;
        is_root_ = ::seteuid(nobody) != 0;
    }
    ~NotRoot() {
        if (was_root_ && ::seteuid(0) != 0) std::abort();
    }
    NotRoot(const NotRoot&) = delete;
    NotRoot& operator=(const NotRoot&) = delete;

    bool is_root() const { return is_root_; } ///< where the system does not let it be another

private:
    const bool was_root_ = ::geteuid() == 0;
    bool is_root_ = was_root_;
};

} // namespace

TEST_CASE("folders called as splits, in any way") {
    for (const auto& [train, test] :
         std::vector<std::pair<std::string, std::string>>{{"train", "test"},
                                                          {"Train", "Test"},
                                                          {"training", "testing"},
                                                          {"TRAINING_SET", "TEST_SET"},
                                                          {"train-data", "valid-data"},
                                                          {"trainset", "testset"},
                                                          {"train_images", "Evaluation"},
                                                          {"training", "dev"},
                                                          {"train", "eval"},
                                                          {"Train Data", "validation_set"}}) {
        const std::string& called = train; // clang before 16 captures no binding
        CAPTURE(called);
        const Folder folder;
        for (const std::string& name :
             {train + "/a/1.png", train + "/b/1.png", test + "/b/1.png", test + "/b/2.png"})
            folder.put(name);
        CHECK(folder.open()->info().classes == std::vector<std::string>{"a", "b"});
        CHECK(labels_of(*folder.open(Split::test)) == std::vector<std::uint32_t>{1, 1});
    }
    const Folder folder;
    for (const char* name : {"train/a/1.png", "train/b/1.png", "test/a/1.png", "dev/a/1.png", "dev/b/1.png"})
        folder.put(name);
    CHECK(folder.open(Split::test)->size() == 2); // dev is before test
    folder.put("training_set/a/1.png");
    CHECK(folder.error(folder.request()) ==
          " has two folders of training pictures, train and training_set; leave "
          "one of them");
}

TEST_CASE("folders that may be splits or classes are refused") {
    const std::string remedy_begin =
        "; move the pictures to train/CLASS and test/CLASS, or, if they are classes, give '";
    const auto check_refused = [&](const std::vector<const char*>& names, const std::string& why,
                                   const std::vector<std::string>& classes) {
        const Folder folder;
        for (const char* name : names) folder.put(std::string(name) + "/1.png");
        const std::string path = folder.path().string();
        CHECK(folder.error(folder.request()) == why + remedy_begin + path + "?splits=none'");
        DataRequest held_out = folder.request();
        held_out.held_out = {0, 0.5};
        CHECK(folder.error(held_out) == why + remedy_begin + path + "?splits=none'");
        DataRequest request = folder.request();
        request.source += "?splits=none";
        CHECK(open_data(request)->info().classes == classes);
        request.source += "&size=9";
        CHECK(open_data(request)->image_size() == ImageSize{9, 9, 3});
    };
    check_refused({"cats", "dogs", "test/cats", "test/dogs"},
                  ": test is called as a folder of test pictures, and cats beside it as a class",
                  {"cats", "dogs", "test"});
    check_refused({"cats", "dogs", "Val_Set"},
                  ": Val_Set is called as a folder of test pictures, and cats beside it as a class",
                  {"Val_Set", "cats", "dogs"});
    check_refused({"cats", "dogs", "train/cats", "train/dogs"},
                  ": train is called as a folder of training pictures, and cats beside it as a class",
                  {"cats", "dogs", "train"});
    check_refused({"birds", "dogs", "Training Set/cats", "Training Set/dogs", "val/cats", "val/dogs"},
                  ": Training Set is called as a folder of training pictures, and dogs beside it as a class",
                  {"Training Set", "birds", "dogs", "val"});
    check_refused({"lessons/cats", "lessons/dogs", "exam/cats", "exam/dogs"},
                  ": exam and lessons hold folders of the same names (cats, dogs), so they may be no classes",
                  {"exam", "lessons"});
    check_refused({"cats/train", "cats/test", "dogs/train"},
                  ": cats and dogs hold folders of the same names (train), so they may be no classes",
                  {"cats", "dogs"});
    check_refused({"a/1", "a/2", "a/3", "a/4", "b/1", "b/2", "b/3", "b/4", "b/5"},
                  ": a and b hold folders of the same names (1, 2, 3 ...), so they may be no classes",
                  {"a", "b"});
    const Folder folder;
    for (const char* name : {"a/images", "b/images", "c/other", "c/images"})
        folder.put(std::string(name) + "/1.png");
    fs::create_directories(folder / "a/boxes");
    fs::create_directories(folder / "b/boxes");
    fs::create_directories(folder / "test"); // without pictures
    CHECK(folder.open()->size() == 4);
    DataRequest request = folder.request();
    request.source += "?splits=all";
    CHECK(folder.error(request) ==
          "?splits=all: give '" + folder.path().string() + "?splits=none', so that all folders are classes");
}

TEST_CASE("folders that systems make are no classes and hold no pictures, and closed ones are left out") {
    const Folder folder;
    for (const char* name : {"a/1.png", "b/1.png", "b/@eaDir/1.png/thumbnail.jpg", "__MACOSX/a/1.png",
                             "__MACOSX/b/._1.png", "@eaDir/a/1.jpg", "System Volume Information/1.png"})
        folder.put(name);
    fs::create_directory(folder / "lost+found");
    test::write_text(folder / ".DS_Store", "");
    test::write_text(folder / "a/Thumbs.db", "");
    CHECK(folder.open()->info().classes == std::vector<std::string>{"a", "b"});
    CHECK(folder.open()->size() == 2);
}

TEST_CASE("folders of pictures that may not be read are left out") {
    const Folder folder;
    for (const char* name : {"a/1.png", "b/1.png", "b/closed/1.png", "c/1.png", "lost+found/1.png"})
        folder.put(name);
    const std::vector<std::string> closed{"a", "b/closed", "lost+found"};
    for (const std::string& name : closed) fs::permissions(folder / name, fs::perms::none);
    {
        const NotRoot user(folder.path());
        std::error_code error;
        if (user.is_root() || !fs::is_regular_file(folder / "c/1.png", error)) {
            std::printf("SKIPPED closed folders: root cannot be another user here\n");
            return;
        }
        CHECK(folder.open()->info().classes == std::vector<std::string>{"a", "b", "c"});
        CHECK(labels_of(*folder.open()) == std::vector<std::uint32_t>{1, 2});
    }
    for (const std::string& name : closed) fs::permissions(folder / name, fs::perms::owner_all);
}

TEST_CASE(
    "class folders beside a folder of training pictures are fine if none is called as one of its classes") {
    const Folder folder;
    for (const char* name : {"train/a/1.png", "train/b/1.png", "extra/1.png", "unlabeled/a/1.png"})
        folder.put(name);
    fs::create_directory(folder / "a"); // without pictures
    CHECK(folder.open()->info().classes == std::vector<std::string>{"a", "b"});
    CHECK(folder.open()->size() == 2);
}

TEST_CASE("train may be a class, beside others") {
    const Folder folder;
    for (const char* name : {"bus/1.png", "train/1.png", "car/1.png"}) folder.put(name);
    CHECK(folder.open()->info().classes == std::vector<std::string>{"bus", "car", "train"});
}

} // namespace towers
