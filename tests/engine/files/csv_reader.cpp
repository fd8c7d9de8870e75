#include "engine/files/csv_reader.h"

#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace towers {
namespace {

using namespace std::string_view_literals;
using Row = std::vector<std::string>;
using Table = std::vector<Row>;

Table read(std::string_view text) {
    CsvReader reader(text, "T");
    Table rows;
    for (std::vector<std::string_view> fields; reader.next(fields);)
        rows.emplace_back(fields.begin(), fields.end());
    return rows;
}

std::string error(std::string_view text) {
    return test::input_error([&] { read(text); });
}

} // namespace

TEST_CASE("rows and fields, however lines end") {
    const Table expected{{"a", "b"}, {"1", ""}, {"", "2"}};
    for (const char* const text : {"a,b\n1,\n,2\n", "a,b\r\n1,\r\n,2\r\n", "a,b\r1,\r,2\r", "a,b\n1,\n,2",
                                   "\xef\xbb\xbf\n\na,b\n\n1,\n  \n,\n,2\n\n", " a , b \n 1 ,\n, 2 "})
        CHECK(read(text) == expected);
    CHECK(read("").empty());
    CHECK(read("\n\r\n\xef\xbb\xbf").size() == 1); // a mark elsewhere is none
}

TEST_CASE("quoted fields have separators, ends of lines, quotes and spaces") {
    CHECK(read("\"a,b\",\"c\nd\r\ne\",\" f \"\n\"\",x\n") == Table{{"a,b", "c\nd\r\ne", " f "}, {"", "x"}});
    CHECK(read(R"("say ""hi""","""","""a""b""",c)") == Table{{R"(say "hi")", "\"", R"("a"b")", "c"}});
    CHECK(read("a, \"b\" , c") == Table{{"a", "b", "c"}});
    CHECK(read("5\" disk,it's") == Table{{"5\" disk", "it's"}}); // no quoted field
    // Many fields with quotes in a row: each keeps its own text.
    std::string text, many = "\"x\"\"";
    for (int i = 0; i < 100; ++i) text += (i > 0 ? "," : "") + many + std::to_string(i) + "\"";
    const Table rows = read(text);
    REQUIRE(rows.size() == 1);
    for (int i = 0; i < 100; ++i) CHECK(rows[0][std::size_t(i)] == "x\"" + std::to_string(i));
}

TEST_CASE("the separator is what the first row has most of, a tab before others, or what Excel's line says") {
    CHECK(read("a;b;c,d\n1;2;3") == Table{{"a", "b", "c,d"}, {"1", "2", "3"}});
    CHECK(read("a\tb,c,d\n1\t2;3") == Table{{"a", "b,c,d"}, {"1", "2;3"}});
    CHECK(read("\"x;y;z\",b\n1;2,3") == Table{{"x;y;z", "b"}, {"1;2", "3"}});
    CHECK(read("a\nb;c") == Table{{"a"}, {"b;c"}});
    CHECK(read("sep=;\r\na;b,c,d\n") == Table{{"a", "b,c,d"}});
    CHECK(read("sep=,x\n") == Table{{"sep=", "x"}});
}

TEST_CASE("row numbers count as spreadsheets do, and what is no table is refused with them") {
    const std::string_view text = "a,b\n\n\"1\n1\",2\n,\n3,4\n";
    CsvReader reader(text, "T");
    std::vector<std::string_view> fields;
    std::vector<std::size_t> rows;
    while (reader.next(fields)) rows.push_back(reader.row());
    CHECK(rows == std::vector<std::size_t>{1, 3, 5});

    const char* const zero = " has a zero byte; write the table as text in UTF-8";
    CHECK(error("a,b\n1,2\0"sv) == std::string("T row 2") + zero);
    CHECK(error("a,b\n\n\"1\0\",2"sv) == std::string("T row 3") + zero);
    CHECK(error("a,b\n1,\"2\n3,4\n") ==
          "T row 2 has a quote (\") that nothing closes before the end of the table");
    CHECK(error("a,\"b\"\"") == "T row 1 has a quote (\") that nothing closes before the end of the table");
    CHECK(error("a,b\n1,2\n\"3\"x,4") ==
          "T row 3 has text right after a quoted field; double the quotes (\"\") that belong to a field");
    CHECK(error("\xff\xfe"
                "a") == "T is UTF-16; write it as UTF-8");
    CHECK(error("\xfe\xff"
                "a") == "T is UTF-16; write it as UTF-8");
}

} // namespace towers
