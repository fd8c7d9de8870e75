#include "engine/data/batch.h"

namespace towers {

std::vector<Example> with_partners(const Batch& batch) {
    std::vector<Example> all(batch.examples.begin(), batch.examples.end());
    for (const Mix& mix : batch.mixes) all.push_back(batch.all_examples[mix.partner]);
    return all;
}

std::vector<std::uint32_t> strangers(const Batch& batch) {
    std::vector<std::uint32_t> places;
    for (const Mix& mix : batch.mixes)
        if (!batch.has(mix.partner)) places.push_back(mix.partner);
    return places;
}

KeptBatch keep(const Batch& batch) {
    KeptBatch kept{.examples = {batch.examples.begin(), batch.examples.end()},
                   .strangers = {},
                   .tables = {.mixes = {batch.mixes.begin(), batch.mixes.end()},
                              .targets = {batch.targets.begin(), batch.targets.end()},
                              .class_weights = {batch.class_weights.begin(), batch.class_weights.end()}}};
    for (Mix& mix : kept.tables.mixes) {
        if (batch.has(mix.partner)) {
            mix.partner -= std::uint32_t(batch.place);
            continue;
        }
        kept.strangers.push_back(batch.all_examples[mix.partner]);
        mix.partner = std::uint32_t(batch.examples.size() + kept.strangers.size() - 1);
    }
    return kept;
}

std::vector<Example> KeptBatch::all() const {
    std::vector<Example> all = examples;
    all.insert(all.end(), strangers.begin(), strangers.end());
    return all;
}

Batch KeptBatch::view(std::span<const Example> all) const {
    Batch batch = Batch::all(0, all.first(examples.size()), {}, tables);
    batch.all_examples = all;
    return batch;
}

} // namespace towers
