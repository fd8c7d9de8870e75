#include "engine/recipes/recipe.h"
#include "backends/error.h"
#include "engine/recipes/quirks.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/shares/shares.h"

#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

namespace towers {

TEST_CASE("shares add up to the global batch and follow the weights") {
    CHECK(share_out(128, 1, {}) == std::vector<unsigned>{128});
    CHECK(share_out(128, 2, {}) == std::vector<unsigned>{64, 64});
    CHECK(share_out(129, 2, {}) == std::vector<unsigned>{65, 64});
    CHECK(share_out(128, 2, {3, 1}) == std::vector<unsigned>{96, 32});
    CHECK(share_out(128, 3, {3, 2, 1}) == std::vector<unsigned>{64, 43, 21});
    CHECK(share_out(10, 2, {1000, 1}) == std::vector<unsigned>{9, 1}); // no tower is idle
    CHECK(share_out(3, 3, {1e6, 1, 1}) == std::vector<unsigned>{1, 1, 1});
    for (const double huge : {1e308, 1e307, 1e-308, 5e-324}) // neither sums nor products overflow or vanish
        CHECK(share_out(256, 2, {huge, huge}) == std::vector<unsigned>{128, 128});
    CHECK(share_out(256, 2, {1e308, 1e-308}) == std::vector<unsigned>{255, 1});
    for (unsigned global = 7; global < 200; ++global) {
        const std::vector<unsigned> shares = share_out(global, 4, {1, 2.5, 0.01, 7});
        CHECK(std::accumulate(shares.begin(), shares.end(), 0u) == global);
        for (const unsigned share : shares) CHECK(share >= 1);
    }
    CHECK_THROWS_AS(share_out(2, 3, {}), UsageError);
    CHECK_THROWS_AS(share_out(8, 3, {1, 1}), UsageError);
    CHECK(parse_shares("3:1") == std::vector<double>{3, 1});
    CHECK(parse_shares(" 3 : 1 ") == std::vector<double>{3, 1});
    CHECK(parse_shares("even").empty());
    for (const char* bad : {"", "3:", ":1", "3:x", "3:-1", "3:0", "nan:1", "inf:1", "3;1"})
        CHECK_THROWS_AS(parse_shares(bad), UsageError);
}

TEST_CASE("the learning rate decays by examples, so that more towers do not stretch the schedule") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    const std::uint64_t decay = std::uint64_t(350) * 50000;
    const auto factor = [&](std::uint64_t step, std::uint64_t examples, bool by_steps) {
        return recipe.schedule.factor_at({step, examples, 50000, 128, by_steps});
    };
    CHECK(recipe.optimizer->learning_rate == 0.1);
    CHECK(factor(0, 0, false) == 1);
    CHECK(factor(0, decay - 1, false) == 1);
    CHECK(factor(0, decay, false) == doctest::Approx(0.1));
    CHECK(factor(0, 2 * decay, false) == doctest::Approx(0.01));
    // The published schedule: int(50000 / 128 * 350) steps, however many examples each of them has
    CHECK(factor(136717, 8 * decay, true) == 1);
    CHECK(factor(136718, 0, true) == doctest::Approx(0.1));
}

TEST_CASE("a warm-up has the schedule's clock: the examples seen before the step") {
    const auto factor = [](const std::string& schedule, std::uint64_t examples) {
        const std::string text = "[schedule]\n" + schedule;
        const Value value = parse_toml(text, "schedule");
        Attributes file(value, "schedule", "the recipe");
        return read_schedule(file.table("schedule"))
            .factor_at({.step = examples / 100,
                        .examples = examples,
                        .records = 1000,
                        .tower_batch = 100,
                        .by_steps = false});
    };
    // At every step a warm-up has risen as far as one_cycle's ramp; other kinds are multiplied by it.
    for (const std::uint64_t examples : {0, 100, 1900, 2000, 2100}) {
        CAPTURE(examples);
        const double warm = factor("warm_up = 2", examples);
        CHECK(warm == std::min(1.0, double(examples) / 2000));
        CHECK(factor("kind = \"one_cycle\"\nepochs = 4\npeak = 0.5\nlast = 1", examples) == warm);
        CHECK(factor("kind = \"exponential\"\nfactor = 0.5\nepochs = 1\nwarm_up = 2", examples) ==
              doctest::Approx(warm * std::pow(0.5, double(examples) / 1000)));
    }
}

TEST_CASE("the moving average warms up like the tutorial's") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    CHECK(average_decay_at(recipe, 1) == doctest::Approx(2.0 / 11));
    CHECK(average_decay_at(recipe, 990) == doctest::Approx(991.0 / 1000));
    CHECK(average_decay_at(recipe, 1000000) == 0.9999);
}

TEST_CASE("initial values do not depend on the compiler") {
    const std::vector<Variable> variables = find_recipe("cifar10-tutorial").model.variables();
    const std::vector<float> values = initial_values(variables[0], 1);
    REQUIRE(variables[0].name == "conv1/weights");
    const float expected[] = {-0.00758206206f, -0.0227249246f, 0.0812646672f, 0.00539698638f};
    for (std::size_t i = 0; i < std::size(expected); ++i) // not exactly equal, because math libraries differ
        CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

TEST_CASE("initial values have the tutorial's spread and its truncation, and depend on the seed") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    for (const Variable& variable : recipe.model.variables()) {
        CAPTURE(variable.name);
        const std::vector<float> values = initial_values(variable, 1);
        if (variable.initial.kind == Initial::Kind::constant) {
            for (const float value : values) REQUIRE(value == variable.initial.value);
            continue;
        }
        double sum = 0, squares = 0;
        for (const float value : values) {
            REQUIRE(std::abs(value) <= 2 * variable.initial.scale * 1.0001f);
            sum += value;
            squares += double(value) * value;
        }
        const double n = double(values.size());
        // Truncation at two sigma leaves 0.87962 of a normal's standard deviation.
        CHECK(std::abs(sum / n) < 5 * variable.initial.scale / std::sqrt(n));
        CHECK(std::sqrt(squares / n) / variable.initial.scale ==
              doctest::Approx(0.87962).epsilon(4 / std::sqrt(n)));
        CHECK(values != initial_values(variable, 2));
        CHECK(values == initial_values(variable, 1));
    }
}

TEST_CASE("--set of a table's kind removes keys that the new kind lacks, and says so") {
    using Changes = std::vector<std::string>;
    const Recipe plain = find_recipe("cifar10-fast", {"optimizer.weight_decay=0.1"});
    CHECK(plain.notes.empty());
    const Recipe adamw = find_recipe("cifar10-fast", {"optimizer.kind=adamw", "optimizer.beta_1=0.8"});
    CHECK(adamw.optimizer->decouples_decay());
    CHECK(adamw.optimizer->learning_rate == 0.4);
    CHECK(adamw.notes == Changes{"cifar10-fast.toml with --set: [optimizer] of kind \"adamw\" does not know "
                                 "momentum, nesterov: left out"});
    CHECK(adamw.text.find("momentum") == std::string::npos);
    const Recipe constant = find_recipe("cifar10-fast", {"schedule.kind=constant"});
    CHECK(constant.notes ==
          Changes{"cifar10-fast.toml with --set: [schedule] of kind \"constant\" does not know "
                  "epochs, peak: left out"});
    CHECK(constant.schedule.kind == Schedule::Kind::constant);
    CHECK(find_recipe("cifar10-fast", {"pipeline.kind=tutorial", "input.shape=[24, 24, 3]"}).notes.size() ==
          1);
    // Keys given by --set, and wrong keys in a file whose kind stays, are still refused.
    for (const Changes& bad : {Changes{"optimizer.kind=sgd", "optimizer.momentum=0.5"},
                               Changes{"optimizer.kind=momentum", "optimizer.momentun=0.5"},
                               Changes{"pipeline.kind=tutorial", "pipeline.train.flip=false"}})
        CHECK_THROWS_AS(find_recipe("cifar10-fast", bad), UsageError);
    CHECK_THROWS_AS(parse_recipe("bad", plain.text + "\n[averages]\nkind = \"x\"\n", "bad.toml",
                                 {"averages.decay=0.9", "averages.kind=x"}),
                    UsageError);
}

TEST_CASE("a recipe's precision is fp32 unless it names another, and --set changes it") {
    CHECK(find_recipe("cifar10-tutorial").precision == Precision::fp32);
    for (const Precision each : all_precisions) {
        const std::string change = "training.precision=" + std::string(name_of(each));
        CHECK(find_recipe("cifar10-tutorial", {change}).precision == each);
    }
    const Recipe rounding = find_recipe("cifar10-tutorial", {"training.precision=bf16"});
    CHECK(parse_recipe("kept", rounding.text, "recipe.toml").precision == Precision::bf16);
    CHECK(rounding.checksum != find_recipe("cifar10-tutorial").checksum);
}

TEST_CASE("--set without a value removes a key or a table") {
    const std::vector<std::string> defaults{"optimizer.nesterov=", "optimizer.weight_decay=", "schedule="};
    const Recipe recipe = find_recipe("cifar10-fast", defaults);
    CHECK(recipe.optimizer->weight_decay == 0);
    CHECK(recipe.schedule.kind == Schedule::Kind::constant);
    CHECK(recipe.text.find("nesterov") == std::string::npos);
    CHECK(recipe.notes.empty());
}

TEST_CASE("--set reaches into [[loss]]: the only one, which it may add, or the one that its logits name") {
    const auto heads = [](const char* recipe, const std::vector<std::string>& changes) {
        const Recipe changed = find_recipe(recipe, changes);
        const Recipe kept = parse_recipe(recipe, changed.text, "kept.toml");
        CHECK(kept.checksum == changed.checksum);
        CHECK(changed.checksum != find_recipe(recipe).checksum);
        return changed.model.heads;
    };
    const std::vector<LossHead> added = heads("cifar10-resnet20", {"loss.class_weights=balanced"});
    REQUIRE(added.size() == 1);
    CHECK(std::holds_alternative<BalancedClasses>(added[0].class_weights));
    CHECK(added[0].node == find_recipe("cifar10-resnet20").model.heads[0].node);
    CHECK(added[0].place == "cifar10-resnet20.toml with --set: [[loss]]");
    const LossHead only = heads("cifar10-fast", {"loss.smoothing=0.1"})[0];
    CHECK(only.smoothing == 0.1f);
    CHECK(only.logit_scale == 0.125f);
    CHECK(heads("cifar10-fast", {"loss.smoothing="})[0].smoothing == 0);
    CHECK(heads("cifar10-fast", {"loss.linear.smoothing=0.3"})[0].smoothing == 0.3f);
    const std::vector<LossHead> two =
        heads("inception-v3",
              {"loss.auxiliary.weight=0.3", "loss.logits.smoothing=", "loss.\"auxiliary\".smoothing=0"});
    CHECK(two[0].smoothing == 0);
    CHECK(two[0].weight == 1);
    CHECK(two[1].smoothing == 0);
    CHECK(two[1].weight == 0.3f);
    CHECK(std::get<std::vector<double>>(
              heads("mnist-lenet", {"loss.class_weights=[1,2,3,4,5,6,7,8,9,10]"})[0].class_weights)[9] == 10);
    using ByName = std::map<std::string, double>;
    CHECK(std::get<ByName>(heads("mnist-lenet", {"loss.class_weights={ cat = 2.5, dog = 1 }",
                                                 "loss.class_weights.\"a b\"=3"})[0]
                               .class_weights) == ByName{{"a b", 3}, {"cat", 2.5}, {"dog", 1}});

    const auto says = [](const char* recipe, const char* change) {
        try {
            find_recipe(recipe, {change});
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("it is sound");
    };
    CHECK(
        says("inception-v3", "loss.weight=2") ==
        "--set 'loss.weight=2': there are 2 tables of [[loss]]; name one by its logits: loss.logits.weight, "
        "loss.auxiliary.weight");
    CHECK(says("cifar10-resnet20", "loss.weight=") ==
          "--set 'loss.weight=': there is no 'weight' to take out; there is nothing");
    CHECK(says("cifar10-fast", "loss.auxiliary.weight=2")
              .starts_with("cifar10-fast.toml with --set: [[loss]]: 'auxiliary' is not known here; known are "
                           "class_weights, "));
    CHECK(says("cifar10-fast", "loss.weight=-1")
              .starts_with("cifar10-fast.toml with --set: [[loss]]: 'weight' is -1; give a number from "));
    CHECK(says("cifar10-fast", "loss.=1").starts_with("--set 'loss.=1': cannot be read as TOML ("));
    CHECK(says("cifar10-fast", "loss=1").starts_with("--set 'loss=1': give TABLE.KEY=VALUE"));
}

TEST_CASE("a recipe takes each example equally often unless its sampler says otherwise") {
    CHECK(find_recipe("cifar10-tutorial").sampling == Sampling::uniform);
    CHECK(find_recipe("cifar10-tutorial", {"training.sampler=uniform"}).sampling == Sampling::uniform);
    CHECK(find_recipe("cifar10-tutorial", {"training.sampler=balanced"}).sampling == Sampling::balanced);
}

TEST_CASE("the recipe that a run keeps is the one that it was trained with, whatever --set adds") {
    for (const std::vector<std::string>& changes :
         {std::vector<std::string>{"optimizer.clip_norm=5", "averages.decay=0.5"},
          {"optimizer.kind=adamw", "optimizer.beta_1=0.8"},
          {"averages.warm_up=true", "averages.decay=1"},
          {"optimizer.nesterov=", "schedule="}}) {
        const Recipe recipe = find_recipe("cifar10-fast", changes);
        CHECK(parse_recipe("cifar10-fast", recipe.text, "recipe.toml").checksum == recipe.checksum);
    }
}

TEST_CASE("each published defect can be brought back by its name") {
    CHECK(parse_quirks("none") == Quirks{});
    CHECK(parse_quirks("step-schedule,delete-run") == Quirks{.step_schedule = true, .delete_run = true});
    CHECK(parse_quirks("last-tower-loss,step-schedule,unordered-average,delete-run,padded-evaluation,"
                       "divided-batch-time") == Quirks{true, true, true, true, true, true});
    CHECK(parse_quirks("all") == Quirks{true, true, true, true, true, true});
    CHECK_THROWS_AS(parse_quirks("all,nonsense"), UsageError);
    CHECK_THROWS_AS(find_recipe("nonsense"), UsageError);
}

TEST_CASE("the magnitude of RandAugment is the last of few bins unless it is given") {
    const auto magnitude = [](const char* table) {
        return find_recipe("cifar10-resnet20", {std::string("pipeline.train.rand_augment=") + table})
            .pipeline.training.rand_augment.magnitude;
    };
    CHECK(magnitude("{ operations = 1 }") == 9);
    CHECK(magnitude("{ bins = 5 }") == 4);
    CHECK(magnitude("{ bins = 5, magnitude = 2 }") == 2);
}

} // namespace towers
