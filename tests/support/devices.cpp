#include "tests/support/devices.h"

#include <cstdio>
#include <map>
#include <stdexcept>

namespace towers::test {

namespace {
SharingLimits sharing;
} // namespace

ShareOut::ShareOut(const SharingLimits& limits) : before_(sharing) { sharing = limits; }
ShareOut::~ShareOut() { sharing = before_; }
const SharingLimits& ShareOut::now() { return sharing; }

OpenOptions open_options() {
    return {.threads = 0, .validate = true, .texts = Texts::best, .limits = &sharing, .measure = false};
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
std::map<std::string, std::unique_ptr<Device>> opened;
unsigned expected_messages = 0;
} // namespace

Device& device(const std::string& id) {
    auto& slot = opened[id];
    if (!slot) slot = open_device(id, open_options());
    return *slot;
}

void expect_validation_messages(unsigned count) { expected_messages += count; }
unsigned expected_validation_messages() { return expected_messages; }

void close_devices() { opened.clear(); }

} // namespace towers::test
