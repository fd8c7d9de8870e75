#include "tests/emulated_cuda/cards.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <sstream>
#include <string_view>

namespace emulated {
namespace {

int installed_cards() {
    static const int count = [] {
        const char* const text = std::getenv("TOWERS_EMULATED_CUDA_DEVICES");
        return text != nullptr ? std::atoi(text) : 2;
    }();
    return count;
}

/// `GPU-746f7765-7273-2065-6d75-6c6174656400`
std::string text_of(const std::string& uuid) {
    std::string text = "GPU";
    for (std::size_t i = 0; i < uuid.size(); ++i)
        text += fmt::format("{}{:02x}", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "",
                            static_cast<unsigned char>(uuid[i]));
    return text;
}

/// None if the entry means no card or several.
std::optional<int> card_named(const std::string& entry, bool by_uuid) {
    std::vector<int> found;
    int number = -1;
    std::from_chars(entry.data(), entry.data() + entry.size(), number);
    for (int card = 0; card < installed_cards(); ++card)
        if (by_uuid ? entry.starts_with("GPU-") && text_of(uuid_of_card(card)).starts_with(entry)
                    : card == number)
            found.push_back(card);
    return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

} // namespace

const std::vector<int>& visible_cards() {
    static const std::vector<int> cards = [] {
        std::vector<int> shown;
        const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
        for (int card = 0; card < installed_cards() && variable == nullptr; ++card) shown.push_back(card);
        std::istringstream entries(variable != nullptr ? variable : "");
        const bool by_uuid = entries.str().starts_with("GPU-");
        for (std::string entry; std::getline(entries, entry, ',');) {
            const std::optional<int> card = card_named(entry, by_uuid);
            if (!card) break;
            if (std::ranges::find(shown, *card) != shown.end()) return std::vector<int>();
            shown.push_back(*card);
        }
        return shown;
    }();
    return cards;
}

bool has_driver() { return installed_cards() >= 0; }

std::string name_of_card(int card) { return fmt::format("Emulated card {}", card); }

std::string uuid_of_card(int card) { return std::string("towers emulated") + char(card); }

} // namespace emulated
