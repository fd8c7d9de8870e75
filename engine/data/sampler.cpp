#include "engine/data/sampler.h"

#include "engine/data/philox.h"

#include <numeric>
#include <stdexcept>
#include <utility>

namespace towers {

Sampler::Sampler(std::uint32_t records, std::uint64_t seed, bool shuffle)
    : records_(records), seed_(seed), shuffle_(shuffle) {
    if (records == 0) throw std::invalid_argument("a sampler of no records");
}

void Sampler::fill(std::uint64_t first, std::span<Example> out) {
    std::size_t done = 0;
    while (done < out.size()) {
        const auto epoch = std::uint32_t((first + done) / records_);
        auto place = std::uint32_t((first + done) % records_);
        const std::vector<std::uint32_t>& order = permutation(epoch);
        for (; done < out.size() && place < records_; ++done, ++place)
            out[done] = {.record = order[place], .epoch = epoch};
    }
}

const std::vector<std::uint32_t>& Sampler::permutation(std::uint32_t epoch) {
    Epoch& slot = epochs_[epoch % 2];
    if (!slot.order.empty() && (slot.number == epoch || !shuffle_)) return slot.order;
    slot.number = epoch;
    slot.order.resize(records_);
    std::iota(slot.order.begin(), slot.order.end(), 0u);
    if (shuffle_) { // Fisher and Yates, in Durstenfeld's form
        PhiloxStream random(seed_, RandomPurpose::sampling, epoch);
        for (std::uint32_t left = records_; left > 1; --left)
            std::swap(slot.order[left - 1], slot.order[random.below(left)]);
    }
    return slot.order;
}

} // namespace towers
