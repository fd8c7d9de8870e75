#include "tests/apps/program.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <pty.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace towers::test {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::string> environment_with(const RunOptions& options) {
    std::map<std::string, std::string> all;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        all[text.substr(0, text.find('='))] = text;
    }
    for (const auto& [name, value] : options.environment) {
        std::string text = name; // for name + "=" + value g++ 12 gives a false warning
        text.append("=").append(value);
        all[name] = text;
    }
    std::vector<std::string> entries;
    for (const auto& [name, entry] : all) entries.push_back(entry);
    return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

void make_pipe(int (&ends)[2]) {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
}

/// Like make_pipe(), but the second end is a terminal.
void make_terminal(int (&ends)[2], unsigned columns) {
    const winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns)};
    if (::openpty(&ends[0], &ends[1], nullptr, nullptr, &size) != 0) throw std::runtime_error("no terminal");
    for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
}

} // namespace

Program::Program(const Arguments& command, const RunOptions& options) : deadline_(now() + options.seconds) {
    // Allocate all memory before the fork.
    Arguments words = command;
    std::vector<std::string> entries = environment_with(options);
    const std::vector<char*> argv = pointers_to(words), envp = pointers_to(entries);
    const std::string folder = options.folder.empty() ? "." : options.folder.string();
    int out[2], err[2];
    options.columns == 0 ? make_pipe(out) : make_terminal(out, options.columns);
    make_pipe(err);
    const pid_t parent = ::getpid();
    process_ = ::fork();
    if (process_ < 0) throw std::runtime_error("cannot start " + words[0]);
    if (process_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(127);
        // As a shell starts a program, whatever started the tests.
        for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(each, SIG_DFL);
        const auto limit = [](int resource, std::size_t bytes) {
            const rlimit both{bytes, bytes};
            return bytes == 0 || ::setrlimit(decltype(RLIMIT_AS)(resource), &both) == 0;
        };
        const int null = ::open("/dev/null", O_RDONLY);
        const bool ready = ::chdir(folder.c_str()) == 0 && ::dup2(null, 0) == 0 && ::dup2(out[1], 1) == 1 &&
                           ::dup2(err[1], 2) == 2 && limit(RLIMIT_FSIZE, options.largest_file) &&
                           limit(RLIMIT_AS, options.address_space);
        if (ready) ::execvpe(argv[0], argv.data(), envp.data());
        ::_exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    pipes_[0] = out[0];
    pipes_[1] = err[0];
}

Program::~Program() {
    if (process_ > 0) {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    close_pipes();
}

void Program::close_pipes() {
    for (int& pipe : pipes_)
        if (pipe >= 0) ::close(std::exchange(pipe, -1));
}

/// Reads what the program writes within this many milliseconds.
void Program::pump(int milliseconds) {
    pollfd polled[2] = {{pipes_[0], POLLIN, 0}, {pipes_[1], POLLIN, 0}};
    ::poll(polled, 2, milliseconds);
    for (int i = 0; i < 2; ++i) {
        if (pipes_[i] < 0 || polled[i].revents == 0) continue;
        char buffer[65536];
        const ssize_t got = ::read(pipes_[i], buffer, sizeof(buffer));
        if (got > 0) texts_[i].append(buffer, std::size_t(got));
        // Reading from a terminal fails once the program has closed it.
        if (got == 0 || (got < 0 && errno == EIO)) ::close(std::exchange(pipes_[i], -1));
    }
    if (now() > deadline_) {
        ::kill(process_, SIGKILL);
        FAIL("the program took too long; it wrote: ", texts_[0], texts_[1]);
    }
}

bool Program::wait_until(const std::function<bool()>& condition) {
    while (!condition()) {
        if (pipes_[0] < 0 && pipes_[1] < 0) return condition();
        pump(2);
    }
    return true;
}

bool Program::wait_for_lines(std::string_view text, std::size_t count) {
    return wait_until([&] {
        std::size_t found = 0, begin = 0;
        for (std::size_t end; (end = texts_[0].find('\n', begin)) != std::string::npos; begin = end + 1)
            if (std::string_view(texts_[0]).substr(begin, end - begin).find(text) != std::string::npos)
                ++found;
        return found >= count;
    });
}

void Program::send(int signal) { ::kill(process_, signal); }

void Program::resize(unsigned columns) {
    const winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns)};
    REQUIRE(::ioctl(pipes_[0], TIOCSWINSZ, &size) == 0);
}

void Program::close_output() { ::close(std::exchange(pipes_[0], -1)); }

Outcome Program::end() {
    while (pipes_[0] >= 0 || pipes_[1] >= 0) pump(100);
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), texts_[0], texts_[1]};
}

Arguments towers_command(const Arguments& arguments) {
    Arguments command{TOWERS_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    // Cards, emulated ones too, measure only where a test is about it: that takes seconds, and changes bits.
    const auto has = [&](const char* flag) { return std::ranges::find(arguments, flag) != arguments.end(); };
    if (!arguments.empty() && arguments[0] == "train" && !has("--tune") && !has("--resume") && !has("--help"))
        command.insert(command.begin() + 2, {"--tune", "off"});
    // Everything on Vulkan runs under the validation layer, and each of its messages is a failure.
    const bool takes_devices = !arguments.empty() && (arguments[0] == "train" || arguments[0] == "eval" ||
                                                      arguments[0] == "parity" || arguments[0] == "replay");
    const auto vulkan = [](const std::string& argument) {
        return argument.find("vulkan:") != std::string::npos;
    };
    if (takes_devices && std::any_of(arguments.begin(), arguments.end(), vulkan) &&
        std::find(arguments.begin(), arguments.end(), "--help") == arguments.end())
        command.push_back("--validate");
    return command;
}

Outcome run_towers(const Arguments& arguments, const RunOptions& options) {
    return Program(towers_command(arguments), options).end();
}

} // namespace towers::test
