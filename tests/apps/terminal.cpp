// People watch the live line on terminals of any width, and a line that wraps cannot be overwritten.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>
#include <regex>

using namespace towers::test;

namespace {

/// The successive states of the live line: each text after a carriage return, within its line.
std::vector<std::string> live_lines(const std::string& text) {
    std::vector<std::string> live;
    for (std::string line : lines_of(text)) {
        if (line.ends_with('\r')) line.pop_back(); // a terminal ends lines with \r\n
        for (std::size_t begin = line.find('\r'); begin != std::string::npos;) {
            const std::size_t end = line.find('\r', begin + 1);
            live.push_back(line.substr(begin + 1, end == std::string::npos ? end : end - begin - 1));
            begin = end;
        }
    }
    return live;
}

std::size_t longest(const std::vector<std::string>& lines) {
    std::size_t longest = 0;
    for (const std::string& line : lines) longest = std::max(longest, line.size());
    return longest;
}

Arguments training(const std::filesystem::path& run, const char* steps) {
    return Arguments{"train",        "--towers", "cpu", "--batch", "4",
                     "--log-towers", "--steps",  steps, "--run",   run.string()} +
           small_data();
}

} // namespace

TEST_CASE("the live line fits the terminal, and drops whole figures to do so") {
    const std::pair<unsigned, const char*> expected[] = {
        {200,
         R"(step 20/20  \d+\.\d examples/s  loss \d+\.\d{3}  lr 0\.1  0 s left  tower_0 loss = \d+\.\d\d *)"},
        {80, R"(step 20/20  \d+\.\d examples/s  loss \d+\.\d{3}  lr 0\.1  0 s left.*)"},
        {72, R"(step 20/20  \d+\.\d examples/s  loss \d+\.\d{3}  lr 0\.1  0 s left *)"},
        {40, R"(step 20/20  loss \d+\.\d{3}  0 s left *)"},
        {20, R"(step 20/20 *)"}};
    for (const auto& [width, last] : expected) {
        const unsigned columns = width; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(columns);
        const TemporaryFolder folder;
        const Outcome outcome = run_towers(training(folder / "run", "20"), {.columns = columns});
        CAPTURE(outcome.out);
        check_worked(outcome);
        const std::vector<std::string> live = live_lines(outcome.out);
        REQUIRE(!live.empty());
        CHECK(longest(live) < columns);
        CHECK(std::regex_match(live.back(), std::regex(last)));
    }
}

TEST_CASE("a terminal too narrow for the step number never shows a part of it") {
    const TemporaryFolder folder;
    const Outcome outcome = run_towers(training(folder / "run", "20"), {.columns = 8});
    check_worked(outcome);
    CHECK_FALSE(contains(outcome.out, "\rst"));
    CHECK(contains(outcome.out, "done: saved"));
}

TEST_CASE("the live line adapts when the terminal becomes narrower") {
    const TemporaryFolder folder;
    Program program(towers_command(training(folder / "run", "1000000")), {.columns = 80});
    const auto wait_for = [&](std::size_t bytes) {
        return program.wait_until([&] { return program.out().size() >= bytes; });
    };
    REQUIRE(program.wait_until([&] { return contains(program.out(), " examples/s"); }));
    program.resize(30);
    const std::size_t before = program.out().size() + 100; // one line may still have been on its way
    REQUIRE(wait_for(before + 200));
    program.send(SIGINT);
    const Outcome outcome = program.end();
    check_worked(outcome);
    CAPTURE(outcome.out);
    CHECK(longest(live_lines(outcome.out)) > 30);
    const std::vector<std::string> after = live_lines(outcome.out.substr(outcome.out.find('\r', before)));
    CHECK(after.size() > 3);
    CHECK(longest(after) < 30);
}

TEST_CASE("on a terminal bench shows its progress in one line") {
    for (const unsigned columns : {80, 20}) {
        CAPTURE(columns);
        const Outcome outcome = run_towers({"bench", "--towers", "cpu", "--batch", "2", "--steps", "1",
                                            "--warm-up", "1", "--repetitions", "1"},
                                           {.columns = columns});
        check_worked(outcome);
        CAPTURE(outcome.out);
        std::vector<std::string> live = live_lines(outcome.out);
        REQUIRE(!live.empty());
        live.pop_back(); // the report starts where the live line was
        const std::string clear = "\033[K";
        for (std::string& line : live)
            if (line.starts_with(clear)) line.erase(0, clear.size());
        CHECK(longest(live) < columns);
        const auto said = [&](const char* what) { return std::ranges::find(live, what) != live.end(); };
        CHECK(said(columns == 80 ? "repetition 1 of 1: cpu" : "repetition 1 of 1"));
    }
}
