#include "engine/reduce/slices.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace towers {
namespace {

constexpr std::size_t least_bytes = std::size_t(8) << 10, alignment = 256;
/// Of one message. Open MPI sends so much over TCP without asking the receiver first, whose answer would wait
/// behind what the receiver sends itself: with larger messages, the two directions of a link take turns.
constexpr std::size_t most_in_message = std::size_t(56) << 10;

} // namespace

std::vector<Slice> deal_slices(std::span<const ArenaRange> buckets, unsigned ranks, bool whole) {
    std::vector<Slice> slices;
    unsigned next = 0; // goes on from bucket to bucket, so that all ranks get equally many
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
        const ArenaRange& range = buckets[bucket];
        const std::size_t parts = whole ? 1 : std::clamp<std::size_t>(range.bytes / least_bytes, 1, ranks);
        const auto cut = [&](std::size_t part) {
            return part == parts ? range.bytes : range.bytes * part / parts / alignment * alignment;
        };
        for (std::size_t part = 0; part < parts; ++part) {
            slices.push_back(
                {{range.offset + cut(part), cut(part + 1) - cut(part)}, bucket, whole ? 0 : next});
            next = (next + 1) % ranks;
        }
    }
    return slices;
}

Routes::Routes(unsigned ranks, std::vector<unsigned> hosts) : hosts_(std::move(hosts)) {
    if (hosts_.empty()) {
        hosts_.resize(ranks);
        std::iota(hosts_.begin(), hosts_.end(), 0u);
    }
    for (unsigned rank = 0; rank < ranks; ++rank) {
        std::vector<unsigned>& beside = ranks_[hosts_[rank]];
        places_.push_back(beside.size());
        beside.push_back(rank);
    }
}

unsigned Routes::next(unsigned rank, unsigned owner) const {
    if (share_host(rank, owner)) return owner;
    // Owners that are beside each other are served by unlike ranks, so that all have the same work.
    const std::vector<unsigned>& own = ranks_beside(rank);
    const unsigned collector = own[places_[owner] % own.size()];
    return collector == rank ? owner : collector;
}

std::vector<Slice> messages_of(const std::vector<Slice>& slices, std::size_t rounded) {
    std::vector<Slice> messages;
    for (const Slice& slice : slices) {
        const std::size_t most = most_in_message * (slice.range.offset < rounded ? 2 : 1);
        for (std::size_t done = 0; done < slice.range.bytes; done += most)
            messages.push_back({{slice.range.offset + done, std::min(most, slice.range.bytes - done)},
                                slice.bucket,
                                slice.owner});
    }
    return messages;
}

std::vector<Slice> cut_at(std::size_t offset, const std::vector<Slice>& slices) {
    std::vector<Slice> cut;
    for (const Slice& slice : slices) {
        const auto [begin, bytes] = slice.range;
        const std::size_t first = std::clamp(offset, begin, begin + bytes) - begin;
        for (const ArenaRange& part : {ArenaRange{begin, first}, {begin + first, bytes - first}})
            if (part.bytes > 0) cut.push_back({part, slice.bucket, slice.owner});
    }
    return cut;
}

} // namespace towers
