// Runs the built `towers` program, as a user's shell would.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace towers::test {

using Arguments = std::vector<std::string>;

/// What a program came to.
struct Outcome {
    int code;             ///< its exit code, or -N when signal N ended it
    std::string out, err; ///< all that it wrote
};

struct RunOptions {
    std::filesystem::path folder;                                 ///< to run in; here when empty
    std::vector<std::pair<std::string, std::string>> environment; ///< added to this program's
    std::size_t largest_file = 0;                                 ///< bytes a file may grow to; 0: any
    std::size_t address_space = 0;                                ///< bytes it may map; 0: any
    unsigned columns = 0; ///< of the terminal that is its stdout; 0: none
    double seconds = 180; ///< then it is killed and the test fails
};

/// A program that runs beside the test. It never outlives the test.
class Program {
public:
    /// The first argument is the program.
    explicit Program(const Arguments& command, const RunOptions& options = {});
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program();

    /// Waits until `condition` holds; false when the program ended before that.
    bool wait_until(const std::function<bool()>& condition);
    /// Waits until it has written so many whole lines to stdout that contain `text`.
    bool wait_for_lines(std::string_view text, std::size_t count);
    void send(int signal);
    /// Makes its terminal this wide.
    void resize(unsigned columns);
    /// What it has written to stdout so far.
    const std::string& out() const { return texts_[0]; }
    /// Waits for its end.
    Outcome end();

private:
    void pump(int milliseconds);
    void close_pipes();

    pid_t process_ = -1;
    int pipes_[2] = {-1, -1}; ///< its stdout, or the terminal that it is, and stderr
    std::string texts_[2];
    double deadline_;
};

/// Runs `towers` with these arguments to its end.
Outcome run_towers(const Arguments& arguments, const RunOptions& options = {});

/// The command of `towers` with these arguments, for Program.
Arguments towers_command(const Arguments& arguments);

} // namespace towers::test
