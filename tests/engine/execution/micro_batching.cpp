#include "engine/execution/micro_batching.h"

#include "backends/error.h"

#include <doctest/doctest.h>
#include <string>

namespace towers {
namespace {

constexpr std::size_t mib = 1 << 20;

/// 10 MiB of state, 4 MiB of staging memory, and a MiB of activations for each example at once.
ArenaBytes needed(unsigned most) {
    ArenaBytes bytes{};
    bytes[std::size_t(Arena::state)] = 10 * mib;
    bytes[std::size_t(Arena::staged_gradients)] = 4 * mib;
    bytes[std::size_t(Arena::activations)] = most * mib;
    return bytes;
}

MemoryBudget card_with(std::uint64_t free_mib) {
    return {.kind = DeviceKind::discrete_gpu, .free = free_mib * mib};
}

AtOnce chosen(unsigned share, const MemoryBudget& memory, const Splitting& splitting = {}) {
    return MicroBatching(splitting).choose({share}, memory, needed);
}

} // namespace

TEST_CASE("a share is computed at once when its memory leaves a tenth of what is free") {
    CHECK(chosen(80, card_with(100)).micro_batches == 1);
    CHECK(chosen(80, card_with(100)).most == 80);
    CHECK(chosen(80, card_with(100)).reason.empty());
    const AtOnce split = chosen(81, card_with(100));
    CHECK(to_string(split) == "2 micro-batches of up to 41 examples, because all at once need 91.0 MiB of "
                              "memory and 90.0 MiB can be had");
    CHECK(chosen(81, MemoryBudget{}).micro_batches == 1); // the device does not tell
    CHECK(to_string(chosen(81, MemoryBudget{})).empty());
}

TEST_CASE("what a tower holds already is room for its next share") {
    MemoryBudget memory = card_with(50); // of which 45 may be taken
    CHECK(chosen(70, memory).micro_batches == 2);
    memory.held = needed(25);
    CHECK(chosen(70, memory).micro_batches == 1);
    CHECK(chosen(71, memory).micro_batches == 2);
    memory.held = {};
    memory.held[std::size_t(Arena::records)] = 35 * mib; // stays, whatever the step does
    CHECK(chosen(35, memory).micro_batches == 1);
    CHECK(chosen(36, memory).micro_batches == 2);
}

TEST_CASE("scratch memory counts like other memory, and comes in one piece") {
    const auto choose = [](const MemoryBudget& memory) {
        return MicroBatching({}).choose({80}, memory, [](unsigned most) {
            ArenaBytes bytes = needed(most);
            bytes[std::size_t(Arena::scratch)] = 2 * most * mib;
            return bytes;
        });
    };
    CHECK(choose(card_with(278)).micro_batches == 1); // 250 MiB
    CHECK(choose(card_with(277)).micro_batches == 2);
    MemoryBudget memory = card_with(1000);
    memory.largest_allocation = 159 * mib;
    CHECK(to_string(choose(memory)) == "2 micro-batches of up to 40 examples, because all at once need 160.0 "
                                       "MiB in one piece and 159.0 MiB can be had");
    memory = card_with(100);
    memory.held[std::size_t(Arena::scratch)] = 160 * mib;
    CHECK(choose(memory).micro_batches == 1);
}

TEST_CASE("what saves scratch memory is told, with or without micro-batches") {
    MicroBatching micro_batching({});
    micro_batching.save_scratch("no memory for 7 bytes");
    CHECK(to_string(micro_batching.choose({80}, {}, needed)) ==
          "1 micro-batch of up to 80 examples, with --exact-products, because more memory was refused: no "
          "memory for 7 bytes");
    CHECK(
        to_string(micro_batching.choose({80}, card_with(50), needed)) ==
        "3 micro-batches of up to 27 examples, because all at once need 90.0 MiB of memory and 45.0 MiB can "
        "be had, with --exact-products, because more memory was refused: no memory for 7 bytes");
}

TEST_CASE("staging memory is the device's own where the device is the host") {
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::integrated_gpu, DeviceKind::software}) {
        const MemoryBudget memory{.kind = kind, .free = 100 * mib};
        CHECK(chosen(76, memory).micro_batches == 1);
        CHECK(chosen(77, memory).micro_batches == 2);
        CHECK(counted_bytes(needed(1), kind) == 15 * mib);
    }
    for (const DeviceKind kind : {DeviceKind::discrete_gpu, DeviceKind::virtual_gpu})
        CHECK(counted_bytes(needed(1), kind) == 11 * mib);
}

TEST_CASE("no arena of activations is larger than an allocation may be") {
    MemoryBudget memory = card_with(1000);
    memory.largest_allocation = 30 * mib;
    CHECK(chosen(30, memory).micro_batches == 1);
    CHECK(
        to_string(chosen(100, memory)) ==
        "4 micro-batches of up to 25 examples, because all at once need 100.0 MiB in one piece and 30.0 MiB "
        "can be had");
}

TEST_CASE("a share with more examples than kernels can count is split") {
    const AtOnce split = MicroBatching({}).choose({100}, {}, [](unsigned most) {
        if (most > 50) throw UsageError("too large");
        return needed(most);
    });
    CHECK(to_string(split) ==
          "2 micro-batches of up to 50 examples, because all at once are too large for a kernel");
}

TEST_CASE("micro-batches that the user asks for need no reason and no look at memory") {
    const Splitting asked{.group = 4, .most = 10, .obstacle = ""};
    const AtOnce split = MicroBatching(asked).choose({24}, card_with(0), [](unsigned) -> ArenaBytes {
        FAIL("asked for what a step needs");
        return {};
    });
    CHECK(to_string(split) == "3 micro-batches of up to 8 examples");
}

TEST_CASE("a model that needs its whole batch at once is never split") {
    MicroBatching whole({.group = 1, .most = 0, .obstacle = "its batch norm takes the whole global batch"});
    const AtOnce at_once = whole.choose({100}, card_with(10), needed);
    CHECK(at_once.micro_batches == 1);
    CHECK(at_once.most == 100);
    CHECK_FALSE(whole.halve(at_once, "no memory"));
    CHECK(whole.choose({100}, card_with(10), needed).micro_batches == 1);
}

TEST_CASE("each refusal halves what is computed at once, down to a group, for all shares") {
    MicroBatching micro_batching({.group = 8, .most = 0, .obstacle = ""});
    const auto choose = [&](unsigned share) { return micro_batching.choose({share}, {}, needed); };
    CHECK(choose(40).micro_batches == 1);
    REQUIRE(micro_batching.halve(choose(40), "no memory for 7 bytes"));
    CHECK(to_string(choose(40)) ==
          "3 micro-batches of up to 16 examples, because more were refused: no memory for 7 bytes");
    CHECK(choose(16).micro_batches == 1);
    CHECK(choose(24).micro_batches == 2);
    REQUIRE(micro_batching.halve(choose(40), "nor for 5"));
    CHECK(to_string(choose(16)) ==
          "2 micro-batches of up to 8 examples, because more were refused: nor for 5");
    CHECK_FALSE(micro_batching.halve(choose(40), "nor for 3"));

    // Memory that is known to be short has its own reason, and what was refused holds beside what is asked
    // for.
    CHECK(choose(16).micro_batches == micro_batching.choose({16}, card_with(1), needed).micro_batches);
    MicroBatching asked({.group = 1, .most = 20, .obstacle = ""});
    REQUIRE(asked.halve(asked.choose({40}, {}, needed), "no"));
    CHECK(to_string(asked.choose({40}, {}, needed)) ==
          "4 micro-batches of up to 10 examples, because more were refused: no");
}

TEST_CASE("micro-batches that are recorded are taken again as long as memory suffices") {
    const auto choose = [](unsigned recorded, const MemoryBudget& memory, const Splitting& splitting = {}) {
        return MicroBatching(splitting).choose({80, recorded}, memory, needed);
    };
    // 80 at once need 90 MiB, 40 need 50, 27 need 37.
    for (const std::uint64_t free : {95, 100, 10'000}) {
        CHECK(choose(1, card_with(free)).micro_batches == 1);
        CHECK(choose(2, card_with(free)).micro_batches == 2);
        CHECK(to_string(choose(3, card_with(free))) == "3 micro-batches of up to 27 examples");
    }
    CHECK(choose(0, card_with(95)).micro_batches == 2); // to leave a tenth
    CHECK(choose(2, card_with(53)).micro_batches == 2);
    CHECK(choose(2, MemoryBudget{}).micro_batches == 2); // the device does not tell
    CHECK_FALSE(choose(2, card_with(53)).deviates());

    // They leave a twentieth, or the size of the state and 32 MiB if that is less.
    CHECK(choose(1, card_with(94)).deviates());
    CHECK(choose(2, card_with(52)).deviates());
    const auto many = [](std::uint64_t free_mib) {
        return MicroBatching({}).choose({2000, 1}, card_with(free_mib), needed); // 2010 MiB
    };
    CHECK(many(2010 + 42).micro_batches == 1);
    CHECK(many(2010 + 41).deviates());

    CHECK(
        to_string(choose(2, card_with(49))) ==
        "3 micro-batches of up to 27 examples, because all at once need 90.0 MiB of memory and 44.1 MiB can "
        "be had; 2 were recorded, so the last bits of the results change");
    CHECK(to_string(choose(1, card_with(89)))
              .ends_with("; 1 was recorded, so the last bits of the results change"));
    CHECK(choose(1, card_with(89)).deviates());

    // --micro-batch says the most, not the least.
    CHECK(choose(2, card_with(1000), {.group = 1, .most = 20, .obstacle = ""}).micro_batches == 4);
    CHECK(choose(4, card_with(1000), {.group = 1, .most = 40, .obstacle = ""}).micro_batches == 4);
    CHECK(choose(2, card_with(1), {.group = 1, .most = 40, .obstacle = ""}).micro_batches == 2); // as asked
    CHECK(choose(2, card_with(1000), {.group = 8, .most = 0, .obstacle = ""}).most == 40);
    CHECK(choose(7, card_with(1000), {.group = 1, .most = 0, .obstacle = "its batch norm"}).micro_batches ==
          1);

    MicroBatching refused({});
    REQUIRE(refused.halve(refused.choose({80, 2}, card_with(1000), needed), "no memory for 7 bytes"));
    CHECK(to_string(refused.choose({80, 2}, card_with(1000), needed)) ==
          "4 micro-batches of up to 20 examples, because more were refused: no memory for 7 bytes; 2 were "
          "recorded, so the last bits of the results change");
    CHECK(refused.choose({80, 5}, card_with(1000), needed).micro_batches == 5);
}

TEST_CASE("any number of micro-batches that a share was divided into divides it again in the same way") {
    for (const unsigned group : {1u, 4u})
        for (unsigned share = group; share <= 40 * group; share += group)
            for (unsigned most = group; most <= share; most += group) {
                const Splitting splitting{.group = group, .most = most, .obstacle = ""};
                const AtOnce first = MicroBatching(splitting).choose({share}, {}, needed);
                const AtOnce again = MicroBatching({.group = group, .most = 0, .obstacle = ""})
                                         .choose({share, first.micro_batches}, {}, needed);
                CHECK(again.micro_batches == first.micro_batches);
                CHECK(again.most == first.most);
            }
}

} // namespace towers
