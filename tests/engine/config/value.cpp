#include "engine/config/value.h"
#include "backends/error.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace towers {
namespace {

std::string repeated(std::size_t count, const std::string& text) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += text;
    return all;
}

/// What the program says of this text, empty if it reads it.
std::string complaint(const std::string& text) {
    try {
        parse_toml(text, "file");
        return "";
    } catch (const UsageError& error) {
        return error.what();
    }
}

} // namespace

TEST_CASE("keys and brackets that nest too deep are refused, however deep") {
    const std::string refusal = "file:2: keys and brackets nest more than 100 deep";
    for (const std::size_t count : {101, 20'000, 500'000}) {
        CAPTURE(count);
        const std::string parts = repeated(count, "a."), quoted = repeated(count, "'.' . \"\\\"\" . ");
        for (const std::string& text :
             {parts + "a = 1", "[" + parts + "a]", "[[" + parts + "a]]", quoted + "a = 1",
              "a = { " + parts + "a = 1 }", "a = [{ " + parts + "a = 1 }]", "a = " + repeated(count, "["),
              "a = " + repeated(count, "{ a = "), repeated(count, "a.a = { "),
              "s = \"\"\"\"quote\"\"\"\"\" # text\n[" + parts + "a]"})
            CHECK(complaint("# \"a text\n" + text + "\n") ==
                  (text[0] == 's' ? "file:3" + refusal.substr(6) : refusal));
        CHECK(complaint("\n" + parts + "a = 1\na = [") == refusal); // a mistake behind it
    }
}

TEST_CASE("keys and brackets may nest, and dots elsewhere are no keys") {
    CHECK(complaint(repeated(90, "a.") + "a = 1") == "");
    CHECK(complaint("a = " + repeated(90, "[") + repeated(90, "]")) == "");
    std::string lines;
    for (int i = 0; i < 200; ++i) lines += fmt::format("a{}.b = 0.5\n", i);
    const std::string dots(200, '.'), many = repeated(200, "0.5, ");
    for (const std::string& text :
         {"# " + dots, "a = \"" + dots + "\"", "a = '" + dots + "'", "a = \"\"\"\n" + dots + "\n\"\"\"",
          "a = '''" + dots + "'''", "a = \"\\\"" + dots + "\"", "a = [" + many + "]",
          "a = [\n" + repeated(200, "{ b.c = 0.5 },\n") + "]", lines, repeated(200, "[[a.b]]\nc.d = '.'\n")})
        CHECK(complaint(text) == "");
}

} // namespace towers
