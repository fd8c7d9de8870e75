// Choices as a file: what one run has measured, another takes over.
#include "engine/tuning/choices_file.h"

#include "tests/support/files.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

using test::input_error;

std::vector<DeviceChoices> two_devices() {
    return {
        {"cuda",
         "Card \"1\"",
         "driver 5",
         "abc",
         {{"conv2d_forward 1 2", {"quads", {.groups = {3, 2, 1}, .tile = Tile{64, 32, 128}, .splits = 4}}},
          {"conv2d_forward 3", {"Winograd", {.tile = Tile{64, 64, 256}, .winograd_tile = 2}}},
          {"relu_forward 9", {"shared text", {.groups = {7, 1, 1}}}}}},
        {"cpu", "Processor", "oneDNN", "abc", {{"conv2d_forward 1 2", {"Winograd", {.winograd_tile = 4}}}}}};
}

} // namespace

TEST_CASE("choices survive being written and read") {
    const std::vector<DeviceChoices> before = two_devices();
    const std::string text = choices_to_json(before);
    const std::vector<DeviceChoices> after = choices_from_json(text, "here");
    CHECK(choices_to_json(after) == text);
    REQUIRE(after.size() == 2);
    CHECK(after[0].backend == "cuda");
    CHECK(after[0].name == "Card \"1\"");
    CHECK(after[0].driver == "driver 5");
    CHECK(after[0].kernels == "abc");
    REQUIRE(after[0].choices.size() == 3);
    const Chosen& quads = after[0].choices.at("conv2d_forward 1 2");
    CHECK(quads.variant == "quads");
    CHECK(alike(quads.config, before[0].choices.at("conv2d_forward 1 2").config));
    CHECK(quads.config.groups == glm::uvec3(3, 2, 1));
    const Chosen& winograd = after[0].choices.at("conv2d_forward 3");
    CHECK(alike(winograd.config, before[0].choices.at("conv2d_forward 3").config));
    CHECK(to_string(winograd.variant, winograd.config) == "Winograd 2x2 by 64x64");
    CHECK(after[1].choices.at("conv2d_forward 1 2").config.winograd_tile == 4);
    CHECK_FALSE(after[1].choices.at("conv2d_forward 1 2").config.tile);
}

TEST_CASE("files that are damaged or something else are refused in one line") {
    const auto refusal = [](const std::string& text) {
        return input_error([&] { choices_from_json(text, "the file"); });
    };
    const std::string sound = choices_to_json(two_devices());
    for (std::size_t size = 0; size + 1 < sound.size(); size += 7) {
        CAPTURE(size);
        CHECK(refusal(sound.substr(0, size)).starts_with("the file: is damaged, or has no choices: "));
    }
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = sound;
        REQUIRE(text.find(from) != std::string::npos);
        return text.replace(text.find(from), from.size(), to);
    };
    CHECK(refusal("{\"format\":\"towers bench\"}") == "the file: has no choices");
    CHECK(refusal(with("\"version\": 1", "\"version\": 2")) ==
          "the file: has choices of another version of this program; tune anew");
    for (const auto& text : {with("\"parts\": 4", "\"parts\": \"many\""), with("\"variant\"", "\"varmint\""),
                             with("\"devices\"", "\"device\""), std::string("[]"), std::string("null")})
        CHECK(refusal(text).starts_with("the file: is damaged, or has no choices: "));
}

TEST_CASE("a launch's key has its parameters and not its tensors") {
    const Launch lrn = launch(kernels::lrn_forward, {.pixels = 6, .channels = 2});
    CHECK(key_of(lrn).starts_with("lrn_forward 6 2"));
    float x[8]{};
    CHECK(key_of(launch(kernels::leaky_relu_forward, {.x = {x}, .count = 8, .slope = 0.5f})) ==
          "leaky_relu_forward 8 0.5f");
    // After an odd number of words a block has padding.
    Launch gradient = launch(kernels::multiply_backward_scale, {.batch = 2, .pixels = 3, .channels = 4});
    gradient.parameters.bytes[kernel_info(gradient.kernel).parameter_bytes - 1] = std::byte(1);
    CHECK(key_of(gradient) == "multiply_backward_scale 2 3 4");
}

} // namespace towers
