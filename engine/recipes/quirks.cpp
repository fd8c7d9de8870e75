#include "engine/recipes/quirks.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <fmt/format.h>
#include <sstream>
#include <utility>

namespace towers {
namespace {

constexpr std::pair<const char*, bool Quirks::*> quirk_names[] = {
    {"last-tower-loss", &Quirks::last_tower_loss},     {"step-schedule", &Quirks::step_schedule},
    {"unordered-average", &Quirks::unordered_average}, {"delete-run", &Quirks::delete_run},
    {"padded-evaluation", &Quirks::padded_evaluation}, {"divided-batch-time", &Quirks::divided_batch_time},
};

} // namespace

Quirks parse_quirks(const std::string& text) {
    Quirks quirks;
    if (text.empty() || text == "none") return quirks;
    std::istringstream list(text);
    for (std::string word; std::getline(list, word, ',');) {
        bool known = false;
        for (const auto& [name, member] : quirk_names)
            if (word == name || word == "all") quirks.*member = known = true;
        if (!known)
            throw UsageError(fmt::format("--quirks '{}': there is no '{}'; choose from {}, all, none", text,
                                         word,
                                         listed(quirk_names, [](const auto& each) { return each.first; })));
    }
    return quirks;
}

} // namespace towers
