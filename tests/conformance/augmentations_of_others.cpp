// The augmentation against tests/fixtures/augmentations.safetensors: what torchvision and timm made of some
// images, with what they had drawn.
#include "engine/run/safetensors.h"
#include "tests/conformance/harness.h"
#include "tests/support/files.h"

#include "engine/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace towers {
namespace {

using namespace test;
using Words = std::vector<std::uint32_t>;

constexpr ImageSize size{16, 18, 3};
constexpr double grey_level = 1, of_255 = 255;

class Fixture {
public:
    const std::vector<float>& operator[](const std::string& name) const {
        return file_.tensors.at(name).values;
    }
    /// Row n of a tensor of so many
    std::span<const float> row(const std::string& name, std::size_t n, std::size_t rows) const {
        const std::vector<float>& values = (*this)[name];
        return std::span(values).subspan(n * (values.size() / rows), values.size() / rows);
    }
    std::size_t rows(const std::string& name) const { return file_.tensors.at(name).shape[0]; }
    std::vector<float> image(float which) const {
        const std::span<const float> found = row("images", std::size_t(which), 4);
        return {found.begin(), found.end()};
    }

private:
    TensorFile file_ = read_safetensors(test::source_folder() / "tests/fixtures/augmentations.safetensors");
};

/// The image after one operation, of numbers as draw_operations leaves them
std::vector<float> transformed(Device& device, const std::vector<float>& image, std::vector<float> drawn) {
    drawn.resize(OPERATION_DRAWS * 4);
    TransformImagesParams p{};
    p.count = p.slots = 1;
    p.height = size.height;
    p.width = size.width;
    p.channels = size.channels;
    p.scale_r = p.scale_g = p.scale_b = 1;
    Trial trial(device);
    p.x = trial.input(image);
    p.operations = trial.input(drawn);
    p.draws = trial.input(std::vector<float>(4));
    const test::Tensor y = trial.output(image.size());
    p.y = y;
    trial.run(launch(kernels::transform_images, p));
    return trial.floats(y);
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
    REQUIRE(a.size() == b.size());
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        largest = std::max(largest, std::abs(double(a[i]) - double(b[i])));
    return largest;
}

} // namespace

TEST_CASE("a policy's operations make torchvision's bytes") {
    const Fixture fixture;
    const std::size_t rows = fixture.rows("policy/draws");
    on_every_device([&](Device& device) {
        for (std::size_t n = 0; n < rows; ++n) {
            const std::span<const float> drawn = fixture.row("policy/draws", n, rows);
            const auto kind = uint(drawn[1]);
            INFO("operation ", kind, " of ", drawn[2], ", image ", drawn[0]);
            // torchvision blends in float32 and drops the fraction, so that a whole number may lose one.
            const bool blends = kind >= OPERATION_BRIGHTNESS && kind <= OPERATION_SHARPNESS;
            CHECK(largest_difference(transformed(device, fixture.image(drawn[0]), {drawn[1], drawn[2]}),
                                     fixture.row("policy/results", n, rows)) <= (blends ? grey_level : 0));
        }
    });
}

TEST_CASE("rotation, colour jitter, grayscale and blur make torchvision's floats") {
    const Fixture fixture;
    on_every_device([&](Device& device) {
        const auto check = [&](const std::string& kind, auto make) {
            const std::size_t rows = fixture.rows(kind + "/draws");
            for (std::size_t n = 0; n < rows; ++n) {
                INFO(kind, " ", n);
                const std::span<const float> drawn = fixture.row(kind + "/draws", n, rows);
                CHECK(largest_difference(make(fixture.image(drawn[0]), drawn),
                                         fixture.row(kind + "/results", n, rows)) < 1e-5 * of_255);
            }
        };
        using Image = std::vector<float>;
        using Drawn = std::span<const float>;
        check("rotation", [&](const Image& image, Drawn d) {
            return transformed(device, image, {OPERATION_ROTATION, d[1], d[2]});
        });
        check("jitter", [&](const Image& image, Drawn d) {
            return transformed(device, image,
                               {OPERATION_JITTER, 15 + 16 * d[2], d[1], 0, d[3], d[4], d[5], d[6]});
        });
        check("blur", [&](const Image& image, Drawn d) {
            return transformed(device, transformed(device, image, {OPERATION_BLUR_ROWS, d[2], d[1]}),
                               {OPERATION_BLUR_COLUMNS, d[2], d[1]});
        });
    });
}

TEST_CASE("policies have torchvision's magnitudes") {
    const Fixture fixture;
    on_every_device([&](Device& device) {
        const auto check = [&](const Augmentation& a, const std::string& name, auto bin_of) {
            constexpr unsigned count = 1000;
            Words examples;
            for (unsigned i = 0; i < count; ++i) examples.insert(examples.end(), {i, i, 0, 0});
            DrawOperationsParams p = augmentation_launches(a, size, size, 9, count).operations;
            Trial trial(device);
            p.examples = trial.input(examples);
            p.draws = trial.input(std::vector<float>(count * AUGMENT_DRAWS * 4));
            const test::Tensor out = trial.output(count * OPERATION_DRAWS * 4);
            p.operations = out;
            trial.run(launch(kernels::draw_operations, p));
            const std::vector<float> drawn = trial.floats(out);
            const std::vector<float>& table = fixture[name];
            for (unsigned i = 0; i < count; ++i) {
                const auto kind = std::size_t(drawn[i * 8]);
                const double magnitude = std::abs(double(drawn[i * 8 + 1]));
                INFO(name, ", operation ", kind, ", magnitude ", magnitude);
                CHECK(bin_of(std::span(table).subspan((kind - 1) * 31, 31), magnitude));
            }
        };
        const auto near = [](double a, float b) { return std::abs(a - double(b)) < 1e-5; };
        for (unsigned level = 0; level < 31; ++level) {
            Augmentation a;
            a.rand_augment = {1, level, 31};
            check(a, "magnitudes/rand", [&](std::span<const float> bins, double magnitude) {
                return near(magnitude, bins[level]);
            });
        }
        Augmentation a;
        a.trivial_augment = true;
        check(a, "magnitudes/trivial", [&](std::span<const float> bins, double magnitude) {
            return std::ranges::any_of(bins, [&](float bin) { return near(magnitude, bin); });
        });
    });
}

TEST_CASE("antialiased boxes make torchvision's floats") {
    const Fixture fixture;
    on_every_device([&](Device& device) {
        for (int n = 0; n < 3; ++n) {
            const std::string name = "resize/" + std::to_string(n);
            INFO(name);
            const std::vector<float>&drawn = fixture[name + "/draws"], &expected = fixture[name + "/results"];
            const ImageSize made = n == 0   ? ImageSize{5, 7, 3}
                                   : n == 1 ? ImageSize{8, 20, 3}
                                            : ImageSize{11, 4, 3};
            const std::vector<float> image = fixture.image(drawn[0]);
            std::vector<std::uint8_t> planes(image.size());
            for (std::size_t i = 0; i < image.size(); ++i)
                planes[i % 3 * size.height * size.width + i / 3] = std::uint8_t(image[i]);
            Words records((planes.size() + 3) / 4);
            std::memcpy(records.data(), planes.data(), planes.size());
            Augmentation a;
            a.antialias = true;
            AugmentImagesParams p = augmentation_launches(a, size, made, 1, 1).images;
            Trial trial(device);
            p.records = trial.input(records);
            p.examples = trial.input(Words{0, 0, 0, 0});
            p.draws = trial.input(
                std::vector<float>{drawn[1], drawn[2], drawn[3], drawn[4], 1, 1, 1, 0, drawn[5], 0, 0, 0});
            p.grey_sums = trial.input(Words(2));
            const test::Tensor images = trial.output(expected.size()), labels = trial.output(1);
            p.images = images;
            p.batch_labels = labels;
            trial.run(launch(kernels::augment_images, p));
            CHECK(largest_difference(trial.floats(images), expected) < 1e-5 * of_255);
        }
    });
}

TEST_CASE("erased boxes make timm's values") {
    const Fixture fixture;
    on_every_device([&](Device& device) {
        for (const std::string mode : {"const", "rand"}) {
            INFO(mode);
            std::vector<float> values = fixture["images"];
            for (float& value : values) value = (value - 120) / 60;
            EraseBoxesParams p{};
            p.count = 4;
            p.height = size.height;
            p.width = size.width;
            p.channels = size.channels;
            p.most = 2;
            p.mode = mode == "const" ? ERASING_CONST : ERASING_RAND;
            Trial trial(device);
            p.examples = trial.input(Words(16));
            p.boxes = trial.input(fixture["erasing/" + mode + "/boxes"]);
            const test::Tensor images = trial.in_out(values);
            p.images = images;
            trial.run(launch(kernels::erase_boxes, p));
            CHECK(trial.floats(images) == fixture["erasing/" + mode + "/results"]);
        }
    });
}

} // namespace towers
