#include "engine/plan/network.h"

#include "engine/error.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <stdexcept>

namespace towers {
namespace {

constexpr unsigned nominal_tile = 64; // of a tiled product; it decides only the launch's group count

unsigned ceil_div(std::size_t a, std::size_t b) { return unsigned((a + b - 1) / b); }

/// What the layers' forward launches leave for backward.
struct LayerTensors {
    TensorId output, argmax, scale;
    Shape in, out;
    TensorId input;
    bool input_activated; ///< at most zero where a ReLU let nothing through
    bool output_activated;
};

class Builder {
public:
    explicit Builder(const NetworkSpec& spec) : spec_(spec), model_(*spec.model) {
        const ParameterLayout& layout = *spec.layout;
        parameters_ = plan_.tensor("parameters", Arena::parameters, 0, layout.bytes);
        step_ = plan_.tensor("step", Arena::step, 0, STEP_FLOATS * sizeof(float));
        const std::size_t image_bytes = std::size_t(spec.image_height) * spec.image_width * 3;
        const TensorId records = plan_.tensor("records", Arena::records, 0, spec.records * image_bytes);
        const TensorId all_labels = plan_.tensor("all_labels", Arena::labels, 0, spec.records * 4);
        const TensorId examples =
            plan_.tensor("examples", Arena::step, step_examples_offset, spec.batch * sizeof(uvec2));
        images_ = plan_.activation("images", activation_bytes(model_.input));
        labels_ = plan_.activation("labels", spec.batch * 4);
        if (model_.input.channels != 3) throw std::logic_error("plan: the pipeline makes RGB images");
        plan_.add("images", kernels::distort_images,
                  {.records = records,
                   .labels = all_labels,
                   .examples = examples,
                   .images = images_,
                   .batch_labels = labels_,
                   .seed_low = uint(spec.seed),
                   .seed_high = uint(spec.seed >> 32),
                   .count = spec.batch,
                   .height = spec.image_height,
                   .width = spec.image_width,
                   .crop_height = model_.input.height,
                   .crop_width = model_.input.width,
                   .distort = spec.distort ? 1u : 0u},
                  std::uint64_t(spec.batch) * 256);
    }

    void forward() {
        const std::vector<Shape> shapes = model_.output_shapes();
        for (std::size_t i = 0; i < model_.layers.size(); ++i) {
            const Layer& layer = model_.layers[i];
            const int from = model_.producer(layer.inputs[0]);
            LayerTensors t;
            t.in = from < 0 ? model_.input : shapes[std::size_t(from)];
            t.out = shapes[i];
            t.input = from < 0 ? images_ : layers_[std::size_t(from)].output;
            t.input_activated = from >= 0 && layers_[std::size_t(from)].output_activated;
            t.output = plan_.activation(layer.name, activation_bytes(t.out));
            std::visit([&](const auto& operation) { forward(layer, operation, t); }, layer.operation);
            layers_.push_back(t);
        }
    }

    void loss(bool evaluates) {
        const std::size_t words = std::size_t(spec_.batch) * 4;
        const unsigned classes = layers_.back().out.channels;
        losses_ = plan_.activation("losses", words);
        const TensorId correct = plan_.activation("correct", words);
        dlogits_ = plan_.activation("dlogits", words * classes);
        plan_.add("loss", kernels::softmax_cross_entropy,
                  {.logits = layers_.back().output,
                   .labels = labels_,
                   .dlogits = dlogits_,
                   .losses = losses_,
                   .correct = correct,
                   .rows = spec_.batch,
                   .classes = classes,
                   .scale = 1.0f / float(spec_.batch)},
                  spec_.batch);
        if (!evaluates) return;
        plan_.copy("losses out", losses_, plan_.tensor("staged_losses", Arena::staged_results, 0, words));
        plan_.copy("correct out", correct,
                   plan_.tensor("staged_correct", Arena::staged_results, aligned(words), words));
    }

    void backward() {
        TensorId dy = dlogits_;
        for (std::size_t i = layers_.size(); i-- > 0;) {
            const Layer& layer = model_.layers[i];
            const int from = model_.producer(layer.inputs[0]);
            if (from + 1 != int(i)) // in a chain each has one consumer
                throw std::logic_error(
                    fmt::format("plan: gradients of branches are not summed yet (layer {})", layer.name));
            const TensorId dx =
                from < 0 ? TensorId()
                         : plan_.activation("d " + layer.inputs[0], activation_bytes(layers_[i].in));
            std::visit([&](const auto& operation) { backward(layer, operation, layers_[i], dy, dx); },
                       layer.operation);
            dy = dx;
        }
    }

    /// Loss and finite check into Arena::results, and from there to staging.
    void results(bool checks_gradients) {
        const TensorId decays = plan_.tensor("decays", Arena::results, slice_alignment, decay_bytes_);
        results_ = plan_.tensor("results", Arena::results, 0, RESULT_FLOATS * sizeof(float));
        TensorId nonfinite;
        unsigned chunks = 0;
        if (checks_gradients) {
            chunks = REDUCTION_CHUNKS(spec_.layout->quads());
            nonfinite = plan_.activation("nonfinite", chunks * 4);
            plan_.add("finite check", kernels::count_nonfinite,
                      {.x = gradients(), .counts = nonfinite, .quads = spec_.layout->quads()}, chunks);
        }
        plan_.add("results", kernels::step_results,
                  {.losses = losses_,
                   .decays = decays,
                   .nonfinite = nonfinite,
                   .results = results_,
                   .loss_count = spec_.batch,
                   .decay_count = unsigned(decay_bytes_ / 4),
                   .nonfinite_count = chunks},
                  1);
        plan_.copy("results out", results_,
                   plan_.tensor("staged_results", Arena::staged_results, 0, RESULT_FLOATS * sizeof(float)));
    }

    void update() {
        const ParameterLayout& layout = *spec_.layout;
        plan_.add("update", kernels::sgd,
                  {.gradients = gradients(),
                   .parameters = parameters_,
                   .averages = plan_.tensor("averages", Arena::averages, 0, layout.bytes),
                   .step = step_,
                   .results = results_,
                   .quads = layout.quads(),
                   .average_first = spec_.average_first ? 1u : 0u},
                  layout.quads());
    }

    void receive_parameters() {
        plan_.copy("parameters in",
                   plan_.tensor("staged_parameters", Arena::staged_parameters, 0, spec_.layout->bytes),
                   parameters_);
    }

    void deliver_gradients(const std::vector<ArenaRange>& buckets) {
        for (const ArenaRange& bucket : buckets)
            plan_.copy(fmt::format("bucket {} out", &bucket - buckets.data()),
                       plan_.tensor("bucket", Arena::gradients, bucket.offset, bucket.bytes),
                       plan_.tensor("staged bucket", Arena::staged_gradients, bucket.offset, bucket.bytes));
    }

    Plan finish() {
        plan_.place();
        return std::move(plan_);
    }

private:
    std::size_t activation_bytes(const Shape& shape) const {
        // Kernels count elements in 32 bits, some of them with a sign.
        constexpr std::size_t most_elements = INT32_MAX;
        if (shape.elements() * spec_.batch > most_elements)
            throw UsageError(
                fmt::format("a share of {} examples is too large for one tower: at most {} fit; use a "
                            "smaller --batch or more towers",
                            spec_.batch, most_elements / shape.elements()));
        return shape.elements() * spec_.batch * sizeof(float);
    }

    TensorId gradients() { return plan_.tensor("gradients", Arena::gradients, 0, spec_.layout->bytes); }

    TensorId variable(const std::string& name, Arena arena) {
        for (const ParameterSlot& slot : spec_.layout->slots)
            if (slot.variable.name == name)
                return plan_.tensor(name + (arena == Arena::gradients ? " gradient" : ""), arena,
                                    slot.range.offset, slot.range.bytes);
        throw std::logic_error("plan: no variable " + name);
    }

    /// A convolution, or a dense layer as one.
    ConvShape conv_shape(const Conv2d& conv, const LayerTensors& t) const {
        const SamePadding rows = same_padding(t.in.height, conv.kernel, conv.stride);
        const SamePadding columns = same_padding(t.in.width, conv.kernel, conv.stride);
        return {.batch = spec_.batch,
                .in_height = t.in.height,
                .in_width = t.in.width,
                .in_channels = t.in.channels,
                .out_height = t.out.height,
                .out_width = t.out.width,
                .out_channels = t.out.channels,
                .kernel_height = conv.kernel,
                .kernel_width = conv.kernel,
                .stride = conv.stride,
                .pad_top = rows.before,
                .pad_left = columns.before};
    }
    ConvShape conv_shape(const Dense&, const LayerTensors& t) const {
        return {.batch = spec_.batch,
                .in_height = 1,
                .in_width = 1,
                .in_channels = unsigned(t.in.elements()),
                .out_height = 1,
                .out_width = 1,
                .out_channels = t.out.channels,
                .kernel_height = 1,
                .kernel_width = 1,
                .stride = 1,
                .pad_top = 0,
                .pad_left = 0};
    }
    PoolShape pool_shape(const MaxPool& pool, const LayerTensors& t) const {
        return {.batch = spec_.batch,
                .in_height = t.in.height,
                .in_width = t.in.width,
                .channels = t.in.channels,
                .out_height = t.out.height,
                .out_width = t.out.width,
                .window = pool.window,
                .stride = pool.stride,
                .pad_top = same_padding(t.in.height, pool.window, pool.stride).before,
                .pad_left = same_padding(t.in.width, pool.window, pool.stride).before};
    }

    /// Items that give one workgroup to each tile of an m x n product.
    static std::uint64_t tile_items(std::size_t m, std::size_t n) {
        return std::uint64_t(ceil_div(m, nominal_tile)) * ceil_div(n, nominal_tile) * 256;
    }

    template<class Weighted> // Conv2d or Dense
    void forward(const Layer& layer, const Weighted& operation, LayerTensors& t) {
        const ConvShape shape = conv_shape(operation, t);
        t.output_activated = operation.relu;
        plan_.add(
            layer.name + " forward", kernels::conv2d_forward,
            {.x = t.input,
             .w = variable(layer.name + "/weights", Arena::parameters),
             .b = variable(layer.name + "/biases", Arena::parameters),
             .y = t.output,
             .shape = shape,
             .relu = operation.relu ? 1u : 0u},
            tile_items(std::size_t(shape.batch) * shape.out_height * shape.out_width, shape.out_channels));
    }
    void forward(const Layer& layer, const MaxPool& pool, LayerTensors& t) {
        // The maximum of a ReLU's outputs is itself one of them, and gradients reach only its place: masking
        // the gradient of this output also masks it for the layer before.
        t.output_activated = t.input_activated;
        const unsigned quads = (t.in.channels + 3) / 4 * t.out.height * t.out.width * spec_.batch;
        t.argmax = plan_.activation(layer.name + " argmax", quads * 4);
        plan_.add(layer.name + " forward", kernels::max_pool_forward,
                  {.x = t.input, .y = t.output, .argmax = t.argmax, .shape = pool_shape(pool, t)}, quads);
    }
    void forward(const Layer& layer, const LocalResponseNorm& norm, LayerTensors& t) {
        t.output_activated = false;
        t.scale = plan_.activation(layer.name + " scale", activation_bytes(t.out));
        const unsigned pixels = spec_.batch * t.in.height * t.in.width;
        plan_.add(layer.name + " forward", kernels::lrn_forward,
                  {.x = t.input,
                   .y = t.output,
                   .scale = t.scale,
                   .pixels = pixels,
                   .channels = t.in.channels,
                   .radius = norm.radius,
                   .bias = norm.bias,
                   .alpha = norm.alpha,
                   .beta = norm.beta},
                  std::uint64_t(pixels) * ceil_div(t.in.channels, 16));
    }

    template<class Weighted>
    void backward(const Layer& layer, const Weighted& operation, const LayerTensors& t, TensorId dy,
                  TensorId dx) {
        const ConvShape shape = conv_shape(operation, t);
        const TensorId weights = variable(layer.name + "/weights", Arena::parameters);
        backward_weights(layer, shape, t, dy);
        if (dx)
            plan_.add(
                layer.name + " data gradient", kernels::conv2d_backward_data,
                {.dy = dy,
                 .w = weights,
                 .x = t.input,
                 .dx = dx,
                 .shape = shape,
                 .relu = t.input_activated ? 1u : 0u},
                tile_items(std::size_t(shape.batch) * shape.in_height * shape.in_width, shape.in_channels));
        if (operation.initial.weight_decay != 0) decay(layer, operation.initial.weight_decay, weights);
    }

    void backward_weights(const Layer& layer, const ConvShape& shape, const LayerTensors& t, TensorId dy) {
        const TensorId dw = variable(layer.name + "/weights", Arena::gradients);
        const TensorId db = variable(layer.name + "/biases", Arena::gradients);
        const unsigned rows = shape.kernel_height * shape.kernel_width * shape.in_channels;
        const std::size_t pixels = std::size_t(shape.batch) * shape.out_height * shape.out_width;
        // Few tiles leave a wide device idle, so the sum over pixels is then split as well.
        const unsigned tiles = ceil_div(rows + 1, nominal_tile) * ceil_div(shape.out_channels, nominal_tile);
        const unsigned most = std::max(1u, unsigned(pixels / 256));
        const unsigned splits = std::clamp(spec_.parallel_groups / tiles, 1u, most);
        const bool split = splits > 1;
        const std::size_t weight_bytes = std::size_t(rows) * shape.out_channels * 4;
        const std::size_t bias_bytes = std::size_t(shape.out_channels) * 4;
        const TensorId dw_parts =
            split ? plan_.activation(layer.name + " dw parts", splits * weight_bytes) : dw;
        const TensorId db_parts =
            split ? plan_.activation(layer.name + " db parts", splits * bias_bytes) : db;
        plan_.add(layer.name + " weights gradient", kernels::conv2d_backward_weights,
                  {.x = t.input, .dy = dy, .dw = dw_parts, .db = db_parts, .shape = shape, .splits = splits},
                  tile_items(rows + 1, shape.out_channels) * splits);
        if (!split) return;
        plan_.add(layer.name + " weights gradient sum", kernels::sum_partials,
                  {.partials = dw_parts, .sum = dw, .parts = splits, .count = rows * shape.out_channels},
                  rows * shape.out_channels);
        plan_.add(layer.name + " biases gradient sum", kernels::sum_partials,
                  {.partials = db_parts, .sum = db, .parts = splits, .count = shape.out_channels},
                  shape.out_channels);
    }

    void decay(const Layer& layer, float rate, TensorId weights) {
        const TensorId dw = variable(layer.name + "/weights", Arena::gradients);
        const std::size_t bytes = plan_.tensors()[weights.index()].bytes;
        const unsigned quads = ceil_div(bytes, 16);
        const unsigned chunks = REDUCTION_CHUNKS(quads);
        const std::size_t offset = slice_alignment + decay_bytes_;
        decay_bytes_ += aligned(chunks * 4); // gaps between lists stay zero and add nothing
        const TensorId partials = plan_.tensor(layer.name + " decay", Arena::results, offset, chunks * 4);
        plan_.add(layer.name + " weight decay", kernels::weight_decay,
                  {.w = weights, .dw = dw, .partials = partials, .decay = rate, .quads = quads}, chunks);
    }

    void backward(const Layer& layer, const MaxPool& pool, const LayerTensors& t, TensorId dy, TensorId dx) {
        if (!dx) return;
        plan_.add(layer.name + " backward", kernels::max_pool_backward,
                  {.dy = dy, .argmax = t.argmax, .dx = dx, .shape = pool_shape(pool, t)},
                  std::uint64_t(spec_.batch) * t.in.height * t.in.width * ceil_div(t.in.channels, 4));
    }
    void backward(const Layer& layer, const LocalResponseNorm& norm, const LayerTensors& t, TensorId dy,
                  TensorId dx) {
        if (!dx) return;
        const unsigned pixels = spec_.batch * t.in.height * t.in.width;
        plan_.add(layer.name + " backward", kernels::lrn_backward,
                  {.x = t.input,
                   .y = t.output,
                   .scale = t.scale,
                   .dy = dy,
                   .dx = dx,
                   .pixels = pixels,
                   .channels = t.in.channels,
                   .radius = norm.radius,
                   .alpha = norm.alpha,
                   .beta = norm.beta,
                   .relu = t.input_activated ? 1u : 0u},
                  std::uint64_t(pixels) * ceil_div(t.in.channels, 16));
    }

    const NetworkSpec& spec_;
    const Model& model_;
    Plan plan_;
    TensorId parameters_, step_, images_, labels_, losses_, dlogits_, results_;
    std::vector<LayerTensors> layers_;
    std::size_t decay_bytes_ = 0;
};

} // namespace

TrainingPlan plan_single_step(const NetworkSpec& spec) {
    Builder builder(spec);
    builder.forward();
    builder.loss(false);
    builder.backward();
    builder.results(true);
    builder.update();
    TrainingPlan training{builder.finish(), {}, {}};
    training.cuts = {training.plan.levels().size()};
    return training;
}

TrainingPlan plan_shared_step(const NetworkSpec& spec, std::size_t bucket_bytes) {
    const std::vector<ArenaRange> buckets = make_buckets(*spec.layout, bucket_bytes);
    Builder builder(spec);
    builder.receive_parameters();
    builder.forward();
    builder.loss(false);
    builder.backward();
    builder.results(false);
    builder.deliver_gradients(buckets);
    TrainingPlan training{builder.finish(), buckets, {}};
    // A recording ends with the level that delivers its bucket.
    const std::vector<Level>& levels = training.plan.levels();
    for (const ArenaRange& bucket : buckets) {
        const auto delivers = [&](const Operation& operation) {
            const auto* copy = std::get_if<PlannedCopy>(&operation.work);
            if (copy == nullptr) return false;
            const PlannedTensor& target = training.plan.tensors()[copy->target.index()];
            return target.arena == Arena::staged_gradients && target.offset == bucket.offset;
        };
        const auto level = std::find_if(levels.begin(), levels.end(), [&](const Level& each) {
            return std::any_of(each.begin(), each.end(), delivers);
        });
        // A bucket may be complete before the one that goes out ahead of it.
        const std::size_t end = std::size_t(level - levels.begin()) + 1;
        training.cuts.push_back(training.cuts.empty() ? end : std::max(end, training.cuts.back()));
    }
    training.cuts.back() = levels.size();
    return training;
}

Plan plan_evaluation(const NetworkSpec& spec) {
    Builder builder(spec);
    builder.forward();
    builder.loss(true);
    return builder.finish();
}

} // namespace towers
