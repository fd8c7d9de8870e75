// Defects of the published systems.
#pragma once

#include <string>

namespace towers {

/// They are fixed here; `--quirks` brings each one back.
struct Quirks {
    bool last_tower_loss = false;    ///< report the last tower's loss, not the mean over all
    bool step_schedule = false;      ///< decay the learning rate by steps, however many towers share them
    bool unordered_average = false;  ///< average the parameters from before the update
    bool delete_run = false;         ///< delete an earlier run in the run directory at start
    bool padded_evaluation = false;  ///< fill the last evaluation batch with repeated images, and count them
    bool divided_batch_time = false; ///< log seconds a batch divided by the number of towers

    bool operator==(const Quirks&) const = default;
};

/// Reads a list such as `last-tower-loss,step-schedule`, `all` or `none`. Throws UsageError, which lists the
/// names.
Quirks parse_quirks(const std::string& text);

} // namespace towers
