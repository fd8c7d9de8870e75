// Runs the built `towers` program as a user's shell would.
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

/// How a program ended.
struct Outcome {
    int code;             ///< its exit code, or -N if signal N ended it
    std::string out, err; ///< everything that it wrote
};

struct RunOptions {
    std::filesystem::path folder; ///< to run in; the current one if empty
    std::vector<std::pair<std::string, std::string>>
        environment;               ///< added to the environment of this program
    std::size_t largest_file = 0;  ///< limit on a file's size in bytes; 0: none
    std::size_t address_space = 0; ///< limit on its mapped bytes; 0: none
    unsigned columns = 0;          ///< width of the terminal that is its stdout; 0: no terminal
    double seconds = 180;          ///< after these it is killed and the test fails
};

/// A program that runs alongside the test. It never outlives the test.
class Program {
public:
    /// The first argument is the program.
    explicit Program(const Arguments& command, const RunOptions& options = {});
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program();

    /// Waits until `condition` holds; false if the program ends first.
    bool wait_until(const std::function<bool()>& condition);
    /// Waits until it has written this many whole lines to stdout that contain `text`.
    bool wait_for_lines(std::string_view text, std::size_t count);
    void send(int signal);
    pid_t process() const { return process_; } ///< until end()
    /// Sets the width of its terminal.
    void resize(unsigned columns);
    /// Closes the other end of its stdout, as a terminal or `head` does.
    void close_output();
    /// What it has written to stdout so far.
    const std::string& out() const { return texts_[0]; }
    /// Waits until it ends.
    Outcome end();

private:
    void pump(int milliseconds);
    void close_pipes();

    pid_t process_ = -1;
    int pipes_[2] = {-1, -1}; ///< its stdout (or the terminal in its place) and stderr
    std::string texts_[2];
    double deadline_;
};

/// Runs `towers` with these arguments to its end.
Outcome run_towers(const Arguments& arguments, const RunOptions& options = {});

/// The command line of `towers` with these arguments, for Program.
Arguments towers_command(const Arguments& arguments);

} // namespace towers::test
