// Choices that were measured on a kind of device, in the user's cache for later runs.
#pragma once

#include "engine/tuning/choices_file.h"
#include "engine/tuning/shortlist.h"

#include <filesystem>

namespace towers {

struct KeptChoices {
    DeviceChoices of;           ///< the kind of device, and its choices
    std::filesystem::path file; ///< empty: they are kept nowhere

    /// Reads what earlier runs have kept. `device` has no choices yet, and multiplies as `exact_products`
    /// says; `folder`: of the cache; empty: there is none. Warns of a file that is damaged, and ignores it.
    static KeptChoices read(const DeviceChoices& device, bool exact_products, Effort effort,
                            const std::filesystem::path& folder);
    /// Warns if that fails.
    void write() const;
};

} // namespace towers
