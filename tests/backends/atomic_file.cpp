#include "backends/files/atomic_file.h"
#include "backends/files/file.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

namespace towers {

TEST_CASE("writers of one file at once do not see each other, and the last one to commit stays") {
    const test::TemporaryFolder folder;
    const auto file = folder / "file";
    {
        AtomicFile first(file), second(file), third(file);
        first.write("the first");
        second.write("the second");
        third.write("the third");
        first.commit();
        CHECK(read_file(file) == "the first");
        second.commit();
        CHECK(read_file(file) == "the second");
        for (const std::string& name : test::names_in(folder.path()))
            CHECK((name == "file" || name_behind_temporary(name) == "file"));
    }
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"file"}); // the third has not committed
}

} // namespace towers
