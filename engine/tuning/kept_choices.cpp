#include "engine/tuning/kept_choices.h"

#include "backends/cache.h"
#include "backends/checksum.h"
#include "backends/error.h"
#include "engine/files/text.h"

#include <exception>
#include <fmt/format.h>
#include <optional>
#include <spdlog/spdlog.h>
#include <string>
#include <system_error>

namespace towers {
namespace {

const char* name_of(Effort effort) {
    return effort == Effort::full ? "full" : effort == Effort::quick ? "quick" : "auto";
}

} // namespace

KeptChoices KeptChoices::read(const DeviceChoices& device, bool exact_products, Effort effort,
                              const std::filesystem::path& folder) {
    KeptChoices kept{device, {}};
    if (folder.empty()) return kept;
    std::string made_for = fmt::format("{}\n{}\n{}\n{}\n{}", device.backend, device.name, device.driver,
                                       device.kernels, exact_products);
    if (device.precision != Precision::fp32) made_for += fmt::format("\n{}", name_of(device.precision));
    kept.file = folder / fmt::format("choices-{}-{:016x}.bin", name_of(effort), fnv1a(made_for));
    const std::optional<std::string> text = read_cached(kept.file);
    if (!text) return kept;
    try {
        for (const DeviceChoices& each : choices_from_json(*text, as_printable(kept.file.string())))
            if (is_for(each, device) && each.driver == device.driver && each.kernels == device.kernels)
                kept.of.choices = each.choices;
    } catch (const InputError& broken) {
        spdlog::warn("{}; it is ignored", broken.what());
    }
    return kept;
}

void KeptChoices::write() const {
    if (file.empty()) return;
    try {
        write_cached(file, choices_to_json({&of, 1}));
        std::error_code none; // an early version's file
        std::filesystem::remove(std::filesystem::path(file).replace_extension("json"), none);
    } catch (const std::exception& error) { // the next run measures again
        spdlog::warn("{}; what was measured is not kept for other runs", error.what());
    }
}

} // namespace towers
