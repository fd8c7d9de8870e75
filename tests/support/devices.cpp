#include "tests/support/devices.h"

#include "backends/wrapped_device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace towers::test {

namespace {
ConfigLimits config_limits;
} // namespace

LimitConfigs::LimitConfigs(const ConfigLimits& limits) : before_(config_limits) { config_limits = limits; }
LimitConfigs::~LimitConfigs() { config_limits = before_; }
const ConfigLimits& LimitConfigs::now() { return config_limits; }

OpenOptions open_options() {
    // Tests' work is small: on many processors, waking the threads would take most of the time.
    static const unsigned few = std::getenv("OMP_NUM_THREADS") != nullptr ? 0 : std::min(cpu_threads(0), 3u);
    return {.threads = few,
            .validate = true,
            .sources = Sources::best,
            .limits = &config_limits,
            .measure = false};
}

const std::vector<std::string>& device_ids() {
    static const std::vector<std::string> ids = [] {
        std::vector<std::string> found;
        const std::vector<Backend::Listing> listings = list_devices(open_options());
        for (std::size_t i = 0; i < listings.size(); ++i) {
            const Backend::Listing& listing = listings[i];
            if (listing.devices.empty())
                std::printf("SKIPPED %s: %s\n", std::string(all_backends()[i]->name()).c_str(),
                            listing.absence.c_str());
            for (const DeviceInfo& info : listing.devices) {
                if (!info.withheld.empty()) {
                    std::printf("SKIPPED %s (%s): %s\n", info.id.c_str(), info.name.c_str(),
                                info.withheld.c_str());
                    continue;
                }
                std::printf("testing on %s: %s, %s\n", info.id.c_str(), info.name.c_str(),
                            info.driver.c_str());
                found.push_back(info.id);
            }
        }
        return found;
    }();
    return ids;
}

namespace {
std::map<std::string, std::unique_ptr<Device>> shared;
unsigned expected_messages = 0;
} // namespace

Device& device(const std::string& id) {
    auto& slot = shared[id];
    if (!slot) slot = open_device(id, open_options());
    return *slot;
}

namespace {

struct Opened {
    std::unique_ptr<Device> device;
    Ticket last = 0; ///< that it has issued
};

/// Devices that no test uses at present
class Reusable {
public:
    using Key = std::tuple<std::string, bool, Sources, bool, Precision, const ConfigLimits*, bool>;

    static Reusable& all() {
        static Reusable reusable;
        return reusable;
    }
    Opened take(const Key& key) {
        const std::lock_guard lock(mutex_);
        const auto found = devices_.find(key);
        return found == devices_.end() ? Opened{} : std::move(devices_.extract(found).mapped());
    }
    void put(const Key& key, Opened opened) {
        const std::lock_guard lock(mutex_);
        if (!closed_) devices_.emplace(key, std::move(opened));
    }
    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        devices_.clear();
    }

private:
    std::mutex mutex_;
    std::multimap<Key, Opened> devices_;
    bool closed_ = false;
};

class ReusedDevice : public WrappedDevice {
public:
    ReusedDevice(Reusable::Key key, Opened opened)
        : WrappedDevice(std::move(opened.device)), key_(std::move(key)), before_(opened.last),
          last_(opened.last) {}
    ~ReusedDevice() override {
        if (!failed_) Reusable::all().put(key_, {release(), last_});
    }

    bool save_scratch() override {
        failed_ = true; // it is another device from now on
        return WrappedDevice::save_scratch();
    }

protected:
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        std::vector<Ticket> tickets;
        for (const Submission& each : after) tickets.push_back(before_ + each.ticket);
        or_fail([&] {
            last_ = theirs().submit(static_cast<const WrappedRecording&>(recording).recording,
                                    submission.queue, tickets);
        });
    }
    void do_wait(Submission submission) override {
        or_fail([&] { theirs().wait(before_ + submission.ticket); });
    }

private:
    template<class Call>
    void or_fail(const Call& call) {
        try {
            call();
        } catch (...) {
            failed_ = true;
            throw;
        }
    }

    Reusable::Key key_;
    Ticket before_, last_; ///< issued by the other device before this one existed, and at last
    bool failed_ = false;  ///< or must not be used again
};

} // namespace

std::unique_ptr<Device> reuse_device(std::string_view id, const OpenOptions& options) {
    // The CPU's device opens at once, and choices may not live as long as the test program.
    if (options.choices != nullptr || id == "cpu") return open_device(id, options);
    const Reusable::Key key(id, options.validate, options.sources, options.exact_products, options.precision,
                            options.limits, options.measure);
    Opened opened = Reusable::all().take(key);
    if (!opened.device) opened = {open_device(id, options)};
    return std::make_unique<ReusedDevice>(key, std::move(opened));
}

void expect_validation_messages(unsigned count) { expected_messages += count; }
unsigned expected_validation_messages() { return expected_messages; }

void close_devices() {
    shared.clear();
    Reusable::all().close();
}

} // namespace towers::test
