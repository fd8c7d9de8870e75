// What a run's steps were computed with. Beside settings and data, this decides the last bits of the results,
// so checkpoints record it, and a resumed run takes it again.
#pragma once

#include "engine/run/safetensors.h"
#include "engine/shares/device_record.h"
#include "engine/shares/shares.h"
#include "engine/train/trainer.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace towers {

struct TowerRecord {
    DeviceRecord device;
    std::string driver; ///< DeviceInfo's
    Share share;        ///< of the last step; empty for all towers: not known yet
};

struct Circumstances {
    std::vector<TowerRecord> towers;
    unsigned threads; ///< of processors; see cpu_threads()

    /// The shares, from the first step on; none if they are not known.
    std::optional<SharesFrom> shares() const;
    std::vector<DeviceRecord> devices() const; ///< of the towers
};

Circumstances circumstances_of(const Trainer& trainer);

/// Adds `towers`, as JSON, and `threads` to a checkpoint's metadata.
void put(const Circumstances& circumstances, TensorFile& file);
/// What put() has added; none if an early version wrote the file. Throws InputError, which names `path`.
std::optional<Circumstances> circumstances_in(const TensorFile& file, const std::filesystem::path& path);

/// For the user, of two starts with the same towers: each whose device is another one of the same name or id
/// now, or has another driver or other threads.
std::vector<std::string> changes_of_devices(const Circumstances& before, const Circumstances& now);

} // namespace towers
