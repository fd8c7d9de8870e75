#include "apps/towers/starting.h"

#include "apps/towers/ending.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <omp.h>
#include <sched.h>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace towers {
namespace {

/// Lets this thread, and those that it starts, run on all processors of OpenMP's places, unless OpenMP binds
/// no thread; whether it does.
bool leave_place() {
    if (omp_get_proc_bind() == omp_proc_bind_false) return false;
    std::vector<int> processors;
    for (int place = 0; place < omp_get_num_places(); ++place) {
        std::vector<int> some(std::size_t(omp_get_place_num_procs(place)));
        omp_get_place_proc_ids(place, some.data());
        processors.insert(processors.end(), some.begin(), some.end());
    }
    if (processors.empty()) return true;
    std::vector<cpu_set_t> mask(std::size_t(std::ranges::max(processors)) / CPU_SETSIZE + 1);
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    for (const int each : processors) CPU_SET_S(std::size_t(each), bytes, mask.data());
    sched_setaffinity(0, bytes, mask.data());
    return true;
}

/// How the program was started. Not main()'s words: if the dynamic loader was told to start the program, the
/// loader runs, with its own.
struct Start {
    std::string program, text;
    std::vector<char*> words; ///< empty: not known

    Start() {
        std::error_code error;
        program = std::filesystem::read_symlink("/proc/self/exe", error).string();
        std::ifstream file("/proc/self/cmdline", std::ios::binary);
        text.assign(std::istreambuf_iterator(file), {});
        if (error || text.empty()) return;
        for (char* word = text.data(); word < text.data() + text.size(); word += std::strlen(word) + 1)
            words.push_back(word);
        words.push_back(nullptr);
    }
};

const Start& start() {
    static const Start start;
    return start;
}

/// Sets an environment variable; whether that changed it.
bool set(const char* name, const char* value) {
    const char* const before = std::getenv(name);
    if (before != nullptr && std::strcmp(before, value) == 0) return false;
    return setenv(name, value, 1) == 0;
}

} // namespace

void open_standard_streams() {
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
        if (fcntl(number, F_GETFD) == -1 && open("/dev/null", O_RDWR) != number) _exit(work_failed);
}

void restrain_openmp() {
    bool changed = false;
    // They spin for milliseconds between two loops, and so keep the processors from drivers, from averaging
    // and from other programs: beside another program a training step took 5 times as long.
    if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr)
        changed = set("GOMP_SPINCOUNT", "2000");
    // Each thread that computes begins a team of its own, which OpenMP binds to the places from the first one
    // on: towers and averaging would share a processor, and so would all threads that main()'s starts.
    if (leave_place()) changed = set("OMP_PROC_BIND", "false") || changed;
    start(); // a handler must not read files
    if (changed) start_anew(environ);
}

void start_anew(char* const* environment) {
    const Start& how = start();
    if (how.words.empty()) return;
    execve(how.program.c_str(), how.words.data(), environment); // under its name, which `ps` shows
    execve("/proc/self/exe", how.words.data(), environment);    // the file was deleted or replaced
}

} // namespace towers
