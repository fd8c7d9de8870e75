#include "engine/train/circumstances.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace towers {

std::optional<SharesFrom> Circumstances::shares() const {
    SharesFrom found{0, {}};
    for (const TowerRecord& tower : towers) {
        found.shares.push_back(tower.share.examples);
        found.micro_batches.push_back(tower.share.micro_batches);
    }
    const bool known = std::ranges::any_of(found.shares, [](unsigned share) { return share > 0; });
    return known ? std::optional(std::move(found)) : std::nullopt;
}

std::vector<DeviceRecord> Circumstances::devices() const {
    std::vector<DeviceRecord> devices;
    for (const TowerRecord& tower : towers) devices.push_back(tower.device);
    return devices;
}

Circumstances circumstances_of(const Trainer& trainer) {
    Circumstances now{{}, cpu_threads(trainer.options().open.threads)};
    const SharesFrom taken = trainer.taken();
    for (std::size_t i = 0; i < trainer.tower_count(); ++i) {
        const DeviceInfo info = trainer.facts(i).info;
        now.towers.push_back({record_of(info), as_utf8(info.driver), {}});
        if (!taken.shares.empty()) now.towers.back().share = {taken.shares[i], taken.micro_batches[i]};
    }
    return now;
}

void put(const Circumstances& circumstances, TensorFile& file) {
    nlohmann::json towers = nlohmann::json::array();
    for (const TowerRecord& tower : circumstances.towers) {
        nlohmann::json& record = towers.emplace_back(tower.device);
        record["driver"] = tower.driver;
        record["share"] = tower.share.examples;
        record["micro_batches"] = tower.share.micro_batches;
    }
    file.metadata["towers"] = towers.dump();
    file.metadata["threads"] = std::to_string(circumstances.threads);
}

std::optional<Circumstances> circumstances_in(const TensorFile& file, const std::filesystem::path& path) {
    const auto towers = file.metadata.find("towers"), threads = file.metadata.find("threads");
    if (towers == file.metadata.end() || threads == file.metadata.end()) return std::nullopt;
    const auto number = [](const nlohmann::json& value, unsigned most) {
        if (!value.is_number_unsigned() || value > most) throw InputError("");
        return value.get<unsigned>();
    };
    try {
        Circumstances found{{}, number(nlohmann::json::parse(threads->second), most_cpu_threads)};
        for (const nlohmann::json& tower : nlohmann::json::parse(towers->second))
            found.towers.push_back({tower.get<DeviceRecord>(),
                                    tower.at("driver"),
                                    {number(tower.at("share"), largest_global_batch),
                                     number(tower.at("micro_batches"), largest_global_batch)}});
        return found;
    } catch (const nlohmann::json::exception&) { // refused below
    } catch (const InputError&) {
    }
    throw InputError(fmt::format(
        "{}: 'towers' or 'threads' in its metadata is damaged; use another checkpoint", path.string()));
}

std::vector<std::string> changes_of_devices(const Circumstances& before, const Circumstances& now) {
    std::vector<std::string> changes;
    for (std::size_t i = 0; i < std::min(before.towers.size(), now.towers.size()); ++i) {
        const auto& [was, driver_before, share_before] = before.towers[i];
        const auto& [is, driver, share] = now.towers[i];
        const bool is_itself = was.uuid == is.uuid || was.uuid == Uuid{} || is.uuid == Uuid{};
        if (was.name != is.name || driver_before != driver)
            changes.push_back(
                fmt::format("{} from {} ({}) to {} ({}); the last bits of the results may change", is.id,
                            was.name, driver_before, is.name, driver));
        else if (!is_itself)
            changes.push_back(fmt::format("{} from one {} to another", is.id, is.name));
    }
    return changes;
}

} // namespace towers
