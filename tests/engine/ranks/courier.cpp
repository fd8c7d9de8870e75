#include "engine/ranks/courier.h"
#include "backends/milestones.h"
#include "tests/support/thread_transport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace towers {
namespace {

using Clock = std::chrono::steady_clock;
using Couriers = std::vector<std::unique_ptr<Courier>>;
using std::chrono::milliseconds;

Couriers couriers_of(unsigned ranks, const CourierOptions& options = {}) {
    Couriers couriers;
    for (std::unique_ptr<Transport>& transport : test::connected_transports(ranks))
        couriers.push_back(std::make_unique<Courier>(std::move(transport), options));
    return couriers;
}

void close(Couriers& couriers) {
    for (const auto& courier : couriers) courier->close();
    couriers.clear();
}

/// Each differs from the others at its ends.
Bytes message(std::size_t bytes, unsigned mark) {
    Bytes message(bytes, std::byte(mark));
    for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 8); ++i)
        message[i] = message[bytes - 1 - i] = std::byte(7 * mark + i);
    return message;
}

Bytes of(unsigned value) { return message(4, value); }

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

} // namespace

TEST_CASE("messages of all sizes arrive whole and in order, from and to all ranks at the same time") {
    const std::vector<std::size_t> sizes{0,       1, 16,      (16 << 10) - 1, 16 << 10, (16 << 10) + 1,
                                         1 << 20, 0, 8 << 20, (8 << 20) + 1,  40 << 20, 3};
    Couriers couriers = couriers_of(3);
    std::vector<std::thread> threads;
    std::atomic<unsigned> right = 0;
    for (unsigned rank = 0; rank < 3; ++rank)
        threads.emplace_back([&, rank] {
            Courier& own = *couriers[rank];
            for (std::size_t i = 0; i < sizes.size(); ++i)
                for (unsigned to = 0; to < 3; ++to)
                    if (to != rank)
                        own.send(to, i % 2 == 0 ? Topic::command : Topic::state,
                                 message(sizes[i], unsigned(i) + 20 * rank));
            for (const unsigned odd : {1, 0}) // topics do not wait for each other
                for (std::size_t i = odd; i < sizes.size(); i += 2)
                    for (unsigned from = 0; from < 3; ++from)
                        if (from != rank)
                            right += own.receive(from, odd == 0 ? Topic::command : Topic::state) ==
                                     message(sizes[i], unsigned(i) + 20 * from);
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(right == 3 * 2 * sizes.size());
    close(couriers);
}

TEST_CASE("a message of 200 MB arrives, and small ones of other ranks do not wait for it") {
    Couriers couriers = couriers_of(3);
    const Bytes large = message(200'000'000, 5);
    couriers[1]->send(0, Topic::state, large);
    couriers[2]->send(0, Topic::answer, of(1));
    CHECK(couriers[0]->receive(2, Topic::answer) == of(1));
    const bool same = couriers[0]->receive(1, Topic::state) == large;
    CHECK(same);
    CHECK(couriers[1]->sent_bytes() >= large.size());
    CHECK(couriers[1]->sent_bytes() < large.size() + 1000);
    couriers[1]->count_sent(2000);
    CHECK(couriers[1]->sent_bytes() >= large.size() + 2000);
    close(couriers);
}

TEST_CASE("everybody gets everybody's message") {
    Couriers couriers = couriers_of(4);
    std::vector<std::thread> threads;
    std::atomic<unsigned> right = 0;
    for (unsigned rank = 0; rank < 4; ++rank)
        threads.emplace_back([&, rank] {
            for (unsigned round = 0; round < 200; ++round) {
                const std::vector<Bytes> all = couriers[rank]->gather_all(Topic::vote, of(4 * round + rank));
                for (unsigned from = 0; from < 4; ++from) right += all[from] == of(4 * round + from);
            }
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(right == 200 * 4 * 4);
    close(couriers);
}

TEST_CASE("a handler gets the messages that came before it, then the others, until it is removed") {
    Couriers couriers = couriers_of(2);
    std::vector<Bytes> taken;
    Milestones count;
    couriers[1]->send(0, Topic::lists, of(0));
    couriers[1]->send(0, Topic::vote, of(9));
    CHECK(couriers[0]->receive(1, Topic::vote) == of(9)); // so the first has come, too
    couriers[0]->on(Topic::lists, [&](unsigned from, Bytes bytes) {
        CHECK(from == 1);
        taken.push_back(std::move(bytes));
        count.advance(taken.size());
    });
    for (unsigned i = 1; i < 100; ++i) couriers[1]->send(0, Topic::lists, of(i));
    count.wait_for(100);
    for (unsigned i = 0; i < 100; ++i) CHECK(taken[i] == of(i));
    couriers[0]->on(Topic::lists, nullptr);
    couriers[1]->send(0, Topic::lists, of(100));
    CHECK(couriers[0]->receive(1, Topic::lists) == of(100));
    CHECK(taken.size() == 100);
    close(couriers);
}

TEST_CASE("carried work is done until it is removed") {
    struct Pings final : Carried {
        State advance(Transport& transport) override {
            ++calls;
            if (has_come) return State::idle;
            if (!std::exchange(has_begun, true)) {
                const unsigned peer = 1 - transport.rank();
                goes = transport.send(peer, Courier::first_free_tag, out);
                comes = transport.receive(peer, Courier::first_free_tag, in);
                return State::moved;
            }
            if (goes != nullptr) transport.test(goes);
            if (comes != nullptr) transport.test(comes);
            if (goes != nullptr || comes != nullptr) return State::waiting;
            has_come = true;
            done.advance(1);
            return State::moved;
        }
        void stop() override { FAIL_CHECK("nobody is gone"); }
        Bytes out = of(3), in = Bytes(4);
        Transport::Transfer goes = nullptr, comes = nullptr;
        bool has_begun = false, has_come = false;
        std::atomic<unsigned> calls = 0;
        Milestones done;
    };
    Couriers couriers = couriers_of(2);
    Pings pings[2];
    for (unsigned rank = 0; rank < 2; ++rank) couriers[rank]->add(pings[rank]);
    for (Pings& each : pings) each.done.wait_for(1);
    for (unsigned rank = 0; rank < 2; ++rank) couriers[rank]->remove(pings[rank]);
    const unsigned calls = pings[0].calls;
    couriers[0]->wake();
    std::this_thread::sleep_for(milliseconds(5));
    CHECK(pings[0].calls == calls);
    for (const Pings& each : pings) CHECK(each.in == of(3));
    close(couriers);
}

TEST_CASE("a courier ends when all have said farewell, however late, and all messages have come") {
    CourierOptions options;
    std::atomic<bool> stop = false;
    options.stop = &stop;
    Couriers couriers = couriers_of(3, options);
    couriers[1]->send(0, Topic::answer, message(10 << 20, 1));
    std::vector<std::thread> threads;
    std::atomic<unsigned> ended = 0;
    for (const unsigned rank : {1, 2})
        threads.emplace_back([&, rank] {
            couriers[rank].reset();
            ++ended;
        });
    std::this_thread::sleep_for(milliseconds(300));
    stop = true;                                     // it is too late to tell rank 0
    std::this_thread::sleep_for(milliseconds(1000)); // several heartbeats later
    CHECK(ended == 0);
    CHECK(couriers[0]->receive(1, Topic::answer) == message(10 << 20, 1));
    couriers[0].reset();
    for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a rank that is told to stop tells rank 0, once") {
    std::atomic<bool> stop = false;
    CourierOptions options;
    options.stop = &stop;
    Couriers couriers;
    std::vector<std::unique_ptr<Transport>> transports = test::connected_transports(2);
    couriers.push_back(std::make_unique<Courier>(std::move(transports[0]), CourierOptions{}));
    couriers.push_back(std::make_unique<Courier>(std::move(transports[1]), options));
    stop = true;
    CHECK(couriers[0]->receive(1, Topic::stop).empty());
    std::atomic<unsigned> more = 0;
    couriers[0]->on(Topic::stop, [&](unsigned, const Bytes&) { ++more; });
    std::this_thread::sleep_for(milliseconds(250));
    CHECK(more == 0);
    couriers[0]->on(Topic::stop, nullptr);
    close(couriers);
}

namespace {

struct Stopped final : Carried {
    State advance(Transport&) override { return State::idle; }
    void stop() override { ++stops; }
    std::atomic<unsigned> stops = 0;
};

} // namespace

TEST_CASE("a peer is gone after the silence given, not before, and all who wait learn of it once") {
    constexpr double silence = 0.8;
    const std::shared_ptr<test::Wires> wires = test::make_wires(3);
    std::atomic<unsigned> told[3] = {};
    std::optional<unsigned> who[3];
    Couriers couriers;
    for (unsigned rank = 0; rank < 3; ++rank) {
        CourierOptions options;
        options.silence = std::chrono::duration<double>(silence);
        options.gone = [&, rank](const PeerGone& gone) {
            who[rank] = gone.rank;
            ++told[rank];
        };
        couriers.push_back(std::make_unique<Courier>(test::connect(wires, rank), options));
    }
    Stopped work, late;
    couriers[0]->add(work);
    std::this_thread::sleep_for(milliseconds(1000)); // in which nobody says anything
    CHECK(told[0] == 0);
    couriers[1]->send(0, Topic::answer, of(1));
    CHECK(couriers[0]->receive(1, Topic::answer) == of(1));
    const Clock::time_point begin = Clock::now();
    test::cut(*wires, 1);
    std::atomic<unsigned> woken = 0;
    std::vector<std::thread> waiting;
    for (const auto& [rank, from] :
         std::vector<std::pair<unsigned, unsigned>>{{0, 1}, {0, 2}, {2, 0}, {1, 0}})
        waiting.emplace_back([&, rank, from] {
            try {
                couriers[rank]->receive(from, Topic::answer);
            } catch (const PeerGone& gone) {
                woken += !gone.code;
            }
        });
    for (std::thread& thread : waiting) thread.join();
    CHECK(woken == 4);
    CHECK(seconds_since(begin) > silence - 0.6); // it was heard before the cut
    CHECK(seconds_since(begin) < silence + 3);
    couriers[0]->add(late);
    close(couriers);
    CHECK(work.stops == 1);
    CHECK(late.stops == 1);
    for (const auto& each : told) CHECK(each == 1);
    CHECK(who[0] == 1u);
    CHECK(who[2] == 1u);
}

TEST_CASE("whom a courier has not heard for a second is told when the launcher will kill this process") {
    const std::shared_ptr<test::Wires> wires = test::make_wires(3);
    std::atomic<bool> killed_soon = false;
    std::atomic<unsigned> told[3] = {}, whom = 0;
    Couriers couriers;
    for (unsigned rank = 0; rank < 3; ++rank) {
        CourierOptions options;
        options.silence = std::chrono::seconds(4); // which the test's end waits for
        options.killed_soon = &killed_soon;
        options.late = [&, rank](std::optional<unsigned> peer) {
            ++told[rank];
            if (rank == 0) whom = peer.value_or(9);
        };
        couriers.push_back(std::make_unique<Courier>(test::connect(wires, rank), options));
    }
    std::this_thread::sleep_for(milliseconds(1200));
    killed_soon = true;
    std::this_thread::sleep_for(milliseconds(250));
    for (const auto& each : told) CHECK(each == 0); // all are heard
    killed_soon = false;
    test::cut(*wires, 1);
    std::this_thread::sleep_for(milliseconds(1500));
    for (const auto& each : told) CHECK(each == 0);
    killed_soon = true;
    std::this_thread::sleep_for(milliseconds(500));
    for (const auto& each : told) CHECK(each == 1);
    CHECK(whom == 1);
    couriers[0]->tell_failure(1, "the test ends"); // rank 1 does not hear it
    for (auto& each : couriers) each->close();
}

TEST_CASE("a courier whose thread is held up says so, once, when the launcher will kill this process") {
    struct HeldUp final : Carried {
        State advance(Transport&) override {
            if (is_held) std::this_thread::sleep_for(milliseconds(1800));
            is_held = false;
            return State::idle;
        }
        void stop() override {}
        std::atomic<bool> is_held = true;
    };
    const std::shared_ptr<test::Wires> wires = test::make_wires(2);
    std::atomic<bool> killed_soon = false;
    std::atomic<unsigned> told = 0;
    Couriers couriers;
    for (unsigned rank = 0; rank < 2; ++rank) {
        CourierOptions options;
        if (rank == 0) {
            options.killed_soon = &killed_soon;
            options.late = [&](std::optional<unsigned> peer) { told += peer ? 10 : 1; };
        }
        couriers.push_back(std::make_unique<Courier>(test::connect(wires, rank), options));
    }
    HeldUp work;
    couriers[0]->add(work);
    std::this_thread::sleep_for(milliseconds(1200));
    CHECK(told == 0); // the run goes on
    killed_soon = true;
    std::this_thread::sleep_for(milliseconds(300));
    CHECK(told == 1);
    while (work.is_held) std::this_thread::sleep_for(milliseconds(10));
    std::this_thread::sleep_for(milliseconds(300));
    CHECK(told == 1);
    couriers[0]->remove(work);
    close(couriers);
}

TEST_CASE("a failure that a rank tells reaches the others with its code and its line") {
    CourierOptions options;
    options.silence = std::chrono::seconds(2); // then the one that has told it ends
    Couriers couriers = couriers_of(3, options);
    const Clock::time_point begin = Clock::now();
    couriers[2]->tell_failure(3, "no space left");
    CHECK(seconds_since(begin) < 1.5);
    for (const unsigned rank : {0, 1}) try {
            couriers[rank]->receive(2, Topic::vote);
            FAIL_CHECK("the failure was not told");
        } catch (const PeerGone& gone) {
            CHECK(gone.rank == 2);
            CHECK(gone.code == 3);
            CHECK(std::string(gone.what()) == "no space left");
        }
    CHECK(seconds_since(begin) < 1.5);
    close(couriers);
}

} // namespace towers
