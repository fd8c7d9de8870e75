// Variables that training leaves as they are.
#pragma once

#include "engine/model/model.h"

#include <span>
#include <string>

namespace towers {

/// Freezes the variables whose full names fit one of the patterns, as in a shell: `*` stands for any text,
/// `?` for a character, `[ab]` for one of several; `*` and `?` also for '/'. A batch norm with frozen moving
/// statistics normalizes with these. Throws UsageError if a pattern fits no variable, if nothing is left that
/// learns, or if only one of a layer's two moving statistics fits. `what` names the patterns' flag in
/// messages.
void freeze(Model& model, std::span<const std::string> patterns, const std::string& what = "--freeze");

/// How much of a model is frozen.
struct Frozen {
    std::size_t variables = 0, of_variables = 0;   ///< moving statistics included
    std::size_t parameters = 0, of_parameters = 0; ///< numbers in them, without moving statistics
};
Frozen count_frozen(const Model& model);

} // namespace towers
