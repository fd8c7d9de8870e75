// What --set changes in a recipe.
#pragma once

#include "engine/config/attributes.h"

#include <string>
#include <vector>

namespace towers {

/// Applies `change`, table.key=value: sets the key, or removes it if there is no value. loss.key is a key of
/// the only [[loss]], which is added if there is none; one of several has the name of its logits before the
/// key. Throws UsageError.
void apply_change(Value& recipe, const std::string& change);

/// Removes the keys that kinds given by --set lack. Returns a note for each table.
std::vector<std::string> drop_keys(Value& recipe, const std::vector<DroppedKey>& dropped,
                                   const std::string& source);

} // namespace towers
