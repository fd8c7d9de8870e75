// Decides whether devices hold a whole data set or get each step's images.
#pragma once

#include "backends/device.h"
#include "engine/data/source.h"

#include <cstdint>
#include <span>
#include <string>

namespace towers {

enum class Feeding {
    automatic, ///< resident if the images take at most half of each device's free memory
    resident,  ///< every device holds all images
    streamed,  ///< threads read the images ahead of the steps that take them
};

/// Reads auto, resident or streamed, as --feed gives them. Throws UsageError.
Feeding parse_feeding(const std::string& text);

constexpr unsigned most_readers = 256;

struct FeedOptions {
    Feeding feeding = Feeding::automatic;
    unsigned readers = 0; ///< threads that read; 0: see default_readers()
};

using Devices = std::span<Device* const>;

/// Whether these devices get each step's images, if they will hold so many bytes of other images, and nothing
/// is on them yet. Throws UsageError for resident images that have more bytes than kernels can count.
bool streams(Feeding feeding, const DataSource& data, Devices devices, std::uint64_t others = 0);

/// The threads that read if nobody says how many: one for each processor but one, or half as many beside a
/// device that computes on processors; at most 16.
unsigned default_readers(Devices devices);

} // namespace towers
