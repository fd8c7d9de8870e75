// The command line of eval.
#pragma once

#include "apps/towers/common_flags.h"
#include "backends/backend.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

struct EvalFlags {
    std::vector<std::string> set;
    std::string model, recipe, data, format, backend, towers, split = "test", quirks, confusion, json,
                                                              threshold, best_thresholds;
    unsigned batch = 128, interval = 0;
    std::optional<unsigned> top;
    bool raw = false, per_class = false, skip_broken = false;
    PrecisionFlags products;
    OpenOptions open;
    std::vector<std::string> common_lines; ///< see ranks.h

    /// Whether a figure needs the scores of all classes.
    bool need_scores() const { return per_class || !json.empty(); }
};

/// Adds the flags. Parsing fills `flags`, except common_lines, which common_lines() returns afterwards.
void add_eval_flags(CLI::App& command, EvalFlags& flags);

/// Throws UsageError or InputError about what can be known before anything is read.
void check(const EvalFlags& flags);

} // namespace towers
