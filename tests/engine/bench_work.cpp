// Checks the counts of work behind the benchmark's rates against numbers computed by hand.
#include "engine/bench/work.h"
#include "engine/model/cifar10_tutorial.h"
#include "engine/plan/network.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

NetworkSpec tutorial_spec(const Model& model, const ParameterLayout& layout, unsigned batch) {
    return {.model = &model,
            .layout = &layout,
            .batch = batch,
            .image_height = 32,
            .image_width = 32,
            .records = 10};
}

template<class Function>
void for_each_launch(const Plan& plan, const Function& function) {
    for (const Level& level : plan.levels())
        for (const Operation& operation : level)
            if (const auto* launch = std::get_if<Launch>(&operation.work)) function(operation.name, *launch);
}

} // namespace

TEST_CASE("the tutorial's network takes 36.9 MFLOP an image forward and 105.3 with backward") {
    const Model model = cifar10_tutorial();
    const ParameterLayout layout = layout_parameters(model);
    // conv1: 24 * 24 pixels, 5 * 5 * 3 inputs, 64 outputs; conv2: 12 * 12, 5 * 5 * 64, 64; then 2304 x 384,
    // 384 x 192 and 192 x 10. Backward takes twice that, except that the images need no gradient.
    const double conv1 = 2.0 * 576 * 75 * 64, conv2 = 2.0 * 144 * 1600 * 64;
    const double dense = 2.0 * (2304 * 384 + 384 * 192 + 192 * 10);
    const double forward = conv1 + conv2 + dense;
    CHECK(forward / 1e6 == doctest::Approx(36.9).epsilon(0.002));
    CHECK((3 * forward - conv1) / 1e6 == doctest::Approx(105.3).epsilon(0.001));
    constexpr unsigned batch = 6;
    for (const unsigned parallel_groups : {1u, 256u}) { // split or not, the products are the same
        NetworkSpec spec = tutorial_spec(model, layout, batch);
        spec.parallel_groups = parallel_groups;
        double all = 0, forward_only = 0;
        for_each_launch(plan_single_step(spec).plan, [&](const std::string& name, const Launch& launch) {
            all += work_of(launch).flops;
            if (name.ends_with(" forward")) forward_only += work_of(launch).flops;
        });
        CHECK(forward_only == batch * forward);
        CHECK(all == batch * (3 * forward - conv1));
    }
}

TEST_CASE("every kernel of a step moves bytes; the tutorial's match counts by hand") {
    const Model model = cifar10_tutorial();
    const ParameterLayout layout = layout_parameters(model);
    const double parameters = double(layout.bytes);                              // a multiple of 16
    const double conv1_map = 2.0 * 24 * 24 * 64, pool1_map = 2.0 * 12 * 12 * 64; // elements of a batch of 2
    std::size_t known = 0;
    const auto by_hand = [&](const std::string& name) -> double {
        if (name == "images") return 2 * (24 * 24 * 3 * (1 + 4) + 16);
        if (name == "conv1 forward") return 4 * (2.0 * 24 * 24 * 3 + 75 * 64 + 64 + conv1_map);
        if (name == "conv2 data gradient") return 4 * (pool1_map + 1600 * 64 + pool1_map);
        if (name == "conv2 weights gradient") return 4 * (pool1_map + pool1_map + 1600 * 64 + 64);
        if (name == "pool1 forward") return 4 * (conv1_map + pool1_map) + pool1_map;
        if (name == "pool1 backward") return 4 * (conv1_map + pool1_map) + pool1_map;
        if (name == "norm1 forward") return 4 * 3 * pool1_map;
        if (name == "norm1 backward") return 4 * 5 * pool1_map;
        if (name == "loss") return 4 * 2 * (2 * 10 + 3);
        if (name == "update" || name == "average") return 3 * parameters;
        if (name == "finite check") return parameters + 4 * REDUCTION_CHUNKS(layout.quads());
        if (name == "local4 weight decay") return 3 * 4.0 * 384 * 192 + 4 * REDUCTION_CHUNKS(384u * 192 / 4);
        return 0;
    };
    for_each_launch(plan_single_step(tutorial_spec(model, layout, 2)).plan,
                    [&](const std::string& name, const Launch& launch) {
                        CAPTURE(name);
                        const Work work = work_of(launch);
                        CHECK(work.bytes > 0);
                        if (const double expected = by_hand(name); expected > 0) {
                            CHECK(work.bytes == expected);
                            ++known;
                        }
                    });
    CHECK(known == 13);
}

TEST_CASE("a sum of partials reads all parts, an average all towers") {
    CHECK(work_of(launch(kernels::sum_partials, {.parts = 7, .count = 100}, 100)).bytes == 4 * 8 * 100);
    CHECK(work_of(launch(kernels::average_gradients, {.towers = 3, .quads = 50}, 50)).bytes == 16 * 4 * 50);
    CHECK(work_of(launch(kernels::relu_backward, {.count = 9}, 9)).bytes == 4 * 3 * 9);
}

} // namespace towers
