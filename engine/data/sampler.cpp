#include "engine/data/sampler.h"

#include <algorithm>
#include <stdexcept>

namespace towers {
Sampler::Sampler(std::uint32_t records, std::uint64_t seed, bool shuffle)
    : records_(records), seed_(seed), shuffle_(shuffle) {
    if (records == 0) throw std::invalid_argument("a sampler of no records");
}

Sampler::Sampler(std::span<const std::uint32_t> labels, std::uint64_t seed, bool shuffle)
    : Sampler(std::uint32_t(labels.size()), seed, shuffle) {
    classes_.resize(std::size_t(*std::ranges::max_element(labels)) + 1);
    for (std::uint32_t record = 0; record < records_; ++record)
        classes_[labels[record]].records.push_back(record);
    if (std::ranges::any_of(classes_, [](const Class& each) { return each.records.empty(); }))
        throw std::invalid_argument("a balanced sampler of a class without records");
}

void Sampler::fill(std::uint64_t first, std::span<Example> out) {
    classes_.empty() ? fill_uniform(first, out) : fill_balanced(first, out);
}

void Sampler::fill_uniform(std::uint64_t first, std::span<Example> out) {
    std::size_t done = 0;
    while (done < out.size()) {
        const auto epoch = std::uint32_t((first + done) / records_);
        auto place = std::uint32_t((first + done) % records_);
        const std::vector<std::uint32_t>& order =
            permutation(epochs_[epoch % 2], epoch, records_, {seed_, RandomPurpose::sampling, epoch});
        for (; done < out.size() && place < records_; ++done, ++place)
            out[done] = {.record = order[place], .epoch = epoch};
    }
}

void Sampler::fill_balanced(std::uint64_t first, std::span<Example> out) {
    std::size_t done = 0;
    while (done < out.size()) {
        const std::uint64_t block = (first + done) / classes_.size();
        put_in_order(block_, classes_.size());
        PhiloxStream random(seed_, RandomPurpose::class_order, std::uint32_t(block),
                            std::uint32_t(block >> 32));
        if (shuffle_) shuffle(block_, random);
        auto place = std::size_t((first + done) % classes_.size());
        for (; done < out.size() && place < block_.size(); ++done, ++place) {
            const std::uint32_t label = block_[place];
            auto& [records, slot] = classes_[label];
            const auto pass = std::uint32_t(block / records.size());
            const std::vector<std::uint32_t>& order = permutation(
                slot, pass, records.size(), {seed_, RandomPurpose::sampling_of_class, label, pass});
            out[done] = {.record = records[order[block % records.size()]], .epoch = pass};
        }
    }
}

/// Brings the order of `count` numbers in the epoch with this number to its slot. `random`: of the epoch.
const std::vector<std::uint32_t>& Sampler::permutation(Epoch& slot, std::uint32_t number, std::size_t count,
                                                       PhiloxStream random) const {
    if (!slot.order.empty() && (slot.number == number || !shuffle_)) return slot.order;
    slot.number = number;
    put_in_order(slot.order, count);
    if (shuffle_) shuffle(slot.order, random);
    return slot.order;
}

} // namespace towers
