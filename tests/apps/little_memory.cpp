// If a limit on memory (ulimit -v) ends a run, one line must say so: drivers crash when they are refused
// memory. Beyond a container's limit the kernel would end the program without a word.
#include "backends/control_groups.h"
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

using namespace towers::test;
namespace fs = std::filesystem;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // which map terabytes

namespace {

/// A network whose step needs 400 MiB of memory at once
const char* const wide_recipe = R"([input]
shape = [32, 32, 3]
classes = 10
[network]
layers = [
  { name = "conv", kind = "conv2d", filters = 16, kernel = 3 },
  { name = "gelu1", kind = "gelu" },
  { name = "gelu2", kind = "gelu" },
  { name = "gelu3", kind = "gelu" },
  { name = "gelu4", kind = "gelu" },
  { name = "pool", kind = "global_average_pool" },
  { name = "fc", kind = "dense", units = 10 },
]
[training]
batch = 1024
steps = 3
[optimizer]
kind = "sgd"
learning_rate = 0.1
)";

/// A control group with so much memory, within this process's own.
class ControlGroup {
public:
    explicit ControlGroup(std::size_t bytes) {
        for (const auto& [own, version] : towers::control_groups("/", "memory")) {
            std::error_code error;
            if (!fs::exists(own / "cgroup.procs", error)) continue;
            folder_ = own / fmt::format("towers-test-{}", getpid());
            if (!fs::create_directory(folder_, error)) break;
            bool limited = false;
            for (const char* const name : {"memory.max", "memory.limit_in_bytes"})
                if (fs::exists(folder_ / name))
                    limited = bool(std::ofstream(folder_ / name) << bytes << std::flush);
            works_ = limited && Program(within({"true"})).end().code == 0;
            break;
        }
    }
    ControlGroup(const ControlGroup&) = delete;
    ControlGroup& operator=(const ControlGroup&) = delete;
    ~ControlGroup() { ::rmdir(folder_.c_str()); }

    /// Whether the system lets this user make one.
    bool works() const { return works_; }
    /// The command, run in this group.
    Arguments within(const Arguments& command) const {
        const std::string script = "echo $$ >\"$0/cgroup.procs\" && exec \"$@\"";
        return Arguments{"sh", "-c", script, folder_.string()} + command;
    }

private:
    fs::path folder_;
    bool works_ = false;
};

} // namespace

TEST_CASE("under a memory limit the program works or says that the limit is too low") {
    const TemporaryFolder folder;
    const nlohmann::json all = nlohmann::json::parse(run_towers({"devices", "--json"}).out);
    for (const nlohmann::json& device : all.at("devices")) {
        // Only devices that run on the host use this process's memory. How a card's driver behaves is up to
        // its vendor.
        const std::string id = device.at("id"), kind = device.at("kind");
        if (kind != "CPU" && kind != "software") continue;
        CAPTURE(id);
        CAPTURE(device.at("name").get<std::string>());
        bool said = false;
        for (const std::size_t kib : {150'000, 200'000, 300'000, 400'000, 500'000, 600'000}) {
            CAPTURE(kib);
            // Without the validation layer, which needs memory of its own
            const Arguments command{TOWERS_PROGRAM, "train", "--data",  "shapes", "--towers", id,
                                    "--steps",      "1",     "--batch", "2"};
            const RunOptions options{.folder = folder.path(), .address_space = kib << 10};
            Outcome outcome = Program(command, options).end();
            if (outcome.code == 0) continue;
            // A driver may have its own word before it aborts.
            if (contains(outcome.err, "its driver crashed"))
                outcome.err = lines_of(outcome.err).back() + "\n";
            check_failed(outcome, outcome.code == 2 ? 2 : 1, "");
            said = said || contains(outcome.err, "(ulimit -v)");
        }
        CHECK(said);
    }
}

TEST_CASE("a resumed run keeps its micro-batches, and with them its bits, whatever memory is free by then") {
    const TemporaryFolder folder;
    write_text(folder / "wide.toml", wide_recipe);

    constexpr std::size_t little = 550'000, more = 4 * little; // KiB; all at once need 400 MiB of memory
    // What the program says of the tower
    const auto train = [&](const char* run, std::size_t kib, const Arguments& flags) {
        const Arguments all =
            Arguments{"train", "--run", (folder / run).string(), "--log-every", "1", "--summary-every", "0"} +
            flags;
        const Outcome outcome = run_towers(all, {.address_space = kib << 10});
        check_worked(outcome);
        return lines_of(outcome.out).at(0);
    };
    const Arguments flags =
        Arguments{"--recipe", (folder / "wide.toml").string(), "--towers", "cpu", "--threads", "1", "--feed",
                  "resident"} +
        small_data();
    const Arguments again{"--resume", "--steps", "3"};
    const std::string whole = train("whole", little, flags);
    CHECK(contains(whole, " micro-batches of up to "));
    train("part", little, flags + Arguments{"--steps", "2"});
    fs::copy(folder / "part", folder / "elsewhere", fs::copy_options::recursive);
    const unsigned pieces = metrics(folder / "whole").at(0).at("micro_batches").at(0);
    const std::string same = fmt::format(", 1024 examples a step in {} micro-batches of up to ", pieces);
    CHECK(contains(train("part", little, again), same));
    CHECK(contains(train("elsewhere", more, again), same));
    check_same(folder / "whole", folder / "part", 3);
    check_same(folder / "whole", folder / "elsewhere", 3);

    // Another run takes them too, unless it may not.
    const std::string recorded = fmt::format("@{}", (folder / "whole").string());
    CHECK(contains(train("other", more, flags + Arguments{"--shares", recorded}), same));
    CHECK(any_variables(checkpoint(folder / "other", 3)) == any_variables(checkpoint(folder / "whole", 3)));
    CHECK(train("part", more, {"--resume", "--steps", "4", "--micro-batch", "1024"})
              .ends_with(", 1024 examples a step"));
}

TEST_CASE("in a container with little memory steps are divided instead of killed") {
    constexpr std::size_t bytes = std::size_t(320) << 20;
    const ControlGroup group(bytes);
    if (!group.works()) {
        MESSAGE("SKIPPED: the system lets this user make no control group with a limit on memory");
        return;
    }
    const TemporaryFolder folder;
    write_text(folder / "wide.toml", wide_recipe);
    for (const std::string& device : {std::string("cpu"), quick_device()}) {
        if (device.empty()) continue;
        CAPTURE(device);
        const Arguments train =
            Arguments{"train", "--recipe", (folder / "wide.toml").string(), "--towers", device, "--steps",
                      "1",     "--run",    (folder / device).string()} +
            small_data();
        const Outcome outcome = Program(group.within(Arguments{TOWERS_PROGRAM} + train)).end();
        check_worked(outcome);
        CHECK(contains(outcome.out, " micro-batches of up to "));
    }
    CHECK(contains(Program(group.within({TOWERS_PROGRAM, "devices"})).end().out, ", 0.3 GiB, oneDNN"));
    const Arguments bench{"bench",   "--towers", "cpu", "--recipe", (folder / "wide.toml").string(),
                          "--batch", "1024"};
    check_failed(Program(group.within(Arguments{TOWERS_PROGRAM} + bench)).end(), 1,
                 "of memory are needed and ");
}

#endif
