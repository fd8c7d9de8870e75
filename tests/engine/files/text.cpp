#include "engine/files/text.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace towers {

TEST_CASE("lines of a text that any system has written") {
    using Lines = std::vector<std::string>;
    CHECK(lines_in("") == Lines{});
    CHECK(lines_in("a\nb") == Lines{"a", "b"});
    CHECK(lines_in("\xef\xbb\xbf"
                   "cat\r\n\r\n dog \r\n") == Lines{"cat", " dog "});
    CHECK(lines_in("a\rb\n\n\xef\xbb\xbf") == Lines{"a\rb", "\xef\xbb\xbf"});
}

} // namespace towers
