// Carries bytes between the processes of a run, its ranks, such as an MPI does.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace towers {

/// A transport that cannot carry any more, as when a link or a peer is gone.
struct TransportError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Messages between two ranks that have the same tag arrive in the order in which they were sent. Nothing
/// moves but within calls, so whoever waits calls test() again and again. One thread at a time may call it.
/// Calls throw TransportError.
class Transport {
public:
    /// A send or receive that has been begun; null: none.
    using Transfer = void*;

    Transport() = default;
    Transport(const Transport&) = delete; // transfers may hold its address
    Transport& operator=(const Transport&) = delete;
    virtual ~Transport() = default;

    virtual unsigned rank() const = 0;
    virtual unsigned size() const = 0;
    /// The name and version of the library, such as `Open MPI 4.1.4`.
    virtual std::string name() const = 0;

    /// `bytes` must stay until the transfer has ended. `tag`: 0 to 32767.
    virtual Transfer send(unsigned to, int tag, std::span<const std::byte> bytes) = 0;
    /// Likewise. A message may be shorter than `into`, but not longer.
    virtual Transfer receive(unsigned from, int tag, std::span<std::byte> into) = 0;
    /// Whether a transfer has ended, which makes it null. `received`: the bytes of the message, if it was a
    /// receive; may be null.
    virtual bool test(Transfer& transfer, std::size_t* received = nullptr) = 0;

    /// Whether the others can go on when one is gone; the same on all ranks.
    virtual bool can_shrink() const { return false; }
    /// Leaves behind the ranks that are gone. All others call it, also those to which nothing has happened:
    /// their transfers fail. Ends all transfers, so that their memory may be freed, and begins anew with the
    /// ranks that are left: rank() and size() are those among them. Returns which they were, in ascending
    /// order. `late`: called on another thread if that takes too long; it should end the program, because the
    /// call cannot be stopped.
    virtual std::vector<unsigned> shrink(const std::function<void()>& late) {
        (void)late;
        throw TransportError(name() + " cannot go on without a rank");
    }
};

} // namespace towers
