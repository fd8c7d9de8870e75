#include "engine/ranks/courier.h"

#include "backends/watched_device.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace towers {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds, std::chrono::microseconds;

constexpr int head_tag = 0, body_tag = 1;
/// Of a message that goes with its head.
constexpr std::size_t most_in_head = std::size_t(16) << 10;
/// Of a message's body at once; its sender is heard with each.
constexpr std::size_t body_part = std::size_t(8) << 20;
constexpr milliseconds heart_rate(500), look_rate(100);
constexpr std::chrono::duration<double> hurried_silence(2);
/// A silence that is not long enough to be certain of.
constexpr milliseconds late(900);

struct Head {
    Topic topic;
    std::uint32_t reserved;
    std::uint64_t bytes;
};

/// Sleeps are as long as they say, not longer by the usual 50 us.
void sleep_exactly() { prctl(PR_SET_TIMERSLACK, 1000UL); }

/// A descriptor that can be read when the process has ended; -1: none.
int open_process(int pid) {
#ifdef SYS_pidfd_open
    return int(syscall(SYS_pidfd_open, pid, 0));
#else
    return (void)pid, -1;
#endif
}

bool has_ended_process(int process) {
    pollfd ended{process, POLLIN, 0};
    return poll(&ended, 1, 0) > 0;
}

} // namespace

Courier::Courier(std::shared_ptr<Transport> transport, CourierOptions options)
    : transport_(std::move(transport)), options_(std::move(options)), rank_(transport_->rank()),
      size_(transport_->size()), peers_(size_), silence_(options_.silence) {
    for (Peer& peer : peers_) peer.heard = Clock::now();
    thread_ = std::thread([this] { work(); });
    if (options_.late && options_.killed_soon != nullptr)
        watcher_ = std::jthread([this](const std::stop_token& ended) { watch(ended); });
}

void Courier::close() {
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(closing_, true)) return;
        for (unsigned to = 0; to < size_; ++to)
            if (to != rank_) peers_[to].out.push_back({Topic::farewell, {}});
        woken_ = true;
    }
    work_to_do_.notify_one();
}

void Courier::end() {
    close();
    watcher_ = {};
    if (thread_.joinable()) thread_.join();
}

Courier::~Courier() {
    end();
    for (const Peer& peer : peers_)
        if (peer.process >= 0) ::close(peer.process);
    // Transfers that have not ended, because a peer is gone, may still use this memory.
    if (gone_) keep_for_ever(std::make_shared<std::vector<Peer>>(std::move(peers_)));
}

void Courier::send(unsigned to, Topic topic, Bytes bytes) {
    {
        const std::lock_guard lock(mutex_);
        peers_.at(to).out.push_back({topic, std::move(bytes)});
        woken_ = true;
    }
    work_to_do_.notify_one();
}

void Courier::send_all(Topic topic, const Bytes& bytes) {
    for (unsigned to = 0; to < size_; ++to)
        if (to != rank_) send(to, topic, bytes);
}

Bytes Courier::receive(unsigned from, Topic topic) {
    std::unique_lock lock(mutex_);
    auto& received = peers_.at(from).received[topic];
    ++receivers_;
    changed_.wait(lock, [&] { return !received.empty() || gone_; });
    --receivers_;
    if (received.empty()) throw PeerGone(*gone_);
    Bytes bytes = std::move(received.front());
    received.pop_front();
    return bytes;
}

void Courier::on(Topic topic, std::function<void(unsigned, Bytes)> take) {
    const std::lock_guard moving(moving_); // no message is being delivered
    std::vector<std::pair<unsigned, Bytes>> earlier;
    {
        const std::lock_guard lock(mutex_);
        for (unsigned from = 0; take && from < size_; ++from)
            for (Bytes& bytes : std::exchange(peers_[from].received[topic], {}))
                earlier.emplace_back(from, std::move(bytes));
        takers_[topic] = take;
    }
    for (auto& [from, bytes] : earlier) take(from, std::move(bytes));
}

void Courier::check() const {
    const std::lock_guard lock(mutex_);
    if (gone_) throw PeerGone(*gone_);
}

std::vector<Bytes> Courier::gather_all(Topic topic, const Bytes& own) {
    send_all(topic, own);
    std::vector<Bytes> all(size_);
    all[rank_] = own;
    for (unsigned from = 0; from < size_; ++from)
        if (from != rank_) all[from] = receive(from, topic);
    return all;
}

void Courier::add(Carried& work) {
    const std::lock_guard moving(moving_);
    const std::lock_guard lock(mutex_);
    if (gone_) return work.stop();
    carried_.push_back(&work);
}

void Courier::remove(Carried& work) {
    const std::lock_guard moving(moving_);
    const std::lock_guard lock(mutex_);
    std::erase(carried_, &work);
}

void Courier::wake() {
    {
        const std::lock_guard lock(mutex_);
        woken_ = true;
    }
    work_to_do_.notify_one();
}

void Courier::watch_process(unsigned peer, int pid) {
    const std::lock_guard lock(mutex_);
    if (const int process = open_process(pid); process >= 0) peers_.at(peer).process = process;
}

void Courier::kill_process([[maybe_unused]] unsigned peer) {
    const std::lock_guard lock(mutex_);
#ifdef SYS_pidfd_send_signal
    if (const int process = peers_.at(peer).process; process >= 0)
        syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
#endif
}

void Courier::tell_failure(int code, const std::string& line) {
    Bytes bytes(sizeof code + line.size());
    std::memcpy(bytes.data(), &code, sizeof code);
    std::memcpy(bytes.data() + sizeof code, line.data(), line.size());
    send_all(Topic::failure, bytes);
    std::unique_lock lock(mutex_);
    told_failure_ = true;
    changed_.wait_for(lock, std::chrono::seconds(2), [this] {
        return gone_ || std::ranges::all_of(peers_, [](const Peer& peer) { return peer.out.empty(); });
    });
}

void Courier::work() {
    sleep_exactly();
    // A look costs as much as some microseconds of a step's work. So while others have work, what comes is
    // seen late by a part of the time since something came last; that is mostly hidden. Where all only wait
    // for what is on its way, this thread looks without a pause.
    constexpr microseconds shortest(100), eager(300);
    constexpr milliseconds longest(2);
    Clock::time_point moved = Clock::now();
    while (true) {
        ++turns_;
        bool moves = false;
        auto state = Carried::State::idle;
        try {
            const std::lock_guard moving(moving_);
            look_after_peers();
            moves = move();
            std::vector<Carried*> carried;
            {
                const std::lock_guard lock(mutex_);
                if (gone_) return;
                carried = carried_;
            }
            for (Carried* const each : carried) {
                const Carried::State its = each->advance(*transport_);
                moves = moves || its == Carried::State::moved;
                state = std::max(state, its);
            }
            if (has_ended()) return;
        } catch (const PeerGone& gone) {
            return lose(gone);
        } catch (const TransportError& error) {
            return lose(cause_of(error));
        }
        const Clock::time_point now = Clock::now();
        if (moves) {
            moved = now;
            continue;
        }
        const bool is_urgent = state == Carried::State::urgent || receivers_ > 0;
        if (is_urgent && now - moved < eager) {
            std::this_thread::yield();
            continue;
        }
        const auto pause =
            std::clamp<Clock::duration>((now - moved) / (is_urgent ? 8 : 2), shortest, longest);
        std::unique_lock lock(mutex_);
        work_to_do_.wait_for(lock, pause, [this] { return woken_; });
        woken_ = false;
    }
}

/// Looks whether the thread goes on when the process will soon be killed.
void Courier::watch(const std::stop_token& ended) {
    constexpr milliseconds pause(50);
    std::uint64_t turns = 0;
    Clock::time_point looked = Clock::now(), turned = looked;
    while (!ended.stop_requested() && !told_late_) {
        std::this_thread::sleep_for(pause);
        const Clock::time_point now = Clock::now();
        // A pause of this process, as of a stopped one, says nothing about the thread.
        const std::uint64_t its = turns_;
        if (std::exchange(turns, its) != its) turned = now;
        if (now - std::exchange(looked, now) > 3 * pause) turned = now;
        if (*options_.killed_soon && now - turned > late) tell_late({});
    }
}

void Courier::tell_late(std::optional<unsigned> peer) {
    {
        const std::lock_guard lock(mutex_);
        if (gone_ || told_failure_) return;
    }
    if (!told_late_.exchange(true)) options_.late(peer);
}

/// Carries the messages as far as they can go. Returns whether something has moved.
bool Courier::move() {
    bool moved = false;
    for (unsigned peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        while (send_to(peer)) moved = true;
        while (receive_from(peer)) moved = true;
    }
    return moved;
}

/// Returns whether something has moved.
bool Courier::send_to(unsigned to) {
    Peer& peer = peers_[to];
    const Message* message = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (peer.out.empty()) return false;
        message = &peer.out.front(); // stays where it is
    }
    const std::span<const std::byte> bytes = message->bytes;
    if (peer.head_out.empty()) {
        const Head head{message->topic, 0, bytes.size()};
        peer.gone_bytes = bytes.size() <= most_in_head ? bytes.size() : 0;
        peer.head_out.resize(sizeof head + peer.gone_bytes);
        std::memcpy(peer.head_out.data(), &head, sizeof head);
        std::ranges::copy(bytes.first(peer.gone_bytes), peer.head_out.begin() + sizeof head);
        peer.sent = transport_->send(to, head_tag, peer.head_out);
        sent_bytes_ += peer.head_out.size();
        return true;
    }
    if (!transport_->test(peer.sent)) return false;
    if (peer.gone_bytes < bytes.size()) {
        const auto part = bytes.subspan(peer.gone_bytes, std::min(body_part, bytes.size() - peer.gone_bytes));
        peer.sent = transport_->send(to, body_tag, part);
        peer.gone_bytes += part.size();
        sent_bytes_ += part.size();
        return true;
    }
    peer.head_out.clear();
    const std::lock_guard lock(mutex_);
    peer.out.pop_front();
    changed_.notify_all();
    return true;
}

/// Returns whether something has moved.
bool Courier::receive_from(unsigned from) {
    Peer& peer = peers_[from];
    if (peer.said_farewell) return false;
    const auto expect_head = [&] {
        peer.head_in.resize(sizeof(Head) + most_in_head);
        peer.comes = transport_->receive(from, head_tag, peer.head_in);
    };
    if (peer.comes == nullptr) expect_head();
    std::size_t received = 0;
    if (!transport_->test(peer.comes, &received)) return false;
    peer.heard = Clock::now();
    if (peer.in) {
        peer.come_bytes += received;
    } else {
        Head head{};
        std::memcpy(&head, peer.head_in.data(), sizeof head);
        peer.in.emplace(Message{head.topic, Bytes(head.bytes)});
        peer.come_bytes = received - sizeof head;
        std::copy_n(peer.head_in.begin() + sizeof head, peer.come_bytes, peer.in->bytes.begin());
    }
    if (const std::span<std::byte> rest = std::span(peer.in->bytes).subspan(peer.come_bytes); !rest.empty()) {
        peer.comes = transport_->receive(from, body_tag, rest.first(std::min(body_part, rest.size())));
        return true;
    }
    Message message = std::move(*peer.in);
    peer.in.reset();
    deliver(from, std::move(message));
    return true;
}

void Courier::deliver(unsigned from, Message message) {
    switch (message.topic) {
    case Topic::heartbeat:
        return;
    case Topic::failure: {
        int code = 0;
        std::memcpy(&code, message.bytes.data(), sizeof code);
        const auto* const text = reinterpret_cast<const char*>(message.bytes.data());
        throw PeerGone(from, {text + sizeof code, message.bytes.size() - sizeof code}, code);
    }
    case Topic::farewell: {
        const std::lock_guard lock(mutex_);
        peers_[from].said_farewell = true;
        return;
    }
    default:
        break;
    }
    std::function<void(unsigned, Bytes)> take;
    {
        const std::lock_guard lock(mutex_);
        const auto found = takers_.find(message.topic);
        if (found != takers_.end()) take = found->second;
        if (!take) peers_[from].received[message.topic].push_back(std::move(message.bytes));
    }
    if (take) return take(from, std::move(message.bytes));
    changed_.notify_all();
}

/// Tells the peers now and then that this rank lives, and looks whether they do.
void Courier::look_after_peers() {
    const Clock::time_point now = Clock::now();
    if (now - looked_ < look_rate) return;
    // A pause of this process, as of a stopped one, says nothing about the others.
    const bool paused = looked_ != Clock::time_point() && now - looked_ > heart_rate;
    looked_ = now;
    const bool beats = now - beaten_ >= heart_rate;
    if (beats) beaten_ = now;
    const bool suspects = options_.late && options_.killed_soon != nullptr && *options_.killed_soon;
    std::optional<unsigned> suspect;
    std::unique_lock lock(mutex_);
    if (options_.stop != nullptr && *options_.stop && !std::exchange(told_stop_, true)) {
        silence_ = std::min(silence_, hurried_silence);
        if (rank_ > 0 && !closing_) peers_[0].out.push_back({Topic::stop, {}});
    }
    for (unsigned i = 0; i < size_; ++i) {
        Peer& peer = peers_[i];
        if (i == rank_ || peer.said_farewell) continue;
        if (paused) peer.heard = now;
        if (beats && !closing_ && peer.out.empty()) peer.out.push_back({Topic::heartbeat, {}});
        if (peer.process >= 0 && has_ended_process(peer.process) && peer.seen_ended++ > 0)
            throw PeerGone(i, "its process has ended"); // its last messages have had time to come
        const std::chrono::duration<double> silent = now - peer.heard;
        if (suspects && silent > late) suspect = i;
        if (silent > silence_)
            throw PeerGone(i, fmt::format("it has not answered for {:.0f} s", silent.count()));
    }
    lock.unlock();
    if (suspect) tell_late(suspect);
}

/// Which peer's end made a call fail, if one has ended; the transport may learn of it first. Else this rank's
/// transport has failed.
PeerGone Courier::cause_of(const TransportError& error) {
    std::this_thread::sleep_for(look_rate);
    const std::lock_guard lock(mutex_);
    for (unsigned i = 0; i < size_; ++i)
        if (const Peer& peer = peers_[i]; peer.process >= 0 && has_ended_process(peer.process))
            return PeerGone(i, "its process has ended");
    return PeerGone(rank_, error.what());
}

bool Courier::has_ended() {
    const std::lock_guard lock(mutex_);
    if (!closing_) return false;
    for (unsigned i = 0; i < size_; ++i)
        if (i != rank_ && !(peers_[i].said_farewell && peers_[i].out.empty())) return false;
    return true;
}

/// Wakes all who wait.
void Courier::lose(const PeerGone& gone) {
    {
        const std::lock_guard lock(mutex_);
        if (told_failure_) { // and whoever waits until that has left need not
            gone_ = gone;
            return changed_.notify_all();
        }
    }
    {
        const std::lock_guard moving(moving_);  // none of the work is removed meanwhile
        if (options_.gone) options_.gone(gone); // before others learn of it: it may end the program
        std::vector<Carried*> carried;
        {
            const std::lock_guard lock(mutex_);
            gone_ = gone;
            carried = carried_;
        }
        for (Carried* const each : carried) each->stop();
    }
    changed_.notify_all();
}

} // namespace towers
