// Slices of gradients or parameters on their way between two ranks.
#pragma once

#include "engine/ranks/transport.h"
#include "engine/reduce/slices.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace towers {

/// Messages to or from one peer, one for each slice, in the order of the buckets; a few are on their way at
/// once. Of the communication thread.
class SliceStream {
public:
    SliceStream(unsigned peer, int tag, bool sends, std::vector<Slice> slices)
        : peer_(peer), tag_(tag), sends_(sends), slices_(std::move(slices)) {}

    void restart() { begun_ = ended_ = 0; }
    /// Begins what may begin, of slices of the first `buckets` buckets, from or to where `memory` says; an
    /// empty span sends an empty message. Calls `ended` for each message that has ended, with the bytes that
    /// it had. Returns whether something has moved.
    bool advance(Transport& transport, std::size_t buckets,
                 const std::function<std::span<std::byte>(const Slice&)>& memory,
                 const std::function<void(const Slice&, std::size_t)>& ended);
    /// All slices of the first so many buckets have gone or come.
    std::size_t buckets(std::size_t all) const {
        return ended_ == slices_.size() ? all : slices_[ended_].bucket;
    }
    bool is_done() const { return ended_ == slices_.size(); }

private:
    struct OnItsWay {
        Transport::Transfer transfer;
        std::size_t bytes;
    };
    unsigned peer_;
    int tag_;
    bool sends_;
    std::vector<Slice> slices_;
    std::size_t begun_ = 0, ended_ = 0;
    std::deque<OnItsWay> on_their_way_;
};

} // namespace towers
