// The communication thread of a rank. It alone calls the transport, in which nothing moves but within calls,
// so that whatever is to be carried moves while the other threads work.
#pragma once

#include "engine/ranks/transport.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace towers {

/// What a message is about. Messages about different things do not wait for each other.
enum class Topic : std::uint32_t {
    heartbeat,
    farewell, ///< its sender sends nothing any more
    failure,  ///< its sender ends; the exit code and a line for the user
    setup,    ///< before the first step
    stop,     ///< to rank 0: the user wants to end the run
    command,  ///< of rank 0
    answer,   ///< to rank 0
    lists,    ///< of an exchange
    vote,     ///< at the end of a step
    step_failed,
    state,
    bench, ///< of rank 0: what to measure next; to it: what came out
    count,
};

using Bytes = std::vector<std::byte>;

/// A peer is gone: it ended, does not answer any more, or has said that it fails.
struct PeerGone : std::runtime_error {
    unsigned rank;
    std::optional<int> code; ///< with which it ends, if it has said so; then what() is its line
    PeerGone(unsigned its, const std::string& what, std::optional<int> its_code = {})
        : std::runtime_error(what), rank(its), code(its_code) {}
};

/// Work that the communication thread does a little at a time.
class Carried {
public:
    Carried() = default;
    Carried(const Carried&) = delete; // the courier holds its address
    Carried& operator=(const Carried&) = delete;
    virtual ~Carried() = default;

    /// Idle: there is nothing to carry. Waiting: there is, while others have work to do. Urgent: they have
    /// none.
    enum class State { idle, waiting, urgent, moved };
    /// Begins and tests transfers, with tags of at least Courier::first_free_tag. Must not wait.
    virtual State advance(Transport& transport) = 0;
    /// A peer is gone: advance() is not called again.
    virtual void stop() = 0;
};

struct CourierOptions {
    /// After how long a silence a peer is gone; each says something several times within it.
    std::chrono::duration<double> silence = std::chrono::seconds(20);
    /// Called once, by the communication thread, when a peer is gone. It may end the program, or use the
    /// transport. Else receive() throws PeerGone from then on.
    std::function<void(const PeerGone&)> gone;
    /// Whether the user or the launcher wants to end the run, of which rank 0 is told; may be null. From then
    /// on a much shorter silence means that a peer is gone, since the launcher will soon kill this process.
    const std::atomic<bool>* stop = nullptr;
    /// Whether the launcher kills this process within a second or so; may be null.
    const std::atomic<bool>* killed_soon = nullptr;
    /// Called at most once, by any thread, when that is so and a peer has not been heard for nearly a second,
    /// or, with none, when the communication thread has not come back from its work as long: a call of Open
    /// MPI takes some seconds when the connection to a peer breaks. May be null.
    std::function<void(std::optional<unsigned> peer)> late;
};

/// Any thread may call it. Functions that wait throw PeerGone.
class Courier {
public:
    static constexpr int first_free_tag = 16;

    /// All ranks make their couriers at the same time.
    Courier(std::shared_ptr<Transport> transport, CourierOptions options);
    Courier(const Courier&) = delete; // its thread holds its address
    Courier& operator=(const Courier&) = delete;
    /// end()
    ~Courier();
    /// close(), then waits until all messages have left and all peers have said farewell, unless one is gone.
    void end();
    /// Says farewell. Nothing may be sent afterwards.
    void close();

    unsigned rank() const { return rank_; }
    unsigned size() const { return size_; }

    /// Sends a message. Messages to a peer arrive in the order of the calls.
    void send(unsigned to, Topic topic, Bytes bytes);
    void send_all(Topic topic, const Bytes& bytes);
    /// Waits for the next message about this from a peer.
    Bytes receive(unsigned from, Topic topic);
    /// Has the communication thread call `take` for each message about this, instead of receive().
    void on(Topic topic, std::function<void(unsigned from, Bytes message)> take);

    /// Throws PeerGone if a peer is gone, also where receive() still has messages that came before.
    void check() const;

    /// Everybody's message, by rank; all ranks call it.
    std::vector<Bytes> gather_all(Topic topic, const Bytes& own);

    /// Has the communication thread do this work, until remove() returns.
    void add(Carried& work);
    void remove(Carried& work);
    /// The work has something to do.
    void wake();

    /// A peer on this machine is gone when this process is.
    void watch_process(unsigned peer, int pid);
    /// Kills a process that is watched, such as one that hangs.
    void kill_process(unsigned peer);
    /// Tells the peers that this rank ends, with which code and why, and is deaf to what they do then. Waits
    /// until that has left, but not long.
    void tell_failure(int code, const std::string& line);
    /// Bytes of all messages and carried work that this rank has sent.
    std::uint64_t sent_bytes() const { return sent_bytes_; }
    void count_sent(std::size_t bytes) { sent_bytes_ += bytes; } ///< of carried work

private:
    struct Message {
        Topic topic;
        Bytes bytes;
    };
    /// What goes to a peer and comes from it, one transfer at a time in each direction.
    struct Peer {
        std::deque<Message> out; ///< the first may be on its way
        std::map<Topic, std::deque<Bytes>> received;
        bool said_farewell = false;
        int process = -1; ///< a file descriptor of it
        // Of the communication thread:
        Bytes head_out, head_in;
        Transport::Transfer sent = nullptr, comes = nullptr;
        std::size_t gone_bytes = 0, come_bytes = 0; ///< of the body of the first of `out`, and of `in`
        std::optional<Message> in;                  ///< whose body comes
        std::chrono::steady_clock::time_point heard;
        unsigned seen_ended = 0;
    };
    void work();
    void watch(const std::stop_token& ended);
    void tell_late(std::optional<unsigned> peer);
    bool move();
    bool send_to(unsigned to);
    bool receive_from(unsigned from);
    void deliver(unsigned from, Message message);
    void look_after_peers();
    PeerGone cause_of(const TransportError& error);
    bool has_ended();
    void lose(const PeerGone& gone);

    std::shared_ptr<Transport> transport_;
    const CourierOptions options_;
    const unsigned rank_, size_;
    mutable std::mutex mutex_; ///< of the following
    std::condition_variable changed_, work_to_do_;
    std::vector<Peer> peers_;
    std::map<Topic, std::function<void(unsigned, Bytes)>> takers_;
    std::vector<Carried*> carried_;
    std::chrono::duration<double> silence_;
    std::atomic<std::uint64_t> sent_bytes_ = 0;
    bool woken_ = false, told_stop_ = false, told_failure_ = false, closing_ = false;
    std::atomic<unsigned> receivers_ = 0; ///< threads within receive()
    std::optional<PeerGone> gone_;
    std::mutex moving_; ///< while the transport is used; before mutex_
    std::chrono::steady_clock::time_point looked_{}, beaten_{};
    std::atomic<std::uint64_t> turns_ = 0; ///< rounds that the thread has begun
    std::atomic<bool> told_late_ = false;
    std::thread thread_;
    std::jthread watcher_; ///< of the thread
};

} // namespace towers
