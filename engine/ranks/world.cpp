#include "engine/ranks/world.h"

#include "backends/error.h"
#include "engine/ranks/message.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <unistd.h>

namespace towers {
namespace {

/// The same for processes on one machine that can see each other; nothing if it is not known.
std::string machine() {
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    return boot;
}

std::string process_space() {
    char space[64] = {};
    return readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0 ? space : "";
}

std::vector<unsigned> own_processors() {
    std::vector<unsigned> processors;
    constexpr std::size_t most = 8192;
    cpu_set_t* const set = CPU_ALLOC(most);
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    if (sched_getaffinity(0, bytes, set) == 0)
        for (unsigned i = 0; i < most; ++i)
            if (CPU_ISSET_S(i, bytes, set)) processors.push_back(i);
    CPU_FREE(set);
    return processors;
}

nlohmann::json introduction(const std::string& version) {
    return {{"host", host_name()},
            {"version", version},
            {"machine", machine()},
            {"space", process_space()},
            {"process", getpid()},
            {"processors", own_processors()},
            {"machine_processors", sysconf(_SC_NPROCESSORS_ONLN)}};
}

} // namespace

std::string host_name() {
    if (const char* const given = std::getenv("TOWERS_HOST"); given != nullptr && *given != '\0')
        return given;
    char name[HOST_NAME_MAX + 1] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

World::World(std::shared_ptr<Transport> transport, CourierOptions options, const std::string& version)
    : courier_(std::move(transport), std::move(options)) {
    std::vector<std::string> spaces;
    for (const Bytes& bytes : courier_.gather_all(Topic::setup, to_bytes(introduction(version)))) {
        const nlohmann::json json = to_json(bytes);
        ranks_.push_back({.host = json["host"],
                          .version = json["version"],
                          .machine = json["machine"],
                          .process = json["process"],
                          .processors = json["processors"],
                          .machine_processors = json["machine_processors"]});
        spaces.push_back(json["space"]);
    }
    const Rank& own = ranks_[rank()];
    for (unsigned i = 1; i < size(); ++i)
        if (ranks_[i].version != ranks_[0].version)
            throw UsageError(fmt::format("{} is {}, but {} {}; start the same program everywhere", name(0),
                                         ranks_[0].version, name(i), ranks_[i].version));
    unsigned sharing = 0;
    for (unsigned i = 0; i < size(); ++i) {
        const bool is_near = !own.machine.empty() && ranks_[i].machine == own.machine;
        if (!is_near && i != rank()) continue;
        if (i != rank() && spaces[i] == spaces[rank()]) courier_.watch_process(i, ranks_[i].process);
        ++local_ranks_;
        local_rank_ += i < rank();
        sharing +=
            std::ranges::find_first_of(ranks_[i].processors, own.processors) != ranks_[i].processors.end();
    }
    threads_ = std::max(1u, unsigned(own.processors.size()) / std::max(1u, sharing));
}

std::vector<unsigned> World::hosts() const {
    std::vector<unsigned> hosts;
    for (unsigned i = 0; i < size(); ++i) {
        unsigned first = 0;
        while (first < i && (ranks_[i].machine.empty() || ranks_[first].machine != ranks_[i].machine ||
                             ranks_[first].host != ranks_[i].host))
            ++first;
        hosts.push_back(first);
    }
    return hosts;
}

std::string World::name(unsigned rank) const { return fmt::format("rank {} ({})", rank, ranks_[rank].host); }

std::string World::warning() const {
    const Rank& own = ranks_[rank()];
    if (own.processors.size() != 1 || own.machine_processors <= local_ranks_) return "";
    return fmt::format(
        "{} may run on 1 of its machine's {} processors; for more give mpirun --bind-to none, or "
        "srun --cpus-per-task",
        name(rank()), own.machine_processors);
}

std::vector<std::string> dealt_to(unsigned local_rank, unsigned local_ranks,
                                  const std::vector<std::string>& devices) {
    std::vector<std::string> its;
    std::size_t card = 0;
    for (const std::string& id : devices)
        if (id != "cpu" && card++ % local_ranks == local_rank) its.push_back(id);
    if (its.empty()) its.emplace_back("cpu");
    return its;
}

} // namespace towers
