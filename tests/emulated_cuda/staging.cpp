// What kernels are given of the host's memory, where each word takes as long as a launch.
#include "tests/emulated_cuda/streams.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>

using namespace towers;
using namespace towers::test;

TEST_CASE("a kernel that is given the host's memory is counted") {
    const auto card = open_device("cuda:0", open_options());
    const Buffer host = card->allocate(64, Memory::staging), one = card->allocate(64, Memory::device),
                 other = card->allocate(64, Memory::device);
    const auto launches = [&](const Buffer& x, const Buffer& sum) {
        const unsigned before = emulated::launches_on_mapped_memory();
        AccumulateGradientsParams p{.quads = 4};
        p.x.at = reinterpret_cast<const vec4*>(x.address());
        p.sum.at = reinterpret_cast<vec4*>(sum.address());
        card->run({{launch(kernels::accumulate_gradients, p)}});
        return emulated::launches_on_mapped_memory() - before;
    };
    CHECK(launches(one, other) == 0);
    CHECK(launches(host, other) == 1);
    CHECK(launches(one, host) == 1);
}

TEST_CASE("a training, its test passes and its summaries give kernels none of the host's memory") {
    const Dataset data = noise(20), tests = noise(5);
    const unsigned before = emulated::launches_on_mapped_memory();
    const auto train = [&](const Recipe& recipe, TrainerOptions options) {
        Trainer trainer(recipe, options, data, borrowed(tests));
        trainer.step(true);
        trainer.step();
        trainer.test(false);
        trainer.summarize(data);
        CHECK(emulated::launches_on_mapped_memory() == before);
    };
    TrainerOptions alone = options_for({"cuda:0"}, 4), streamed = alone, in_pieces = alone,
                   pair = options_for({"cuda:0", "cuda:0"}, 4);
    streamed.feed.feeding = Feeding::streamed;
    in_pieces.micro_batch = 3;
    for (const TrainerOptions& options : {alone, streamed, in_pieces, pair}) train(small_recipe(), options);
    train(smooth_recipe("\"batch\""), pair); // with exchanges
}
