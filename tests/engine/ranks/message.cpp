#include "engine/ranks/message.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace towers {

TEST_CASE("a message has what was put into it, and nothing behind its end is read") {
    const std::vector<float> values{1, 2, 3};
    Writer writer;
    writer.put(std::uint32_t(7));
    writer.put(std::string_view("three"));
    writer.put(std::span(values));
    const Bytes bytes = writer.take();
    Reader reader(bytes);
    CHECK(reader.get<std::uint32_t>() == 7);
    CHECK(reader.text() == "three");
    const std::span<const float> read = reader.get<float>(3);
    CHECK(std::vector(read.begin(), read.end()) == values);
    CHECK_FALSE(reader.has_more());
    CHECK_THROWS_AS(reader.get<char>(), std::runtime_error);
    for (const std::uint64_t length : {std::uint64_t(25), std::numeric_limits<std::uint64_t>::max()}) {
        Writer wrong;
        wrong.put(length);
        const Bytes short_of_it = wrong.take();
        CHECK_THROWS_AS(Reader(short_of_it).text(), std::runtime_error);
    }
}

} // namespace towers
