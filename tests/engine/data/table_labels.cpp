// Tables of pictures that may have several labels, or none.
#include "engine/data/converted.h"
#include "engine/data/formats.h"
#include "engine/data/packed.h"
#include "engine/data/statistics.h"
#include "tests/engine/data/table_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace towers {
namespace {

using test::TableFolder, test::places_of;
using Names = std::vector<std::string>;
using Sets = std::vector<std::vector<std::uint32_t>>;

Sets sets_of(const DataSource& data) {
    REQUIRE(data.label_sets() != nullptr);
    Sets sets;
    for (std::size_t i = 0; i < data.size(); ++i) {
        const auto labels = data.label_sets()->of(i);
        sets.emplace_back(labels.begin(), labels.end());
    }
    return sets;
}

} // namespace

TEST_CASE("several labels in a field, several columns and several rows say the same") {
    const TableFolder folder;
    const Sets expected{{0, 2}, {}, {1}, {0, 1, 2}};
    const Names classes{"cat", "dog", "owl"}, places{"3.png", "id.jpg", "1.png", "0.png"};
    const auto check = [&](const std::string& text, const std::string& options) {
        CAPTURE(text);
        const auto data = folder.open(text, options);
        CHECK(data->info().classes == classes);
        CHECK(places_of(*data) == places);
        CHECK(sets_of(*data) == expected);
        CHECK(test::labels_of(*data) == std::vector<std::uint32_t>{0, 0, 1, 0});
        CHECK(data->counts() == std::vector<std::size_t>{2, 2, 2});
        return data->checksum();
    };
    const auto sum = check("id,tags\n3,owl|cat\nid,\n1,dog\n0,cat | dog|owl\n", "?separator=|");
    CHECK(check("id,tags\n3,owl  cat \nid,\n1,dog\n0,cat dog owl\n", "?separator=space") == sum);
    CHECK(check("id,tags\n3,owl  cat \nid,\n1,dog\n0,cat dog owl\n", "?separator= ") == sum);
    CHECK(check("id,tags\n3,\"owl,cat\"\nid,\n1,dog\n0,\"cat,dog, owl\"\n", "?separator=,") == sum);
    CHECK(check("id,tags\n3,owl::cat\nid,\n1,dog\n0,cat::dog::owl\n", "?label=2&separator=::") == sum);
    CHECK(check("id,cat,dog,owl\n3,1,0,1\nid,0,0,0\n1,0,1,0\n0,1,1,1\n", "?label=*") == sum);
    CHECK(check("id,w,cat,dog,owl\n3,7,1.0,0,true\nid,8,0,FALSE,0\n1,9,0.0,1,False\n0,7,1,1,True\n",
                "?label=CAT, dog,5") == sum);
    CHECK(check("id,tag\n3,owl\n3,cat\nid,\n1,dog\n0,cat\n0,owl\n0,dog\n", "?separator=row") == sum);
    // Columns keep their order, and a class without examples stays one.
    const auto columns = folder.open(",id,owl,cat,none\n0,3,1,0,0\n1,id,1,1,0\n", "?label=*");
    CHECK(columns->info().classes == Names{"owl", "cat", "none"});
    CHECK(sets_of(*columns) == Sets{{0}, {0, 1}});
    CHECK(columns->checksum() !=
          folder.open(",id,owl,cat,none\n0,3,1,0,0\n1,id,1,1,1\n", "?label=*")->checksum());
    // Without a header, columns are called by their numbers; a column may be called as a list.
    CHECK(folder.open("3.png,1,0\n1.png,1,1\n", "?label=2,3")->info().classes ==
          Names{"column 2", "column 3"});
    CHECK(folder.open("id,\"a,b\"\n3,x\n1,y\n", "?label=a,b")->label_sets() == nullptr);
    CHECK(sets_of(*folder.open("id,tags\n3,only\n1,\n", "?separator=|")) == Sets{{0}, {}});
}

TEST_CASE("test rows have the classes of the training rows, and those of another table by their names") {
    const TableFolder folder;
    const std::string text = "id,tags,split\n0,b a,train\n1,c,train\n2,c a,val\n3,,val\n";
    const auto test = folder.open(text, "?separator=space", Split::test);
    CHECK(test->info().classes == Names{"a", "b", "c"});
    CHECK(sets_of(*test) == Sets{{0, 2}, {}});
    CHECK(sets_of(*folder.open(text, "?separator=space")) == Sets{{0, 1}, {2}});
    const auto unknown =
        folder.table("id,tags,split\n0,b a,train\n1,c d,val\n", "?separator=space", Split::test);
    CHECK(
        folder.problem(unknown) ==
        "T row 3: its class 'c' is none of those of the training rows; call it as one of them, or remove the "
        "row");
    DataRequest other = folder.table("id,c,x,a\n0,1,0,1\n1,0,0,0\n", "?label=*", Split::test);
    other.whole = true;
    other.trained = {"a", "b", "c"};
    const auto renamed = open_data(other);
    CHECK(renamed->info().classes == Names{"a", "b", "c"});
    CHECK(sets_of(*renamed) == Sets{{0, 2}, {}});
    CHECK(test::labels_of(*renamed) == std::vector<std::uint32_t>{0, 0});
    other = folder.table("id,c,x,a\n0,1,0,1\n1,0,1,0\n", "?label=*", Split::test);
    other.whole = true;
    other.trained = {"a", "b", "c"};
    CHECK(folder.problem(other) == "T: its class x is none of the 3 classes of the training data; call it as "
                                   "one of them, or leave it out");
    // A picture keeps its side whatever its labels are.
    DataRequest held = folder.table("id,tags\n0,a\n1,b\n2,a b\n3,\n4,b\n5,a\n", "?separator=space");
    held.held_out = {0, 0.15};
    const Names first = places_of(*open_data(held));
    CHECK(first.size() < 6);
    held = folder.table("id,tags\n0,b\n1,a\n2,\n3,b a\n4,\n5,a\n", "?separator=space");
    held.held_out = {0, 0.15};
    CHECK(places_of(*open_data(held)) == first);
}

TEST_CASE("labels that are no sets, and columns that say something else, are refused in one line") {
    const TableFolder folder;
    struct Case {
        const char *text, *options, *problem;
    };
    const Case cases[] = {
        {"id,tags\n0,a|b\n1,a||b\n", "?separator=|",
         "T row 3: 'a||b' has an empty label beside a '|'; remove that"},
        {"id,tags\n0,a|b\n1,|\n", "?separator=|",
         "T row 3: '|' has an empty label beside a '|'; remove that"},
        {"id,tags\n0,a|b|\n", "?separator=|", "T row 2: 'a|b|' has an empty label beside a '|'; remove that"},
        {"id,tags\n0,a|b\n1,b|a|b\n", "?separator=|",
         "T row 3: 'b|a|b' has the label 'b' twice; write each once"},
        {"id,tag\n0,a\n1,b\n0,a\n", "?separator=row", "T row 4: 0 has the label 'a' twice; remove the row"},
        {"id,tags\n0,a b\n1,b\n0,b\n", "?separator=space",
         "T row 4: 0 is 'b', but 'a', 'b' in row 2; remove one of the rows"},
        {"id,tags\n0,a\n1,b\n0,\n", "?separator=|",
         "T row 4: 0 is nothing, but 'a' in row 2; remove one of the rows"},
        {"id,tags\n0,\n1,\n", "?separator=|",
         "T has no labels in tags; choose another column with 'T?separator=|&label=COLUMN'"},
        {"id,tags\n0,a\n1,b\n", "?separator=",
         "T ?separator=: give what is between two labels, such as 'T?separator=|', or space or row"},
        {"id,a,b\n0,1,0\n1,2,0\n", "?label=*",
         "T row 3: a is '2'; write 0 or 1, or name only the columns that say so of a class with "
         "'T?label=COLUMN,COLUMN'"},
        {"id,a,b\n0,1,\n", "?label=a,b",
         "T row 2: b is ''; write 0 or 1, or name only the columns that say so of a class with "
         "'T?label=COLUMN,COLUMN'"},
        {"id,a,b\n0,-1,1\n", "?label=*",
         "T row 2: a is '-1'; write 0 or 1, or name only the columns that say so of a class with "
         "'T?label=COLUMN,COLUMN'"},
        {"id,a,b\n0,1,0\n", "?label=a,c", "T has no column called c; its columns are id, a, b"},
        {"id,a,b\n0,1,0\n", "?label=a,", "T has no column called ; its columns are id, a, b"},
        {"id,a,b\n0,1,0\n", "?label=a,b,A",
         "T has a for the labels twice, or for the files or splits too; name each column once in "
         "'T?label=a,b,A'"},
        {"id,a,b\n0,1,0\n", "?label=a,id",
         "T has id for the labels twice, or for the files or splits too; name each column once in "
         "'T?label=a,id'"},
        {"id,a,a\n0,1,0\n", "?label=*", "T has two columns called a; rename one of them"},
        {"id\n0\n", "?label=*", "T has no column of labels beside id; give a table of file and labels"},
        {"id,a,b\n0,1,0\n", "?label=*&separator=|",
         "T ?separator=|: several columns say the labels already; name one, or leave it out"},
        {"0.png,1,0\n", "?label=2,4",
         "T has no column 4; give a number from 1 to 3, since its first row names no columns"},
    };
    for (const auto& [text, options, problem] : cases) {
        CAPTURE(text);
        CHECK(folder.problem(text, options) == problem);
    }
}

TEST_CASE("label sets stay with their images in converted, packed and partial data") {
    const TableFolder folder;
    folder.put("broken.png", "rgb.png");
    const std::string table = "id,tags\n0,b a\nbroken,c\n1,\n2,c a b\n", options = "?separator=space&size=6";
    const auto whole = folder.open(table, options);
    const Sets sets{{0, 1}, {2}, {}, {0, 1, 2}};
    CHECK(sets_of(*whole) == sets);
    const DataStatistics statistics = statistics_of(*whole);
    CHECK(statistics.counts == std::vector<std::size_t>{2, 2, 2});
    REQUIRE(statistics.labels.has_value());
    CHECK(statistics.labels->least == 0);
    CHECK(statistics.labels->most == 3);
    CHECK(statistics.labels->all == 6);
    CHECK(statistics.labels->without == 1);
    CHECK_FALSE(statistics_of(*folder.open("id,l\n0,a\n1,b\n")).labels.has_value());

    const std::string path = (folder / "packed").string();
    const auto test = folder.open("id,tags\n3,c\n4,b\n", "?separator=|&size=6");
    write_packed(*whole, whole.get(), path);
    CHECK(test::read_text(path).starts_with("towers packed 2\n"));
    for (const Split split : {Split::train, Split::test}) {
        const auto packed = open_data({path, split});
        CHECK(sets_of(*packed) == sets);
        CHECK(packed->info().classes == Names{"a", "b", "c"});
        CHECK(packed->find_damage() == "");
        CHECK(TableFolder::read_all(*packed) == TableFolder::read_all(*whole));
    }
    const std::string sound = test::read_text(path);
    const auto sum = open_data({path, Split::train})->checksum();
    const auto relabelled = folder.open("id,tags\n0,b\nbroken,c\n1,a\n2,c a b\n", options);
    write_packed(*relabelled, nullptr, path);
    CHECK(open_data({path, Split::train})->checksum() != sum); // the same images and number of labels
    // The same labels in other sets, of images that are the same
    const auto apart = folder.open("id,tags\n0,a\n1,b\n", options),
               together = folder.open("id,tags\n0,a b\n1,\n", options);
    CHECK(apart->checksum() != together->checksum());
    std::vector<std::uint64_t> sums;
    for (const auto* const each : {&apart, &together}) {
        write_packed(**each, nullptr, path);
        sums.push_back(open_data({path, Split::train})->checksum());
    }
    CHECK(sums[0] != sums[1]);
    // Each byte of the labels is looked at: 4 numbers of labels at byte 8192, then 6 labels.
    for (std::size_t byte = 8192; byte < 8192 + 40; byte += 4) {
        std::string damaged = sound;
        damaged[byte] = char(damaged[byte] ^ 1);
        test::write_text(path, damaged);
        CAPTURE(byte);
        const std::string problem = test::input_error([&] {
            const std::string damage = open_data({path, Split::train})->find_damage();
            if (!damage.empty()) throw InputError("is damaged: " + damage);
        });
        CHECK(problem.find("is damaged: ") != problem.npos);
    }

    CHECK(sets_of(ConvertedSource(folder.open(table, options), {3, 5, 1})) == sets);
    const auto damaged = folder.open(table, options);
    std::string picture = test::read_text(folder / "broken.png");
    test::write_text(folder / "broken.png", picture.substr(0, picture.size() / 2));
    const DataStatistics of_rest = statistics_of(*damaged);
    CHECK(of_rest.counts == std::vector<std::size_t>{2, 2, 1});
    CHECK(of_rest.labels->all == 5);
    CHECK(sets_of(*without_broken(folder.open(table, options))) == Sets{{0, 1}, {}, {0, 1, 2}});
}

} // namespace towers
