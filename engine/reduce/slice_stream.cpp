#include "engine/reduce/slice_stream.h"

namespace towers {
namespace {

/// Messages of a stream that are on their way at once.
constexpr std::size_t window = 64;

} // namespace

bool SliceStream::advance(Transport& transport, std::size_t buckets,
                          const std::function<std::span<std::byte>(const Slice&)>& memory,
                          const std::function<void(const Slice&, std::size_t)>& ended) {
    bool moved = false;
    while (true) {
        while (begun_ < slices_.size() && slices_[begun_].bucket < buckets && on_their_way_.size() < window) {
            const std::span<std::byte> its = memory(slices_[begun_++]);
            on_their_way_.push_back(
                {sends_ ? transport.send(peer_, tag_, its) : transport.receive(peer_, tag_, its),
                 its.size()});
            moved = true;
        }
        if (on_their_way_.empty()) return moved;
        auto& [transfer, bytes] = on_their_way_.front();
        if (!transport.test(transfer, sends_ ? nullptr : &bytes)) return moved;
        ended(slices_[ended_++], bytes);
        on_their_way_.pop_front();
        moved = true;
    }
}

} // namespace towers
