// Tables of pictures.
#include "engine/data/formats.h"
#include "engine/data/packed.h"
#include "tests/engine/data/table_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

using test::Folder, test::TableFolder, test::labels_of, test::places_of;
using Names = std::vector<std::string>;
using Labels = std::vector<std::uint32_t>;

} // namespace

TEST_CASE("a table of file and label: its rows in their order, its classes in that of their names") {
    const TableFolder folder;
    const auto data =
        folder.open("Image_ID,Label\r\n3.png,dog\r\nid,\"cat, big\"\r\n1.png,dog\r\n3.png,dog\r\n");
    CHECK(data->info().name == "pictures");
    CHECK(data->info().classes == Names{"cat, big", "dog"});
    CHECK(labels_of(*data) == Labels{1, 0, 1, 1});
    CHECK(places_of(*data) == Names{"3.png", "id.jpg", "1.png", "3.png"});
    CHECK(data->image_size() == ImageSize{8, 8, 3});
    const std::vector<std::uint8_t> images = Folder::read_all(*data);
    const std::size_t bytes = 8 * 8 * 3;
    CHECK(std::ranges::equal(std::span(images).first(bytes), std::span(images).last(bytes)));
    CHECK_FALSE(std::ranges::equal(std::span(images).first(bytes), std::span(images).subspan(bytes, bytes)));
    // Numbers have the order of their values.
    CHECK(folder.open("id,y\n0.png,10\n1.png,9\n2.png,2\n")->info().classes == Names{"2", "9", "10"});
    CHECK(folder.open("id,y\n0.png,10\n1.png,9\n2.png,2a\n")->info().classes == Names{"10", "2a", "9"});
}

TEST_CASE("the columns are known by their names, by what is in them, or named") {
    const TableFolder folder;
    const auto files = [&](std::string_view text, const std::string& options = "") {
        const auto data = folder.open(text, options);
        CHECK(labels_of(*data) == Labels{1, 0});
        return places_of(*data);
    };
    const Names expected{"0.png", "1.png"};
    for (const char* const text :
         {"filename,label\n0.png,b\n1.png,a", "label;file name\nb;0.png\na;1.png",
          "class\tx\tPath\nb\t1\t0.png\na\t2\t1.png", "id,breed\n0,b\n1,a",
          ",image,category\n0,0.png,b\n1,1.png,a", "Unnamed: 0,image,kind\n0,0.png,b\n1,1.png,a",
          "width,what,shot\n7,b,0.png\n9,a,1.png\n", "0.png,b\n1.png,a", "b,0.png\na,1.png", "0,b\n1,a",
          "id,path,target\n7,0.png,b\n7,1.png,a"}) {
        CAPTURE(text);
        if (std::string_view(text).starts_with("width"))
            CHECK(files(text, "?label=WHAT") == expected);
        else
            CHECK(files(text) == expected);
    }
    CHECK(files("u,v,w\nx,0.png,b\ny,1.png,a", "?file=v&label=3") == expected);
    CHECK(files("x,0.png,b\ny,1.png,a", "?file=2&label=3") == expected);
    CHECK(files("2.png,c\n0.png,b\n1.png,a", "?header=yes&file=2.png&label=c") == expected);
    CHECK(files("file,label,class\n0.png,x,b\n1.png,x,a", "?label=class") == expected);
    CHECK(files("3,4\n0.png,b\n1.png,a", "?header=yes&file=1&label=4") == expected); // names before numbers
    fs::create_directories(folder / "deep/er");
    for (const char* const name : {"0.png", "1.png"}) fs::rename(folder / name, folder / "deep/er" / name);
    CHECK(files("file,label\n0,b\n1.png,a", "?root=deep/er") == expected);
    CHECK(files("file,label\n0,b\n1.png,a", "?root=" + (folder / "deep/er").string()) == expected);
    CHECK(files("file,label\ner/0,b\ner/1.png,a", "?root=deep") == expected);
    CHECK(files("file,label\n" + (folder / "deep/er/0.png").string() + ",b\ndeep/er/1.png,a") == expected);
}

TEST_CASE("a file without an ending is the file of that name, else a JPEG, else a PNG") {
    const TableFolder folder;
    folder.put("0.jpeg", "rgb.jpg");
    folder.put("1", "rgb.jpg");
    folder.put("2.jpg", "rgb.jpg");
    folder.put("2.jpeg", "rgb.jpg");
    folder.put("v1.2.png");
    CHECK(places_of(*folder.open("id,label\n0,a\n1,b\n2,a\n3,b\nv1.2,b")) ==
          Names{"0.jpeg", "1", "2.jpg", "3.png", "v1.2.png"});
}

TEST_CASE("a column says what is for testing") {
    const TableFolder folder;
    const char* const text =
        "file,label,split\n0.png,b,train\n1.png,a,Val\n2.png,c,train\n3.png,a,train\n4.png,,test\n";
    CHECK(labels_of(*folder.open(text)) == Labels{1, 2, 0});
    const auto test = folder.open(text, "", Split::test);
    CHECK(places_of(*test) == Names{"1.png"}); // val before test
    CHECK(test->info().classes == Names{"a", "b", "c"});
    CHECK(labels_of(*test) == Labels{0});
    CHECK(folder.problem(folder.table(text, "?test=test", Split::test)) ==
          "T row 6 has no label in label; add it, or remove the row");
    CHECK(places_of(*folder.open(text, "?test=test")) == Names{"0.png", "2.png", "3.png"});
    CHECK(folder.problem(text, "?split=none") == "T row 6 has no label in label; add it, or remove the row");

    const char* const folds = "file,label,fold\n0.png,b,0\n1.png,a,1\n2.png,a,2\n3.png,b,1\n";
    CHECK(places_of(*folder.open(folds, "?test=1")) == Names{"0.png", "2.png"});
    CHECK(places_of(*folder.open(folds, "?test=1", Split::test)) == Names{"1.png", "3.png"});
    CHECK(folder.open(folds)->size() == 4); // with a warning
    CHECK_FALSE(has_examples(folder.table(folds, "", Split::test)));
    CHECK(folder.problem(folds, "?split=fold") ==
          "T row 2: its split is '0'; write train, val or test, or say which word is for testing with "
          "'T?split=fold&test=WORD', or pass over the column with 'T?split=none'");
    CHECK(folder.problem("file,label,split\n0.png,b,train\n1.png,a,tset\n")
              .starts_with("T row 3: its split is 'tset'; write"));
    CHECK(folder.problem("file,label,split\n0.png,b,train\n1.png,a,\n")
              .starts_with("T row 3: its split is ''; write"));
    CHECK(folder.problem(folds, "?test=9") == "T has no row whose split is '9', as '?test=' says");
    CHECK(folder.problem("file,label\n0.png,a\n1.png,b\n", "?test=1") ==
          "T has no column that says what is for testing; name it with 'T?test=1&split=COLUMN'");
    CHECK(folder.problem(folder.table("file,label,split\n0.png,b,train\n1.png,a,train\n2.png,c,test\n", "",
                                      Split::test)) ==
          "T row 4: its class 'c' is none of those of the training rows; call it as one of them, or remove "
          "the row");
    CHECK(folder.problem("file,label,split\n0.png,b,test\n1.png,a,test\n") ==
          "T has no training pictures; add some");
    for (const char* options : {"", "?test=test"}) {
        DataRequest held_out = folder.table(text, options);
        held_out.held_out = {0, 0.5};
        CHECK(folder.problem(held_out) ==
              "T has a column that says what is for testing; leave out --hold-out or --fold, or pass over it "
              "with 'T?split=none'");
    }
    // A table without names of columns
    CHECK(folder.open("0.png,a,train\n1.png,b,train\n2.png,b,test\n")->size() == 2);
    CHECK(folder.open("0.png,a,train\n1.png,b,train\n2.png,b,test\n", "", Split::test)->size() == 1);
}

TEST_CASE(
    "rows are held out by class and name, which others do not change; a table for tests counts as a whole") {
    const TableFolder folder;
    std::string text = "file,label\n";
    for (int i = 0; i < 60; ++i) {
        folder.put(std::to_string(i) + ".jpg", "rgb.jpg");
        text += std::to_string(i) + (i % 2 ? ".jpg,a\n" : ".jpg,b\n");
    }
    DataRequest train = folder.table(text), test = folder.table(text, "", Split::test);
    CHECK_FALSE(has_examples(test));
    CHECK(folder.problem(test) == "T has no test examples, no row for testing; give some with --test-data of "
                                  "train, or --data of eval, or let train hold some out with --hold-out 10%");
    DataRequest whole = test;
    whole.whole = true;
    CHECK(open_data(whole)->size() == 60);
    train.held_out = test.held_out = {0, 0.25};
    const Names before = places_of(*open_data(test));
    CHECK(before.size() >= 6);
    CHECK(before.size() <= 24);
    CHECK(open_data(train)->size() + before.size() == 60);
    folder.table(text + "1.png,a\n2.png,b\n3.png,a\n4.png,b\n5.png,a\n");
    const Names after = places_of(*open_data(test)); // others come after them, and move none
    REQUIRE(after.size() >= before.size());
    CHECK(Names(after.begin(), after.begin() + std::ptrdiff_t(before.size())) == before);
    // Folders choose the same pictures of the same classes.
    const Folder classes;
    for (int i = 0; i < 60; ++i) classes.put((i % 2 ? "a/" : "b/") + std::to_string(i) + ".jpg", "rgb.jpg");
    DataRequest of_folders = classes.request(Split::test);
    of_folders.held_out = {0, 0.25};
    const Names there = places_of(*open_data(of_folders));
    CHECK(std::set(there.begin(), there.end()) == std::set(before.begin(), before.end()));
}

TEST_CASE("folds are parts that do not overlap, of tables and of folders") {
    const TableFolder folder;
    std::string text = "file,label\n";
    for (int i = 0; i < 40; ++i) text += std::to_string(i % 10) + (i % 10 % 2 ? ".png,a\n" : ".png,b\n");
    const Folder classes;
    for (int i = 0; i < 40; ++i) classes.put((i % 2 ? "a/" : "b/") + std::to_string(i) + ".png");
    for (DataRequest request : {folder.table(text), classes.request()}) {
        std::multiset<std::string> places;
        for (unsigned fold = 0; fold < 3; ++fold) {
            request.held_out = {fold / 3.0, (fold + 1) / 3.0};
            request.split = Split::test;
            const auto test = open_data(request);
            for (std::uint32_t i = 0; i < test->size(); ++i) places.insert(test->place_of(i));
            request.split = Split::train;
            CHECK(open_data(request)->size() + test->size() == 40);
        }
        request.held_out = {};
        const auto all = open_data(request);
        std::multiset<std::string> expected;
        for (std::uint32_t i = 0; i < all->size(); ++i) expected.insert(all->place_of(i));
        CHECK(places == expected);
    }
}

TEST_CASE("a table for testing has the labels of the classes that were trained") {
    const TableFolder folder;
    DataRequest request = folder.table("file,label\n0.png,cow\n1.png,ant\n", "", Split::test);
    request.whole = true;
    request.trained = {"ant", "bee", "cow"};
    CHECK(labels_of(*open_data(request)) == Labels{2, 0});
    request.trained = {"ant", "bee"};
    CHECK(folder.problem(request) == "T: its class cow is none of the 2 classes of the training data; call "
                                     "it as one of them, or leave it out");
    request = folder.table("file,label\n0.png,07\n", "", Split::test);
    request.whole = true;
    request.trained = {"0", "1", "2", "3", "4", "5", "6", "7"};
    CHECK(labels_of(*open_data(request)) == Labels{7});
}

TEST_CASE("files, their order, labels and the names of classes tell tables apart") {
    const TableFolder folder;
    const auto checksum = [&](std::string_view text, const std::string& options = "") {
        return folder.open(text, options)->checksum();
    };
    const std::uint64_t one = checksum("file,label\n0.png,a\n1.png,b\n");
    CHECK(one == checksum("x;class;path\n1;a;0.png\n2;b;1.png"));
    CHECK(one != checksum("file,label\n1.png,b\n0.png,a\n"));
    CHECK(one != checksum("file,label\n0.png,b\n1.png,a\n"));
    CHECK(one != checksum("file,label\n0.png,a\n1.png,c\n"));
    CHECK(one != checksum("file,label\n0.png,a\n2.png,b\n"));
    CHECK(one != checksum("file,label\n0.png,a\n1.png,b\n1.png,b\n"));
    fs::create_directory(folder / "moved");
    for (const char* const name : {"0.png", "1.png"}) fs::rename(folder / name, folder / "moved" / name);
    CHECK(one == checksum("file,label\n0.png,a\n1.png,b\n", "?root=moved"));
}

TEST_CASE("tables that are broken are refused in one line with the row") {
    const TableFolder folder;
    const std::pair<std::string, std::string> broken[] = {
        {"", "T is empty; give a table of file and label"},
        {"\n \n,,\n", "T is empty; give a table of file and label"},
        {"file,label\n", "T has a header and no rows; add some"},
        {"file,label\n0.png\n",
         "T row 2 has 1 field, but row 1 has 2; put what contains a separator in quotes"},
        {"file,label\n0.png,a\n\n1.png,a,b\n",
         "T row 4 has 3 fields, but row 1 has 2; put what contains a separator in quotes"},
        {"file,label\n0.png,a\n1.png,\"b\n2.png,a\n",
         "T row 3 has a quote (\") that nothing closes before the end of the table"},
        {"file,label\n\"0.png\"x,a\n",
         "T row 2 has text right after a quoted field; double the quotes (\"\") that belong to a field"},
        {std::string("file,label\n0.png,a\0\n", 20),
         "T row 2 has a zero byte; write the table as text in UTF-8"},
        {"\xff\xfe x", "T is UTF-16; write it as UTF-8"},
        {"file,label\n0.png,a\n,b\n", "T row 3 names no file"},
        {"file,label\n0.png,a\n1.png,\n", "T row 3 has no label in label; add it, or remove the row"},
        {"file,label\n0.png,\n1.png,\n2.png,a\n",
         "T row 2 has no label in label, nor have 1 others; add it, or remove the row"},
        {"file,label\n0.png,a\n1.png,b\n0.png,b\n",
         "T row 4: 0.png is 'b', but 'a' in row 2; remove one of the rows, or say with 'T?separator=row' "
         "that a picture may have several labels, each in a row"},
        {"file,label\n0.png,a\n1.png,a\n", "T has one class only, 'a' in label; give two or more, or choose "
                                           "another column with 'T?label=COLUMN'"},
        {"file,labels\n0.png,a\n1.png,b\n2.png,a b\n",
         "T row 4: 'a b' is several labels, each of which stands alone in other rows; say with "
         "'T?separator=space' that a picture may have several, or with 'T?label=labels' that it is the name "
         "of a class"},
        {"file,label\n0.png,a\n1.png,b\n2.png,a|b\n",
         "T row 4: 'a|b' is several labels, each of which stands alone in other rows; say with "
         "'T?separator=|' that a picture may have several, or with 'T?label=label' that it is the name of a "
         "class"},
        {"image_id,healthy,rust,scab\n0,1,0,0\n1,0,1,0\n",
         "T has 3 columns that may be labels (healthy, rust, scab); choose one with 'T?label=COLUMN', or, if "
         "each says 0 or 1 of a class, all of them with 'T?label=*'"},
        {"0.png,a,x\n1.png,b,y\n",
         "T has 2 columns that may be labels (column 2, column 3); choose one with 'T?label=COLUMN', or, if "
         "each says 0 or 1 of a class, all of them with 'T?label=*'"},
        {"image_id\n0\n1\n", "T has no column of labels beside image_id; give a table of file and label"},
        {"file,label,label\n0.png,a,b\n", "T has two columns called label; rename one of them"},
        {"shot,kind\nx,a\ny,b\n",
         "T has the columns shot, kind, and none is called file, filename, path, image, image_id or id; name "
         "it with 'T?file=COLUMN', or say with 'T?header=no' that the first row names no columns"},
        {"file,label\n0.png,caf\xe8\n1.png,caf\xe9\n",
         "T has two classes that read caf\ufffd; call one of them otherwise"},
        {"file,label\nx.png,a\n1.png,b\ny.png,b\n",
         "T names 2 of 3 files that are not in F: x.png (row 2), y.png (row 4); name their folder with "
         "'T?root=FOLDER', or leave them out with --skip-broken"},
    };
    for (const auto& [text, message] : broken) {
        CAPTURE(text);
        CHECK(folder.problem(text) == message);
    }
    const std::pair<const char*, const char*> options[] = {
        {"?label=lable", "T has no column called lable; its columns are file, label, n"},
        {"?label=4", "T has no column called 4; its columns are file, label, n"},
        {"?header=no&label=4",
         "T has no column 4; give a number from 1 to 3, since its first row names no columns"},
        {"?header=maybe", "T?header=maybe: give yes if the first row names the columns, else no"},
        {"?root=nowhere", "T?root=nowhere: there is no folder F/nowhere"},
        {"?root=0.png", "T?root=0.png: there is no folder F/0.png"},
        {"?size=0", "T?size=0: give the pixels of a side, or HEIGHTxWIDTH, up to 8192 each"},
        {"?lable=x", "T?lable=x: a table of pictures and classes (.csv or .tsv) take no 'lable', only "
                     "?root=, ?file=, ?label=, ?separator=, ?split=, ?test=, ?header= and ?size="},
    };
    for (const auto& [option, message] : options) {
        CAPTURE(option);
        CHECK(folder.problem("file,label,n\n0.png,a,1\n1.png,b,2\n", option) == message);
    }
    CHECK(folder.problem("file,x,X\n0.png,a,b\n1.png,b,a\n", "?label=x") ==
          "T has two columns called x; name one of them by its number, as in 'T?label=2'");
    CHECK(folder.open("file,labels\n0.png,a\n1.png,b\n2.png,a b\n", "?label=labels")->info().classes.size() ==
          3);
    if (::geteuid() != 0) { // who may read everything
        fs::create_directory(folder / "closed");
        fs::permissions(folder / "closed", fs::perms::none);
        CHECK(folder.problem("file,label\n0.png,a\n1.png,b\n", "?root=closed")
                  .starts_with("cannot read F/closed: "));
        fs::permissions(folder / "closed", fs::perms::all);
    }
}

TEST_CASE("missing files: ten are named, a folder beside that has them is, and they may be left out") {
    const TableFolder folder;
    std::string text = "image_id,label\n";
    for (int i = 0; i < 15; ++i) text += "p" + std::to_string(i) + "," + (i % 2 ? "a" : "b") + "\n";
    const std::string names = "p0 (row 2), p1 (row 3), p2 (row 4), p3 (row 5), p4 (row 6), p5 (row 7), p6 "
                              "(row 8), p7 (row 9), p8 (row 10), p9 (row 11) and 5 more";
    const std::string none = "T names 15 files, none of which is in F: ";
    CHECK(folder.problem(text) == none + names + "; name their folder with 'T?root=FOLDER'");
    folder.put("train/p0.png");
    folder.put("other/p1.png");
    CHECK(folder.problem(text) == none + names + "; they are in F/train: give 'T?root=train'");
    folder.put("train/p1.png");
    DataRequest skipping = folder.table(text, "?root=train");
    skipping.skip_broken = true;
    std::vector<std::string> left_out;
    skipping.left_out = [&](const std::string& problem) { left_out.push_back(problem); };
    CHECK(labels_of(*open_data(skipping)) == Labels{1, 0});
    CHECK(left_out.size() == 13);
    test::write_text(folder / "train/p1.png", "no picture");
    CHECK(labels_of(*open_data(skipping)) == Labels{1});
    CHECK(folder.problem("image_id,label\np0,a\np1,b\np1,b\n", "?root=train") ==
          "/train/p1.png is neither JPEG, PNG nor WebP; replace it, or leave broken pictures out with "
          "--skip-broken");
}

TEST_CASE("a table of any name, a folder that holds one, and a packed copy") {
    const TableFolder folder;
    const DataRequest request = folder.table("file,label\n0.png,a\nid,b\n");
    const auto data = open_data(request);
    fs::copy_file(folder / "T.csv", folder / "labels.txt");
    DataRequest other{.source = (folder / "labels.txt").string(), .split = Split::train, .image = {8, 8, 3}};
    CHECK(test::input_error([&] { open_data(other); }).find("is a file; give ") != std::string::npos);
    other.format = "table";
    CHECK(open_data(other)->checksum() == data->checksum());
    CHECK(folder.problem(folder.request()) ==
          " holds a table, t.csv; if it names pictures and their classes, give it instead of its folder");
    write_packed(*data, nullptr, folder / "packed");
    const auto packed = open_data({.source = (folder / "packed").string(), .split = Split::train});
    CHECK(packed->info().classes == data->info().classes);
    CHECK(labels_of(*packed) == labels_of(*data));
    CHECK(Folder::read_all(*packed) == Folder::read_all(*data));
}

} // namespace towers
