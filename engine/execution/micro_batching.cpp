#include "engine/execution/micro_batching.h"

#include "backends/arithmetic.h"
#include "backends/error.h"
#include "engine/plan/micro_batches.h"
#include "engine/plural.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace towers {
namespace {

/// How much of the free memory a step leaves.
enum class Leaves {
    enough, ///< a tenth, for recordings and other programs
    little, ///< to compute as recorded: what the program itself needs, such as a copy of the state to save it
};

/// The bytes available for a step with this need, including what the tower holds.
std::uint64_t room_for(const ArenaBytes& needed, const MemoryBudget& memory, Leaves leaves) {
    if (memory.free == Device::not_told) return memory.free;
    std::uint64_t left = memory.free / 10;
    if (leaves == Leaves::little)
        left = std::min<std::uint64_t>(left / 2, needed[std::size_t(Arena::state)] + (32 << 20));
    return memory.free - left + counted_bytes(memory.held, memory.kind);
}

/// Why a step with this need does not fit, for the user; empty if it fits.
std::string obstacle_to(const ArenaBytes& needed, const MemoryBudget& memory, Leaves leaves) {
    const auto too_much = [](std::uint64_t bytes, const char* what, std::uint64_t there) {
        constexpr double mib = 1 << 20;
        return fmt::format("all at once need {:.1f} MiB {} and {:.1f} MiB can be had", double(bytes) / mib,
                           what, double(there) / mib);
    };
    ArenaBytes with_held;
    std::ranges::transform(needed, memory.held, with_held.begin(), std::ranges::max);
    const std::uint64_t all = counted_bytes(with_held, memory.kind), room = room_for(needed, memory, leaves);
    if (all > room) return too_much(all, "of memory", room);
    std::uint64_t largest = 0; // arena that grows with the share
    for (std::size_t i = 0; i < arena_count; ++i)
        if (is_transient(Arena(i))) largest = std::max<std::uint64_t>(largest, needed[i]);
    if (largest > memory.largest_allocation)
        return too_much(largest, "in one piece", memory.largest_allocation);
    return "";
}

} // namespace

std::string to_string(const AtOnce& at_once) {
    if (at_once.micro_batches == 1 && at_once.saves.empty()) return "";
    std::string text = fmt::format("{} micro-batch{} of up to {}", at_once.micro_batches,
                                   at_once.micro_batches == 1 ? "" : "es", count_of(at_once.most, "example"));
    if (!at_once.reason.empty()) text += ", because " + at_once.reason;
    if (!at_once.saves.empty())
        text += ", with --exact-products, because more memory was refused: " + at_once.saves;
    if (at_once.deviates())
        text += fmt::format("; {} recorded, so the last bits of the results change",
                            at_once.recorded == 1 ? "1 was" : fmt::format("{} were", at_once.recorded));
    return text;
}

std::uint64_t counted_bytes(const ArenaBytes& bytes, DeviceKind kind) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < arena_count; ++i)
        if (uses_host_memory(kind) || !is_staging(Arena(i))) sum += bytes[i];
    return sum;
}

AtOnce MicroBatching::choose(const Share& share, const MemoryBudget& memory,
                             const std::function<ArenaBytes(unsigned most)>& needed) const {
    const unsigned examples = share.examples, recorded = share.micro_batches;
    const auto in_pieces = [&](unsigned most, std::string reason) -> AtOnce {
        const std::vector<unsigned> sizes = micro_batches(examples, splitting_.group, most);
        return {unsigned(sizes.size()), sizes[0], std::move(reason), recorded, saves_};
    };
    const AtOnce whole{1, examples, "", recorded, saves_};
    if (!splitting_.obstacle.empty()) return whole;
    if (splitting_.most != 0 && splitting_.most <= most_)
        if (AtOnce asked = in_pieces(splitting_.most, ""); asked.micro_batches >= recorded) return asked;
    const auto obstacle = [&](unsigned most, Leaves leaves = Leaves::enough) -> std::string {
        try {
            return obstacle_to(needed(most), memory, leaves);
        } catch (const UsageError&) { // too many examples for the kernels to count
            return "all at once are too large for a kernel";
        }
    };
    if (recorded != 0) {
        const auto most = unsigned(ceil_div(examples / splitting_.group, recorded)) * splitting_.group;
        if (most <= most_ && obstacle(most, Leaves::little).empty()) return in_pieces(most, "");
    }
    const unsigned fits =
        largest_that_fits(examples, splitting_.group, [&](unsigned most) { return obstacle(most).empty(); });
    if (std::min(fits, most_) >= examples) return whole;
    if (most_ <= fits) return in_pieces(most_, refusal_);
    return in_pieces(fits, obstacle(examples));
}

bool MicroBatching::halve(const AtOnce& refused, const std::string& why) {
    const unsigned groups = refused.most / splitting_.group;
    if (groups < 2 || !splitting_.obstacle.empty()) return false;
    most_ = groups / 2 * splitting_.group;
    refusal_ = "more were refused: " + why;
    return true;
}

} // namespace towers
