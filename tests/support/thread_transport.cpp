#include "tests/support/thread_transport.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <tuple>
#include <utility>

namespace towers::test {

class Wires {
public:
    explicit Wires(unsigned ranks) : size(ranks), is_cut(ranks) {}

    struct Sent {
        std::span<const std::byte> bytes;
        bool taken = false;
    };
    const unsigned size;
    std::mutex mutex;
    std::vector<bool> is_cut;
    /// By sender, receiver and tag.
    std::map<std::tuple<unsigned, unsigned, int>, std::deque<std::shared_ptr<Sent>>> on_their_way;
    std::map<std::pair<unsigned, unsigned>, std::size_t> sent_bytes; ///< by sender and receiver
};

namespace {

class ThreadTransport final : public Transport {
public:
    ThreadTransport(std::shared_ptr<Wires> wires, unsigned rank) : wires_(std::move(wires)), rank_(rank) {}

    /// What has not been taken from it never comes.
    ~ThreadTransport() override {
        const std::lock_guard lock(wires_->mutex);
        std::erase_if(wires_->on_their_way,
                      [this](const auto& entry) { return std::get<0>(entry.first) == rank_; });
    }

    unsigned rank() const override { return rank_; }
    unsigned size() const override { return wires_->size; }
    std::string name() const override { return "threads"; }

    Transfer send(unsigned to, int tag, std::span<const std::byte> bytes) override {
        auto sent = std::make_shared<Wires::Sent>(Wires::Sent{bytes});
        const std::lock_guard lock(wires_->mutex);
        wires_->on_their_way[{rank_, to, tag}].push_back(sent);
        wires_->sent_bytes[{rank_, to}] += bytes.size();
        return begin({sent, to, tag, {}, random_() % 3});
    }

    Transfer receive(unsigned from, int tag, std::span<std::byte> into) override {
        return begin({nullptr, from, tag, into, random_() % 3});
    }

    bool test(Transfer& transfer, std::size_t* received) override {
        auto* const begun = static_cast<Begun*>(transfer);
        if (begun->tests_left > 0) return --begun->tests_left, false;
        const std::lock_guard lock(wires_->mutex);
        if (wires_->is_cut[rank_] || wires_->is_cut[begun->peer]) return false;
        if (begun->sent != nullptr) {
            if (!begun->sent->taken) return false;
        } else {
            auto& queue = wires_->on_their_way[{begun->peer, rank_, begun->tag}];
            if (queue.empty()) return false;
            const std::shared_ptr<Wires::Sent> sent = queue.front();
            if (sent->bytes.size() > begun->into.size()) throw TransportError("a message is too long");
            std::ranges::copy(sent->bytes, begun->into.begin());
            if (received != nullptr) *received = sent->bytes.size();
            sent->taken = true;
            queue.pop_front();
        }
        begun_.erase(begun);
        transfer = nullptr;
        return true;
    }

private:
    struct Begun {
        std::shared_ptr<Wires::Sent> sent; ///< null: a receive
        unsigned peer;
        int tag;
        std::span<std::byte> into;
        unsigned long tests_left;
    };
    Transfer begin(Begun begun) {
        auto its = std::make_unique<Begun>(std::move(begun));
        const Transfer transfer = its.get();
        begun_[transfer] = std::move(its);
        return transfer;
    }

    std::shared_ptr<Wires> wires_;
    unsigned rank_;
    std::map<Transfer, std::unique_ptr<Begun>> begun_;
    std::minstd_rand random_{std::random_device()()};
};

} // namespace

std::shared_ptr<Wires> make_wires(unsigned ranks) { return std::make_shared<Wires>(ranks); }

std::unique_ptr<Transport> connect(const std::shared_ptr<Wires>& wires, unsigned rank) {
    return std::make_unique<ThreadTransport>(wires, rank);
}

std::size_t sent_bytes(Wires& wires, unsigned from, unsigned to) {
    const std::lock_guard lock(wires.mutex);
    return wires.sent_bytes[{from, to}];
}

void cut(Wires& wires, unsigned rank) {
    const std::lock_guard lock(wires.mutex);
    wires.is_cut[rank] = true;
}

std::vector<std::unique_ptr<Transport>> connected_transports(unsigned ranks) {
    const std::shared_ptr<Wires> wires = make_wires(ranks);
    std::vector<std::unique_ptr<Transport>> transports;
    for (unsigned rank = 0; rank < ranks; ++rank) transports.push_back(connect(wires, rank));
    return transports;
}

} // namespace towers::test
