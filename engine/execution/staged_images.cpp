#include "engine/execution/staged_images.h"

#include <algorithm>

namespace towers {

StagedImages::StagedImages(const Session& session, std::size_t bytes)
    : session_(session,
               [](Arena arena) { return arena == Arena::records || arena == Arena::staged_records; }),
      half_bytes_(bytes / 2) {
    for (std::size_t i = 0; i < halves_.size(); ++i) {
        const Command copy = Copy{session_.slice(Arena::staged_records, i * half_bytes_, half_bytes_),
                                  session_.slice(Arena::records, i * half_bytes_, half_bytes_), "images"};
        halves_[i].copy = session_.device().record({&copy, 1});
    }
}

std::vector<Example> StagedImages::choose(const Batch& batch) {
    if (!halves_[chosen_].has(batch)) chosen_ = 1 - chosen_;
    const auto first = std::uint32_t(chosen_ * half_bytes_ / batch.image_bytes());
    std::vector<Example> placed = with_partners(batch);
    const auto count = std::uint32_t(batch.examples.size());
    std::uint32_t next = first + count; // for the strangers' images, which follow
    for (std::uint32_t i = 0; i < count; ++i) placed[i].slot = first + i;
    for (std::uint32_t i = 0; i < batch.mixes.size(); ++i) {
        const std::uint32_t partner = batch.mixes[i].partner;
        placed[count + i].slot = batch.has(partner) ? first + partner - std::uint32_t(batch.place) : next++;
    }
    return placed;
}

void StagedImages::stage(const Batch& batch) { stage(chosen_, batch); }
Ticket StagedImages::upload() { return upload(chosen_); }
void StagedImages::prefetch(const Batch& batch) { stage(1 - chosen_, batch); }
void StagedImages::upload_prefetched() { upload(1 - chosen_); }

void StagedImages::stage(std::size_t half, const Batch& batch) {
    Half& target = halves_[half];
    if (target.has(batch)) return;
    auto to = session_.host<std::uint8_t>(Arena::staged_records).subspan(half * half_bytes_).begin();
    to = std::ranges::copy(batch.images, to).out;
    const std::size_t image = batch.image_bytes();
    for (const std::uint32_t place : strangers(batch))
        to = std::ranges::copy(batch.all_images.subspan(place * image, image), to).out;
    target.first = batch.first;
    target.examples = batch.examples.size();
    target.ticket = 0;
}

Ticket StagedImages::upload(std::size_t half) {
    Half& source = halves_[half];
    if (source.first && source.ticket == 0)
        source.ticket = session_.device().submit(source.copy, Queue::upload);
    return source.ticket;
}

void StagedImages::forget() {
    for (Half& each : halves_) each.first.reset();
}

} // namespace towers
