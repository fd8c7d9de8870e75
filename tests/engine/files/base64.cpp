#include "engine/files/base64.h"

#include <doctest/doctest.h>

namespace towers {

TEST_CASE("base64 gives RFC 4648's test vectors") {
    CHECK(base64("").empty());
    CHECK(base64("f") == "Zg==");
    CHECK(base64("fo") == "Zm8=");
    CHECK(base64("foo") == "Zm9v");
    CHECK(base64("foob") == "Zm9vYg==");
    CHECK(base64("fooba") == "Zm9vYmE=");
    CHECK(base64("foobar") == "Zm9vYmFy");
    CHECK(base64("\xff\xfe\xfb") == "//77");
}

} // namespace towers
