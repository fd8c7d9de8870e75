// Files of the user's cache: whole, or as if they were not there.
#include "backends/cache.h"

#include "backends/error.h"
#include "tests/support/files.h"

#include <chrono>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace towers {
namespace {

namespace fs = std::filesystem;

const std::string content("compiled code\0\n\xff", 16);

/// What another run finds in the file after one has kept the content there.
void check_replaced(const fs::path& file) {
    CHECK_FALSE(read_cached(file));
    write_cached(file, content);
    CHECK(read_cached(file) == content);
}

} // namespace

TEST_CASE("what is written to the cache is read again, whatever it is") {
    const test::TemporaryFolder folder;
    const fs::path file = folder / "new/and newer/file";
    CHECK_FALSE(read_cached(file));
    for (const std::string& each : {content, std::string(), std::string(100'000, 'x'), content}) {
        write_cached(file, each);
        CHECK(read_cached(file) == each);
    }
    CHECK(test::names_in(file.parent_path()) == std::vector<std::string>{"file"});
}

TEST_CASE("what killed writers of a file left is removed after an hour") {
    const test::TemporaryFolder folder;
    const auto now = fs::file_time_type::clock::now();
    for (const char* const name : {"file.tmp-12", "file.tmp-13", "other.tmp-12", "file.txt"}) {
        test::write_text(folder / name, "x");
        if (!std::string(name).ends_with("13"))
            fs::last_write_time(folder / name, now - std::chrono::minutes(61));
    }
    write_cached(folder / "file", content);
    CHECK(test::names_in(folder.path()) ==
          std::vector<std::string>{"file", "file.tmp-13", "file.txt", "other.tmp-12"});
}

TEST_CASE("a file of the cache that is torn, changed by one bit, too long or something else is ignored") {
    const test::TemporaryFolder folder;
    const fs::path file = folder / "file";
    write_cached(file, content);
    const std::string whole = test::read_text(file);
    const auto check_ignored = [&](const std::string& text) {
        test::write_text(file, text);
        CHECK_FALSE(read_cached(file));
    };
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) check_ignored(whole.substr(0, bytes));
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        std::string changed = whole;
        changed[bit / 8] = char(changed[bit / 8] ^ 1 << bit % 8);
        check_ignored(changed);
    }
    check_ignored(whole + '\0'); // which the checksum alone would not tell
    check_ignored(whole + whole);
    check_ignored(std::string(whole.size(), '\0')); // as some file systems leave a file after a crash
    check_ignored(content);
    fs::resize_file(file, std::uintmax_t(1) << 40); // sparse, larger than memory
    check_replaced(file);

    fs::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);
    check_replaced(file);
    fs::remove(file);
    fs::create_directory(file);
    CHECK_FALSE(read_cached(file));
    CHECK_THROWS_AS(write_cached(file, content), InputError);
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"file"});
}

TEST_CASE("a cache that cannot be written to stays as it was, and the error names the file") {
    const test::TemporaryFolder folder;
    const auto error_of = [](const fs::path& file, std::string_view text) {
        try {
            write_cached(file, text);
        } catch (const InputError& error) {
            return std::string(error.what());
        }
        return std::string("nothing was thrown");
    };
    const fs::path file = folder / "file";
    write_cached(file, content);
    {
        const test::FullDisk full(100);
        CHECK(error_of(file, std::string(100, 'x')) ==
              "cannot write " + file.string() +
                  ": File too large; raise the limit on file sizes (ulimit -f) or choose another place");
    }
    CHECK(read_cached(file) == content);
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"file"});
    CHECK(error_of(file / "in a file", "") ==
          "cannot write " + (file / "in a file").string() + ": Not a directory; check the path");
    CHECK(error_of("/proc/towers/file", "") ==
          "cannot write /proc/towers/file: No such file or directory; check the path");
}

TEST_CASE("programs that write a file of the cache at once leave it whole at any moment") {
    const test::TemporaryFolder folder;
    const fs::path file = folder / "file";
    const auto content_of = [](int program, int time) {
        return std::string(std::size_t(1000 * program + 10 * time), char('a' + program));
    };
    write_cached(file, content);
    std::vector<pid_t> programs;
    for (int program = 1; program <= 4; ++program) {
        programs.push_back(fork());
        if (programs.back() != 0) continue;
        bool whole = true;
        for (int time = 0; time < 50; ++time) {
            write_cached(file, content_of(program, time));
            const std::optional<std::string> found = read_cached(file);
            whole = whole && found && !found->empty() && found->find_first_not_of((*found)[0]) == found->npos;
        }
        _exit(whole ? 0 : 1);
    }
    for (const pid_t program : programs) {
        int status = -1;
        CHECK(waitpid(program, &status, 0) == program);
        CHECK(status == 0);
    }
    CHECK(read_cached(file));
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"file"});
}

} // namespace towers
