#include "engine/ranks/mpi_transport.h"

#include "backends/error.h"
#include "engine/ranks/mpi/plugin.h"

#include <chrono>
#include <condition_variable>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <unordered_set>
#include <utility>

namespace towers {

namespace {

namespace fs = std::filesystem;

struct Mpi {
    const char *name, *plugin;
    const char *package, *headers; ///< Debian's packages of library and launcher, and of the headers
    const char* network;           ///< what tells it which of a machine's networks to use
};

const Mpi& mpi_of(MpiKind kind) {
    static const Mpi open_mpi{"Open MPI", "towers-openmpi.so", "openmpi-bin", "libopenmpi-dev",
                              "mpirun --mca btl_tcp_if_include 192.168.1.0/24"};
    static const Mpi mpich{"MPICH", "towers-mpich.so", "mpich", "libmpich-dev",
                           "UCX_NET_DEVICES=eth0 in the environment"};
    return kind == MpiKind::open_mpi ? open_mpi : mpich;
}

struct Plugin {
    const TowersMpiPlugin* calls;
    std::string library; ///< path of the MPI's library
};

/// Stays open: what an MPI leaves behind when it is finalized needs its code.
Plugin open_plugin(const Mpi& mpi) {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
    // Beside a program that was built; where bin/ and lib/ are neighbours, as after an installation
    const fs::path folders[] = {program / "lib/towers", program.parent_path() / "lib/towers"};
    fs::path path;
    for (const fs::path& folder : folders)
        if (path.empty() && fs::exists(folder / mpi.plugin, error)) path = folder / mpi.plugin;
    if (path.empty())
        throw UsageError(fmt::format("this program has no plugin for {}, {} in {}; install {}'s headers "
                                     "(Debian's packages pkg-config and {}) and build it again, or use "
                                     "another MPI",
                                     mpi.name, mpi.plugin, folders[program.filename() == "bin"].string(),
                                     mpi.name, mpi.headers));
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
        throw UsageError(
            fmt::format("{0} cannot be used: {1}; install {0} (Debian's package {2}), or put the folder of "
                        "its library into LD_LIBRARY_PATH",
                        mpi.name, dlerror(), mpi.package));
    const auto get = reinterpret_cast<decltype(&towers_mpi_plugin)>(dlsym(handle, "towers_mpi_plugin"));
    if (get == nullptr || get()->version != TOWERS_MPI_PLUGIN_VERSION)
        throw UsageError(fmt::format("{} belongs to another version of towers; build and install both again",
                                     path.string()));
    Dl_info library{};
    void* const function = dlsym(handle, "MPI_Init_thread");
    if (function == nullptr || dladdr(function, &library) == 0) library.dli_fname = path.c_str();
    return {get(), library.dli_fname};
}

/// How long ranks may take to find each other, or to part: an MPI waits for ever for one that has died then.
constexpr std::chrono::seconds most_to_meet(28), most_to_part(10);
/// How long those that are left may take to agree who is gone. MPI notices itself that a rank hangs.
constexpr std::chrono::seconds most_to_shrink(30);

/// Calls `late` on another thread if it lives longer than that.
class Deadline {
public:
    Deadline(std::chrono::seconds most, std::function<void()> late)
        : thread_([this, most, late = std::move(late)] {
              std::unique_lock lock(mutex_);
              if (!changed_.wait_for(lock, most, [this] { return over_; })) late();
          }) {}
    Deadline(const Deadline&) = delete; // its thread holds its address
    Deadline& operator=(const Deadline&) = delete;
    ~Deadline() {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
    std::thread thread_; // last: it uses the others
};

class MpiTransport final : public Transport {
public:
    MpiTransport(const Launched& launched, const Late& late) : name_(mpi_of(launched.mpi).name) {
        const Mpi& mpi = mpi_of(launched.mpi);
        const Plugin plugin = open_plugin(mpi);
        calls_ = plugin.calls;
        char name[128] = "";
        int rank = 0, size = 0;
        const char* problem = nullptr;
        {
            const Deadline deadline(most_to_meet, [&] {
                late(fmt::format("{}: the ranks have not found each other for {} s; maybe one has died, a "
                                 "machine cannot be reached, or {} tries a network that is not common to "
                                 "all, such as Docker's: name the common one, such as {}",
                                 name_, most_to_meet.count(), name_, mpi.network));
            });
            problem = calls_->begin(&rank, &size, name, sizeof name);
        }
        if (name[0] != '\0') name_ = name;
        check(problem);
        rank_ = unsigned(rank);
        size_ = unsigned(size);
        if (size_ == launched.ranks && rank_ == launched.rank) return;
        calls_->end();
        throw UsageError(fmt::format("{} says that this is rank {} of {}, but {} ({}) knows it as rank {} of "
                                     "{}; start with the launcher that "
                                     "belongs to this library",
                                     launched.launcher, launched.rank, launched.ranks, name_, plugin.library,
                                     rank_, size_));
    }

    ~MpiTransport() override {
        // After a failure, it might wait for ever. The launcher takes an end without it for a good one.
        if (failed_ || shrunk_) return;
        const Deadline deadline(most_to_part, [] { _exit(1); });
        calls_->end();
    }

    unsigned rank() const override { return rank_; }
    unsigned size() const override { return size_; }
    std::string name() const override { return name_; }

    Transfer send(unsigned to, int tag, std::span<const std::byte> bytes) override {
        Transfer transfer = nullptr;
        check(calls_->send(bytes.data(), bytes.size(), int(to), tag, &transfer));
        return begun(transfer);
    }

    Transfer receive(unsigned from, int tag, std::span<std::byte> into) override {
        Transfer transfer = nullptr;
        check(calls_->receive(into.data(), into.size(), int(from), tag, &transfer));
        return begun(transfer);
    }

    bool test(Transfer& transfer, std::size_t* received) override {
        const Transfer tested = transfer;
        const char* const problem = calls_->test(&transfer, received);
        if (transfer == nullptr && calls_->can_shrink()) on_their_way_.erase(tested);
        check(problem);
        return transfer == nullptr;
    }

    bool can_shrink() const override { return calls_->can_shrink(); }

    std::vector<unsigned> shrink(const std::function<void()>& late) override {
        const Deadline deadline(most_to_shrink, late);
        const unsigned before = rank_;
        std::vector<unsigned> all; // stays until the transfers have ended
        while (true) {
            check(calls_->revoke());
            end_transfers();
            int rank = 0, size = 0;
            check(calls_->shrink(&rank, &size));
            rank_ = unsigned(rank);
            size_ = unsigned(size);
            shrunk_ = true;
            failed_ = false;
            try {
                tell_all(before, all);
                return all;
            } catch (const TransportError&) { // one more is gone
            }
        }
    }

private:
    Transfer begun(Transfer transfer) {
        if (calls_->can_shrink()) on_their_way_.insert(transfer);
        return transfer;
    }

    /// After revoke(), which lets them fail. One that has begun to move ends first.
    void end_transfers() {
        for (; !on_their_way_.empty(); std::this_thread::yield())
            for (const Transfer each : std::vector(on_their_way_.begin(), on_their_way_.end())) {
                Transfer transfer = each;
                calls_->test(&transfer, nullptr);
                if (transfer == nullptr) on_their_way_.erase(each);
            }
    }

    /// Everybody's number, by rank. What was under way between two ranks has come when their messages have.
    void tell_all(const unsigned& own, std::vector<unsigned>& all) {
        all.assign(size_, own);
        std::vector<Transfer> transfers;
        for (unsigned peer = 0; peer < size_; ++peer) {
            if (peer == rank_) continue;
            transfers.push_back(receive(peer, 0, std::as_writable_bytes(std::span(&all[peer], 1))));
            transfers.push_back(send(peer, 0, std::as_bytes(std::span(&own, 1))));
        }
        for (Transfer& transfer : transfers)
            while (!test(transfer, nullptr)) std::this_thread::yield();
    }

    void check(const char* problem) {
        if (problem == nullptr) return;
        failed_ = true;
        throw TransportError(fmt::format("{}: {}", name_, problem));
    }

    const TowersMpiPlugin* calls_ = nullptr;
    unsigned rank_ = 0, size_ = 0;
    std::string name_;
    bool failed_ = false, shrunk_ = false;
    std::unordered_set<Transfer> on_their_way_; ///< where it can shrink
};

} // namespace

std::unique_ptr<Transport> open_mpi_transport(const Launched& launched, const Late& late) {
    return std::make_unique<MpiTransport>(launched, late);
}

std::string absence_of(MpiKind mpi) {
    try {
        open_plugin(mpi_of(mpi));
        return "";
    } catch (const UsageError& error) {
        return error.what();
    }
}

} // namespace towers
