#include "backends/vulkan/pieces.h"

namespace towers::vulkan {

std::vector<std::size_t> ends_of_work(std::span<const VulkanCommand> commands) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < commands.size(); ++i)
        if (std::holds_alternative<DispatchCommand>(commands[i]) ||
            std::holds_alternative<CopyCommand>(commands[i]))
            ends.push_back(i + 1);
    if (ends.empty()) return {commands.size()};
    ends.back() = commands.size();
    return ends;
}

std::vector<std::size_t> cut_by_time(std::span<const VulkanCommand> commands,
                                     std::span<const double> seconds) {
    constexpr double most = 0.25; // far below the limits, since a hot card may be several times slower
    const std::vector<std::size_t> ends = ends_of_work(commands);
    std::vector<std::size_t> cuts;
    double sum = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        if (i > 0 && sum + seconds[i] > most) {
            cuts.push_back(ends[i - 1]);
            sum = 0;
        }
        sum += seconds[i];
    }
    cuts.push_back(commands.size());
    return cuts;
}

} // namespace towers::vulkan
