// Sends messages both ways around the ring of all ranks, under a launcher of an MPI, and checks what arrives.
// Usage: mpi_ring [openmpi|mpich]   with this MPI, whatever the launcher's is
//        mpi_ring misuse            the last rank tries what must be refused, and leaves the others waiting
//        mpi_ring plugins           which MPIs can be opened here
#include "backends/error.h"
#include "engine/ranks/mpi_transport.h"

#include <cstdio>
#include <fmt/format.h>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using towers::Transport;

void expect(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

std::size_t wait(Transport& transport, Transport::Transfer transfer) {
    std::size_t received = 0;
    while (!transport.test(transfer, &received)) std::this_thread::yield();
    expect(transfer == nullptr, "a transfer that has ended is not null");
    return received;
}

/// The messages of one tag, each with its size, in order.
constexpr std::size_t sizes[] = {0, 1, 70'000, 40'000'000, 3, 0, 70'001};
constexpr std::size_t largest = 40'000'000;

/// What a rank sends with a tag as message number `index`.
std::vector<std::byte> message(unsigned from, int tag, std::size_t index) {
    std::vector<std::byte> bytes(sizes[index]);
    std::uint32_t state = from * 1000 + unsigned(tag) * 100 + unsigned(index) + 1;
    for (std::byte& each : bytes) {
        state = state * 1664525 + 1013904223;
        each = std::byte(state >> 24);
    }
    return bytes;
}

void send_around(Transport& transport) {
    const unsigned rank = transport.rank(), size = transport.size();
    const unsigned next = (rank + 1) % size, previous = (rank + size - 1) % size;
    const int onward = 0, back = 32767; // tags: the least and the greatest
    std::vector<std::vector<std::byte>> sent, into;
    std::vector<Transport::Transfer> sends, receives;
    for (std::size_t index = 0; index < std::size(sizes); ++index)
        for (const int tag : {onward, back}) {
            into.emplace_back(largest + 1);
            receives.push_back(transport.receive(tag == onward ? previous : next, tag, into.back()));
        }
    // Of two tags, the messages of one are sent first; each tag has its order.
    for (const int tag : {back, onward})
        for (std::size_t index = 0; index < std::size(sizes); ++index) {
            sent.push_back(message(rank, tag, index));
            sends.push_back(transport.send(tag == onward ? next : previous, tag, sent.back()));
        }
    for (std::size_t each = 0; each < receives.size(); ++each) {
        const std::size_t index = each / 2;
        const int tag = each % 2 == 0 ? onward : back;
        const std::size_t received = wait(transport, receives[each]);
        expect(received == sizes[index], fmt::format("message {} of tag {} has {} bytes instead of {}", index,
                                                     tag, received, sizes[index]));
        into[each].resize(received);
        expect(into[each] == message(tag == onward ? previous : next, tag, index),
               fmt::format("message {} of tag {} is another", index, tag));
    }
    for (const Transport::Transfer each : sends) wait(transport, each);
}

template<typename Call>
void expect_error(const std::string& part, const Call& call) {
    try {
        call();
    } catch (const towers::TransportError& error) {
        const std::string text = error.what();
        expect(text.find(part) != std::string::npos, "an error says: " + text);
        return;
    }
    throw std::runtime_error("no error says " + part);
}

/// The last rank tries what a transport refuses, and fails; then the launcher ends the others, which wait.
void misuse(Transport& transport) {
    const unsigned last = transport.size() - 1;
    std::vector<std::byte> bytes(10);
    if (transport.rank() < last) {
        wait(transport, transport.send(last, 1, bytes));
        wait(transport, transport.receive(last, 2, bytes));
    }
    expect_error("rank", [&] { transport.send(transport.size(), 0, bytes); });
    expect_error("2147483648 bytes",
                 [&] { transport.send(0, 0, std::span(bytes.data(), std::size_t(1) << 31)); });
    const Transport::Transfer receive = transport.receive(0, 1, std::span(bytes).first(5));
    expect_error("truncated", [&] { wait(transport, receive); });
    fmt::print("all is refused\n");
}

int run(std::string_view what) {
    if (what == "absent") {
        for (const towers::MpiKind mpi : {towers::MpiKind::open_mpi, towers::MpiKind::mpich})
            fmt::print("absent: {}\n", towers::absence_of(mpi));
        return 0;
    }
    std::optional<towers::Launched> launched = towers::launched();
    expect(launched.has_value(), "no launcher has started this");
    if (what == "openmpi" || what == "mpich")
        launched->mpi = what == "mpich" ? towers::MpiKind::mpich : towers::MpiKind::open_mpi;
    const std::unique_ptr<Transport> transport =
        towers::open_mpi_transport(*launched, [](const std::string&) { std::_Exit(1); });
    expect(transport->rank() == launched->rank && transport->size() == launched->ranks, "another rank");
    if (what == "misuse") {
        misuse(*transport);
        return 1;
    }
    send_around(*transport);
    fmt::print("rank {} of {} started by {} with {}: all has arrived\n", transport->rank(), transport->size(),
               launched->launcher, transport->name());
    return 0;
}

} // namespace

int main(int count, char** words) {
    try {
        return run(count > 1 ? words[1] : "");
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}
