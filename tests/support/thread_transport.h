// A transport between threads of one process, whose messages take their time.
#pragma once

#include "engine/ranks/transport.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace towers::test {

/// What connects the ranks.
class Wires;

/// The transports of so many ranks. As with a real one, nothing moves but within calls, a send ends when the
/// message has been taken, and transfers end late: after a number of tests that is drawn anew in each run.
std::vector<std::unique_ptr<Transport>> connected_transports(unsigned ranks);

/// The same with wires that can be cut.
std::shared_ptr<Wires> make_wires(unsigned ranks);
std::unique_ptr<Transport> connect(const std::shared_ptr<Wires>& wires, unsigned rank);
/// Bytes of all messages that one rank has begun to send to the other so far.
std::size_t sent_bytes(Wires& wires, unsigned from, unsigned to);
/// From now on nothing comes from the rank, and nothing reaches it.
void cut(Wires& wires, unsigned rank);

} // namespace towers::test
