#include "engine/train/metrics.h"

#include "engine/error.h"
#include "engine/files/file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace towers {

std::string metrics_line(const StepReport& report, std::uint64_t records) {
    nlohmann::json line{{"step", report.step},
                        {"epoch", report.examples / records},
                        {"examples", report.examples},
                        {"loss", report.loss},
                        {"cross_entropy", report.cross_entropy},
                        {"learning_rate", report.learning_rate},
                        {"tower_losses", report.tower_losses}}; // NaN becomes null
    if (report.shares.size() > 1) line["shares"] = report.shares;
    return line.dump();
}

std::vector<SharesFrom> read_shares(const std::filesystem::path& metrics) {
    std::vector<SharesFrom> found;
    std::istringstream lines(read_file(metrics));
    std::string text;
    for (int number = 1; std::getline(lines, text); ++number) {
        try {
            const nlohmann::json line = nlohmann::json::parse(text);
            if (!line.contains("shares")) continue;
            SharesFrom at{line.at("step").get<std::uint64_t>(),
                          line.at("shares").get<std::vector<unsigned>>()};
            if (found.empty() || found.back().shares != at.shares) found.push_back(std::move(at));
        } catch (const nlohmann::json::exception&) {
            throw InputError(
                fmt::format("{}:{}: is no line of a run's metrics.jsonl", metrics.string(), number));
        }
    }
    return found;
}

} // namespace towers
