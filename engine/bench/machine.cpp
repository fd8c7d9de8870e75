#include "engine/bench/machine.h"

#include "backends/backend.h"

#include <cstdlib>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/utsname.h>
#include <thread>

namespace towers {
namespace {

/// The system's name from /etc/os-release.
std::string system_name() {
    std::ifstream file("/etc/os-release");
    const std::string key = "PRETTY_NAME=\"";
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key) && line.ends_with('"'))
            return line.substr(key.size(), line.size() - key.size() - 1);
    return "unknown";
}

/// Processors that this process may use.
unsigned usable_processors() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return unsigned(CPU_COUNT(&set));
    return std::max(1u, std::thread::hardware_concurrency());
}

} // namespace

BenchMachine describe_machine() {
    BenchMachine machine;
    const std::unique_ptr<Device> cpu = open_host_device(); // knows the processor's name
    machine.processor = cpu->info().name;
    machine.memory_bytes = cpu->info().memory;
    machine.processors = usable_processors();
    machine.system = system_name();
    utsname names{};
    uname(&names);
    machine.kernel = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
    if (getloadavg(&machine.load_average, 1) != 1) machine.load_average = 0;
    return machine;
}

std::string utc_date() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

std::uint64_t peak_memory_bytes() {
    // Not getrusage(), whose figure includes the process that started this one.
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
    return 0;
}

} // namespace towers
