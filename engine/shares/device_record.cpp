#include "engine/shares/device_record.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace towers {
namespace {

Uuid parse_uuid(const std::string& text) {
    Uuid uuid{};
    if (text.size() != 2 * uuid.size()) throw InputError("no UUID");
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        const char* const digits = text.data() + 2 * i;
        const auto [rest, error] = std::from_chars(digits, digits + 2, uuid[i], 16);
        if (error != std::errc{} || rest != digits + 2) throw InputError("no UUID");
    }
    return uuid;
}

std::string_view backend_of(std::string_view id) { return id.substr(0, id.find(':')); }

/// `llvmpipe` of `llvmpipe (LLVM 15.0.6, 256 bits)`, but all of `AMD Radeon (TM) RX 480`
std::string_view model_of(std::string_view name) {
    return name.ends_with(')') ? name.substr(0, name.rfind(" (")) : name;
}

std::set<std::string> words_of(std::string_view name) {
    std::set<std::string> words;
    std::string word;
    for (const char each : std::string(name) + ' ')
        if (std::isalnum(static_cast<unsigned char>(each)) != 0)
            word += each;
        else if (!word.empty())
            words.insert(std::exchange(word, ""));
    return words;
}

/// Whether the names may be one card's: drivers come to add or leave out words such as the vendor's, or move
/// them into the brackets.
bool agree(std::string_view a, std::string_view b) {
    return std::ranges::includes(words_of(a), words_of(model_of(b))) ||
           std::ranges::includes(words_of(b), words_of(model_of(a)));
}

constexpr unsigned most_likeness = 9;

/// How much speaks for the device being the recorded one; 0: it is another.
unsigned likeness(const DeviceRecord& was, const DeviceInfo& is) {
    if (backend_of(was.id) != backend_of(is.id)) return 0;
    if (is.id == "cpu") return most_likeness; // whatever the processor
    const bool in_place = was.id == is.id;
    const bool have_uuids = was.uuid != Uuid{} && is.uuid != Uuid{};
    const bool is_itself = have_uuids ? was.uuid == is.uuid : in_place;
    if (!is.withheld.empty() && !is_itself) return 0;
    const std::string name = as_utf8(is.name);
    const unsigned kinds = name == was.name && is_itself          ? 4
                           : name == was.name                     ? 3
                           : is_itself && agree(name, was.name)   ? 2
                           : model_of(name) == model_of(was.name) ? 1
                                                                  : 0;
    return kinds > 0 ? 2 * kinds + unsigned(in_place) : 0;
}

} // namespace

DeviceRecord record_of(const DeviceInfo& info) { return {as_utf8(info.id), as_utf8(info.name), info.uuid}; }

std::vector<std::string> ids_of(std::span<const DeviceRecord> devices) {
    std::vector<std::string> ids;
    for (const DeviceRecord& device : devices) ids.push_back(device.id);
    return ids;
}

std::string to_string(const Uuid& uuid) {
    std::string text;
    for (const std::uint8_t byte : uuid) text += fmt::format("{:02x}", byte);
    return text;
}

void to_json(nlohmann::json& json, const DeviceRecord& record) {
    json = {{"device", record.id}, {"name", record.name}, {"uuid", to_string(record.uuid)}};
}

void from_json(const nlohmann::json& json, DeviceRecord& record) {
    json.at("device").get_to(record.id);
    json.at("name").get_to(record.name);
    record.uuid = json.contains("uuid") ? parse_uuid(json.at("uuid").get<std::string>()) : Uuid{};
}

std::vector<std::string> find_again(std::span<const DeviceRecord> before,
                                    std::span<const DeviceInfo> devices) {
    std::map<std::string, std::string> now; // by the id before
    std::set<std::string> taken;
    for (unsigned sought = most_likeness; sought > 0; --sought)
        for (const DeviceRecord& was : before)
            for (const DeviceInfo& is : devices)
                if (likeness(was, is) == sought && !now.contains(was.id) && !taken.contains(is.id)) {
                    now[was.id] = is.id;
                    taken.insert(is.id);
                }
    std::vector<std::string> ids;
    for (const DeviceRecord& was : before) ids.push_back(now[was.id]);
    return ids;
}

} // namespace towers
