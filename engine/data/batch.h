// The examples of a step.
#pragma once

#include "engine/data/example.h"
#include "engine/data/mix.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace towers {

/// What a step of a global batch needs beside its examples; empty what it does not need.
struct BatchTables {
    std::vector<Mix> mixes; ///< [examples]
    /// What part of each class an example is, [examples, class_stride()], for losses of targets.
    std::vector<float> targets;
    /// Of each loss head with weights of classes, [heads, class_stride()]; see TableMaker.
    std::vector<float> class_weights;
};

/// Makes the tables of the global batch that begins at a position. From any thread.
using MakeTables = std::function<BatchTables(std::uint64_t first, std::span<const Example> examples)>;

struct Batch;

/// A batch with all that its step needs but images, to be done again alone.
struct KeptBatch {
    std::vector<Example> examples;
    std::vector<Example> strangers; ///< their partners that are not among them
    BatchTables tables;             ///< a mix's partner counts the examples, then the strangers

    /// The examples and strangers.
    std::vector<Example> all() const;
    /// `all`: as all() gives them, with the slots of their images.
    Batch view(std::span<const Example> all) const;
};

/// A global batch, or a share of one. What it names must outlive it.
struct Batch {
    std::uint64_t first = 0; ///< position of its first example in the order of the examples
    std::span<const Example> examples = {};
    /// Of the examples, as DataSource::read() gives them. Empty: devices hold the images, in the examples'
    /// slots.
    std::span<const std::uint8_t> images = {};
    std::span<const float> class_weights = {}, targets = {}; ///< see BatchTables
    std::span<const Mix> mixes = {};

    /// The global batch, which has the examples' partners, and the place of the first example in it; without
    /// mixes not needed.
    std::span<const Example> all_examples = {};
    std::span<const std::uint8_t> all_images = {};
    std::size_t place = 0;

    /// A global batch.
    static Batch all(std::uint64_t first, std::span<const Example> examples,
                     std::span<const std::uint8_t> images, const BatchTables& tables) {
        return {first,          examples,     images,   tables.class_weights,
                tables.targets, tables.mixes, examples, images};
    }

    std::size_t image_bytes() const { return images.size() / examples.size(); } ///< of one image
    Batch slice(std::size_t begin, std::size_t count) const {
        const auto part = [&](auto all) {
            const std::size_t each = all.size() / examples.size();
            return all.subspan(begin * each, count * each);
        };
        return {first + begin, part(examples), part(images), class_weights, part(targets),
                part(mixes),   all_examples,   all_images,   place + begin};
    }

    /// Whether the global batch's example at this place is one of these.
    bool has(std::uint32_t at) const { return at >= place && at - place < examples.size(); }
};

/// The examples; with mixes then the partner of each.
std::vector<Example> with_partners(const Batch& batch);

KeptBatch keep(const Batch& batch);

/// The partners that are not among the examples, by their places in the global batch, in the examples' order.
std::vector<std::uint32_t> strangers(const Batch& batch);

} // namespace towers
