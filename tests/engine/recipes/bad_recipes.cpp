// The messages about recipes with one mistake each.
#include "backends/error.h"
#include "engine/train/describe.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <string>

namespace towers {
namespace {

const std::string sound = R"(description = "A network for tests"

[input]
shape = [32, 32, 3]
classes = 10

[defaults.dense]
stddev = 0.05

[blocks.residual]
stride = 1
layers = [
  { name = "conv", kind = "conv2d", filters = "$filters", kernel = 3, stride = "$stride" },
  { name = "bn", kind = "batch_norm", group = 8 },
  { name = "add", kind = "add", inputs = ["bn", "input"] },
]

[network]
layers = [
  { name = "conv1", kind = "conv2d", filters = 16, kernel = 3, activation = "relu" },
  { name = "pool1", kind = "max_pool", window = 2, stride = 2 },
  { name = "body", use = "residual", repeat = 2, filters = 16 },
  { name = "drop", kind = "dropout", keep = 0.5 },
  { name = "fc", kind = "dense", units = 10 },
]

[[loss]]
logits = "fc"

[pipeline]
values = "normalized"

[pipeline.train]
box = "random_crop"
pad = 4

[optimizer]
kind = "momentum"
learning_rate = 0.1

[schedule]
kind = "piecewise"
boundaries = [10, 20]
factors = [0.1, 0.01]

[training]
batch = 32
steps = 1000
)";

/// Replaces `from` by `to` in `sound`; the message must name this line and begin like this.
struct Mistake {
    const char *from, *to;
    unsigned line;
    const char* says;
};

// clang-format off
const Mistake mistakes[] = {
    {"[input]", "[input", 3, "Error while parsing table header: expected ']', saw '\\n'"},
    {"classes = 10", "classes == 10", 5, "this is no value; write \"text\", a number, true, false, [ a list"},
    {"classes = 10", "classes = 10\nclasses = 10", 6, "Error while parsing key-value pair: cannot redefine existing"},
    {"description = \"A network for tests\"", "description = \"A network for tests", 1, "text in quotes does not end on its line; add the closing quote"},
    {"steps = 1000", "steps = 2026-11-22", 48, "dates and times have no use in a recipe; write text or a number"},
    {"[training]", "[input]", 46, "Error while parsing table header: cannot redefine existing"},
    {"[training]\nbatch = 32\nsteps = 1000\n", "", 1, "[training] needs 'batch'; give a whole number from 1 to 1048576"},
    {"[optimizer]\nkind = \"momentum\"\nlearning_rate = 0.1\n", "", 1, "[optimizer] needs 'kind'; give one of adam, adamw, momentum,"},
    {"[input]\nshape = [32, 32, 3]\nclasses = 10\n", "", 1, "[input] needs 'shape'; give a list of 3 whole numbers from 1 to"},
    {"[network]", "[netwrok]", 18, "the recipe: 'netwrok' is not known here, but 'network' is; known are averages,"},
    {"[[loss]]\nlogits = \"fc\"", "[loss]\nlogits = \"fc\"", 27, "the recipe: 'loss' is { logits = \"fc\" }; give a list of tables,"},
    {"[input]\nshape = [32, 32, 3]\nclasses = 10\n\n[d", "input = 3\n[d", 3, "the recipe: 'input' is 3; give a table"},
    {"[training]", "[trainnig]", 46, "the recipe: 'trainnig' is not known here, but 'training' is; known are averages,"},
    {"shape = [32, 32, 3]", "shape = 32", 4, "[input]: 'shape' is 32; give a list of 3 whole numbers from 1"},
    {"shape = [32, 32, 3]", "shape = [32, 32]", 4, "[input]: 'shape' is [32, 32]; give a list of 3 whole numbers"},
    {"shape = [32, 32, 3]", "shape = [32, 32, 4]", 4, "[input]: 'shape' has 4 channels; give 1 (grey) or 3 (red,"},
    {"shape = [32, 32, 3]", "shape = [32.5, 32, 3]", 4, "[input]: 'shape' is [32.5, 32, 3]; give a list of 3 whole"},
    {"classes = 10", "classes = 1", 5, "[input]: 'classes' is 1; give a whole number from 2 to 1048576"},
    {"classes = 10", "classes = \"ten\"", 5, "[input]: 'classes' is \"ten\"; give a whole number from 2 to"},
    {"batch = 32", "batch = 0", 47, "[training]: 'batch' is 0; give a whole number from 1 to 1048576"},
    {"batch = 32", "batch = 32.0", 47, "[training]: 'batch' is 32.0; give a whole number from 1 to"},
    {"batch = 32", "batch = 12", 47, "[training]: 'batch' is 12, but batch norm takes groups of 8"},
    {"steps = 1000", "steps = 1000\nprecision = \"half\"", 49, "[training]: 'precision' is \"half\"; give one of fp32, tf32, bf16, fp16"},
    {"steps = 1000", "steps = 1000\nprecision = 16", 49, "[training]: 'precision' is 16; give one of fp32, tf32, bf16, fp16"},
    {"steps = 1000", "steps = -1", 48, "[training]: 'steps' is -1; give a whole number from 1 to"},
    {"learning_rate = 0.1", "learning_rate = \"0.1\"", 39, "[optimizer]: 'learning_rate' is \"0.1\"; give a number from 0 to"},
    {"learning_rate = 0.1", "learning_rate = nan", 39, "[optimizer]: 'learning_rate' is nan; give a number from 0 to"},
    {"learning_rate = 0.1", "momentum = 1.5\nlearning_rate = 0.1", 39, "[optimizer]: 'momentum' is 1.5; give a number from 0 to 1"},
    {"learning_rate = 0.1", "learing_rate = 0.1", 37, "[optimizer] needs 'learning_rate', not 'learing_rate'; give a number from 0 to"},
    {"keep = 0.5", "keep = 0", 23, "layer 'drop': 'keep' is 0; give a number from 1e-06 to 1"},
    {"keep = 0.5", "rate = 0.5", 23, "layer 'drop' needs 'keep', not 'rate' (keep = 1 - rate); give a number from 1e-06 to 1"},
    {"activation = \"relu\"", "activation = \"rellu\"", 20, "layer 'conv1': 'activation' is \"rellu\"; give one of gelu, "},
    {"activation = \"relu\"", "stddev = 0.1, init = \"he_normal\"", 20, "layer 'conv1': 'stddev' and 'init' both say how the weights"},
    {"activation = \"relu\"", "init = \"he\"", 20, "layer 'conv1': 'init' is \"he\"; give one of he_normal,"},
    {"activation = \"relu\"", "bias = \"no\"", 20, "layer 'conv1': 'bias' is \"no\"; give false, or the number that"},
    {"group = 8", "group = 0", 14, "layer 'body/1/bn': 'group' is 0; give a whole number from 1 to"},
    {"group = 8", "group = \"all\"", 14, "layer 'body/1/bn': 'group' is \"all\"; give a number of examples,"},
    {"group = 8", "gama = false", 14, "layer 'body/1/bn': 'gama' is not known here, but 'gamma' is; known are"},
    {"kind = \"conv2d\", filters = 16", "kind = \"conv3d\", filters = 16", 20, "layer 'conv1': 'kind' is \"conv3d\", but there is no such layer;"},
    {"kind = \"conv2d\", filters = 16", "filters = 16", 20, "a layer needs 'kind'; give text in quotes"},
    {"filters = 16, kernel = 3, activation", "filters = 16, activation", 20, "layer 'conv1' needs 'kernel'; give a whole number from 1 to"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = [3, 3, 3], activation", 20, "layer 'conv1': 'kernel' is [3, 3, 3]; give a whole number from"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, padding = 1, activation", 20, "layer 'conv1': 'padding' is not known here, but 'pad' is; known are"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, pad = \"full\", activation", 20, "layer 'conv1': 'pad' is \"full\"; give \"same\", \"valid\" or pixels from 0 to 1024:"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, pad = 3, activation", 20, "layer 'conv1': 'pad' is 3, so that a window of 3x3 lies in"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, pad = [1, 1, 1], activation", 20, "layer 'conv1': 'pad' is [1, 1, 1]; give \"same\", \"valid\" or pixels from 0 to 1024: one number, [height, width], or [top, bottom, left, right]"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, groups = 5, activation", 20, "layer 'conv1' has 5 groups for 3 input channels and 16 filters;"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, groups = \"all\", activation", 20, "layer 'conv1': 'groups' is \"all\"; give a number, or \"depthwise\""},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 64, pad = \"valid\", activation", 20, "layer 'conv1' has a window of 64x64, larger than its input of"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, dilation = 20, pad = \"valid\", activation", 20, "layer 'conv1' has a window of 41x41, larger than its input of"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, dilation = 2, pad = 5, activation", 20, "layer 'conv1': 'pad' is 5, so that a window of 5x5 lies in"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, dilation = 0, activation", 20, "layer 'conv1': 'dilation' is 0; give a whole number from 1 to 1024"},
    {"kind = \"conv2d\", filters = 16", "kind = \"conv2d_transpose\", filters = 16", 20, "layer 'conv1': 'kind' is \"conv2d_transpose\", but there are no transposed convolutions:"},
    {"window = 2, stride = 2", "window = 2, stride = 2, dilation = 2", 21, "layer 'pool1': 'dilation' is not known here; known are"},
    {"window = 2, stride = 2", "window = 17, stride = 1", 21, "layer 'pool1': 'window' has more than 256 places; use a smaller"},
    {"window = 2, stride = 2", "window = 64, stride = 1, pad = 0", 21, "layer 'pool1': 'window' has more than 256 places; use a smaller"},
    {"units = 10", "units = 10000000", 24, "layer 'fc': 'units' is 10000000; give a whole number from 1 to"},
    {"units = 10", "units = 11", 28, "[[loss]]: 'logits' is \"fc\", which makes [1, 1, 11], but 10"},
    {"name = \"pool1\", kind = \"max_pool\"", "name = \"conv1\", kind = \"max_pool\"", 21, "a layer: 'name' is \"conv1\", which another layer has; use another"},
    {"name = \"pool1\", kind = \"max_pool\"", "name = \"pool/1\", kind = \"max_pool\"", 21, "a layer: 'name' is \"pool/1\"; use a name without spaces and '/'"},
    {"name = \"pool1\", kind = \"max_pool\"", "name = \"images\", kind = \"max_pool\"", 21, "a layer: 'name' is \"images\", which has a meaning; use another"},
    {"keep = 0.5 },", "keep = 0.5, input = \"fc\" },", 23, "a layer: 'input' names \"fc\", but no layer before this one has"},
    {"keep = 0.5 },", "keep = 0.5, input = \"poool1\" },", 23, "a layer: 'input' names \"poool1\", but no layer before this one"},
    {"keep = 0.5 },", "keep = 0.5, input = 3 },", 23, "a layer: 'input' is 3; give text in quotes, or a list of it"},
    {"keep = 0.5 },", "keep = 0.5, inputs = [\"pool1\", \"conv1\"] },", 23, "layer 'drop' has 2 inputs; a layer of kind dropout takes 1"},
    {"keep = 0.5 },", "keep = 0.5, input = \"conv1\" },", 15, "layer 'body/2/add' makes what no layer takes and no loss is"},
    {"inputs = [\"bn\", \"input\"]", "input = \"bn\"", 15, "layer 'body/1/add' has 1 input; a layer of kind add takes 2 to 8"},
    {"stride = 1\nlayers", "stride = 2\nlayers", 15, "layer 'body/1/add' adds [8, 8, 16] and [16, 16, 16]; its inputs"},
    {"{ name = \"drop\", kind = \"dropout\", keep = 0.5 }", "{ name = \"join\", kind = \"concatenate\", inputs = [\"conv1\", \"body\"] }", 23, "layer 'join' joins [32, 32, 16] and [16, 16, 16]; its inputs"},
    {"{ name = \"drop\", kind = \"dropout\", keep = 0.5 }", "\"dropout\"", 23, "a layer is \"dropout\"; write a table, such as { kind = \"relu\" }"},
    {"use = \"residual\"", "use = \"residaul\"", 22, "a layer: 'use' is \"residaul\", but there is no"},
    {"repeat = 2, filters = 16", "repeat = 2, filters = 16, strde = 2", 22, "a layer: 'strde' is used by no layer of the block (but there is 'stride'); write"},
    {"repeat = 2, filters = 16", "repeat = 2", 13, "\"$filters\": the block is given no 'filters'; add it where the"},
    {"repeat = 2, filters = 16", "repeat = 0, filters = 16", 22, "a layer: 'repeat' is 0; give a whole number from 1 to 1000"},
    {"repeat = 2, filters = 16", "repeat = 2, each = [{ filters = 16 }]", 22, "a layer: 'repeat' and 'each' both say how often; give one of"},
    {"repeat = 2, filters = 16", "each = []", 22, "a layer: 'each' is empty; give a table for each round"},
    {"repeat = 2, filters = 16", "each = [16, 16]", 22, "a layer: 'each' holds 16; give a table for each round"},
    {"repeat = 2, filters = 16", "each = { filters = 16 }", 22, "a layer: 'each' is { filters = 16 }; give a list of tables, one"},
    {"repeat = 2, filters = 16", "repaet = 2, filters = 16", 22, "a layer: 'repaet' is used by no layer of the block (but there is 'repeat'); write"},
    {"name = \"body\", use", "use", 22, "a layer needs 'name', which its layers' names begin with"},
    {"use = \"residual\"", "use = \"residual\", layers = []", 22, "a layer: 'layers' and 'use' both say what the block holds; give"},
    {"{ name = \"bn\", kind = \"batch_norm\", group = 8 }", "{ name = \"bn\", use = \"residual\", filters = 16 }", 14, "a layer stands 16 blocks deep; a block must not hold itself"},
    {"stride = 1\nlayers", "stride = 1\nwidth = 3\nlayers", 12, "[blocks.residual]: 'width' is used by no layer of the block;"},
    {"[blocks.residual]", "[blocks]\nempty = 1\n[blocks.residual]", 11, "[blocks.empty] is 1; write a table, such as { kind = \"relu\" }"},
    {"[defaults.dense]", "[defaults.densee]", 7, "[defaults.densee] is for no kind of layer; choose from add,"},
    {"[defaults.dense]", "[defaults.lrn]", 7, "[defaults.lrn] is for a kind of layer that the network does not"},
    {"stddev = 0.05", "stdev = 0.05", 8, "layer 'fc': 'stdev' is not known here, but 'stddev' is; known are activation,"},
    {"stddev = 0.05", "stddev = 0.05\nname = \"fc\"", 9, "[defaults.dense]: 'name' belongs to each layer; give it there"},
    {"keep = 0.5 },", "keep = 0.5, when = \"yes\" },", 23, "a layer: 'when' is \"yes\"; give true or false"},
    {"shape = [32, 32, 3]", "shape = [65536, 65536, 3]", 4, "[input]: 'shape' has 12884901888 values, more than a device can"},
    {"shape = [32, 32, 3]", "shape = [16384, 16384, 3]", 20, "layer 'conv1' makes [16384, 16384, 16] of each example, too"},
    {"filters = 16, kernel = 3, activation", "filters = 65536, kernel = 1024, activation", 20, "layer 'conv1' has 206158430208 weights, more than a device can"},
    {"units = 10 }", "units = 1048576 }", 24, "layer 'fc' has 4294967296 weights, more than a device can"},
    {"logits = \"fc\"", "logits = \"fcc\"", 28, "[[loss]]: 'logits' is \"fcc\", but no layer has that name; give"},
    {"logits = \"fc\"", "logits = \"conv1\"", 28, "[[loss]]: 'logits' is \"conv1\", which makes [32, 32, 16], but 10"},
    {"logits = \"fc\"", "logits = \"fc\"\nsmoothing = 2", 29, "[[loss]]: 'smoothing' is 2; give a number from 0 to 1"},
    {"logits = \"fc\"", "logits = \"drop\"", 28, "[[loss]]: 'logits' is \"drop\", which makes [16, 16, 16], but 10"},
    {"logits = \"fc\"", "logits = \"fc\"\nweigth = 2", 29, "[[loss]]: 'weigth' is not known here, but 'weight' is; known are class_weights,"},
    {"logits = \"fc\"", "logits = \"fc\"\nclass_weights = \"balance\"", 29, "[[loss]]: 'class_weights' is \"balance\"; give \"balanced\", a list of 10"},
    {"logits = \"fc\"", "logits = \"fc\"\nclass_weights = 2", 29, "[[loss]]: 'class_weights' is 2; give \"balanced\", a list of 10 numbers,"},
    {"logits = \"fc\"", "logits = \"fc\"\nclass_weights = [1, 2]", 29, "[[loss]]: 'class_weights' has 2 numbers, but [input] has 10 classes;"},
    {"logits = \"fc\"", "logits = \"fc\"\nclass_weights = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]", 29, "[[loss]]: 'class_weights' is [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]; give a list of"},
    {"logits = \"fc\"", "logits = \"fc\"\nclass_weights = [1, 2, 3, 4, 5, 6, 7, 8, 9, nan]", 29, "[[loss]]: 'class_weights' is [1, 2, 3, 4, 5, 6, 7, 8, 9, nan]; give a list of"},
    {"logits = \"fc\"", "logits = \"fc\"\nclass_weights = { cat = -1 }", 29, "[[loss]]: class_weights: 'cat' is -1; give a number from 1e-06 to"},
    {"logits = \"fc\"", "logits = \"fc\"\nclass_weights = { cat = nan }", 29, "[[loss]]: class_weights: 'cat' is nan; give a number from 1e-06 to"},
    {"logits = \"fc\"", "logits = \"fc\"\nclass_weights = { cat = \"many\" }", 29, "[[loss]]: class_weights: 'cat' is \"many\"; give a number from 1e-06"},
    {"steps = 1000", "sampler = \"balance\"\nsteps = 1000", 48, "[training]: 'sampler' is \"balance\"; give one of uniform, balanced"},
    {"values = \"normalized\"", "values = \"normalised\"", 31, "[pipeline]: 'values' is \"normalised\"; give one of bytes,"},
    {"values = \"normalized\"", "values = \"normalized\"\ndeviation = [0, 1, 1]", 32, "[pipeline]: 'deviation' is [0, 1, 1]; give a list of 3 numbers"},
    {"values = \"normalized\"", "values = \"normalized\"\nmean = [0.5, 0.5]", 32, "[pipeline]: 'mean' is [0.5, 0.5]; give a list of 3 numbers from"},
    {"values = \"normalized\"", "kind = \"tutoral\"", 31, "[pipeline]: 'kind' is \"tutoral\"; give one of augment, tutorial"},
    {"pad = 4", "pad = 4\ncutout = -1", 36, "[pipeline.train]: 'cutout' is -1; give a whole number from 0 to"},
    {"pad = 4", "pad = 4\nfilp = true", 36, "[pipeline.train]: 'filp' is not known here, but 'flip' is; known are antialias,"},
    {"pad = 4", "pad = 4\nflip = \"sometimes\"", 36, "[pipeline.train]: 'flip' is \"sometimes\"; give true, false, a probability from 0 to 1 or \"alternating\""},
    {"pad = 4", "pad = 4\nflip = 1.5", 36, "[pipeline.train]: 'flip' is 1.5; give true, false, a probability"},
    {"pad = 4", "pad = 4\nflip_vertical = \"alternating\"", 36, "[pipeline.train]: 'flip_vertical' is \"alternating\"; give true, false or a probability from 0 to 1"},
    {"pad = 4", "pad = 4\nrotation = 10", 36, "[pipeline.train]: 'rotation' is 10; give a list of 2 numbers from -360 to 360"},
    {"pad = 4", "pad = 4\nrotation = [10, -10]", 36, "[pipeline.train]: 'rotation' begins with the larger number; give [least, most]"},
    {"pad = 4", "pad = 4\nrotation_interpolation = \"cubic\"", 36, "[pipeline.train]: 'rotation_interpolation' is \"cubic\"; give one of nearest, bilinear"},
    {"pad = 4", "pad = 4\nrand_augment = true", 36, "[pipeline.train]: 'rand_augment' is true; give a table"},
    {"pad = 4", "pad = 4\nrand_augment = { magnitude = 31 }", 36, "[pipeline.train.rand_augment]: 'magnitude' is 31; give a whole number from 0 to 30"},
    {"pad = 4", "pad = 4\nrand_augment = { operations = 17 }", 36, "[pipeline.train.rand_augment]: 'operations' is 17; give a whole number from 0 to 16"},
    {"pad = 4", "pad = 4\nrand_augment = { bins = 1 }", 36, "[pipeline.train.rand_augment]: 'bins' is 1; give a whole number from 2 to 1000"},
    {"pad = 4", "pad = 4\nrand_augment = { number = 2 }", 36, "[pipeline.train.rand_augment]: 'number' is not known here; known are bins, magnitude, operations"},
    {"pad = 4", "pad = 4\nrand_augment = {}\ntrivial_augment = true", 37, "[pipeline.train]: 'trivial_augment' is true, and there is a rand_augment; choose one of them"},
    {"pad = 4", "pad = 4\njitter_order = true", 36, "[pipeline.train]: 'jitter_order' is true; give one of fixed, random"},
    {"pad = 4", "pad = 4\njitter_probability = -1", 36, "[pipeline.train]: 'jitter_probability' is -1; give a number from 0 to 1"},
    {"pad = 4", "pad = 4\ngrayscale = true", 36, "[pipeline.train]: 'grayscale' is true; give a number from 0 to 1"},
    {"pad = 4", "pad = 4\nblur = { kernel = 4 }", 36, "[pipeline.train.blur]: 'kernel' is 4; give an odd number of pixels"},
    {"pad = 4", "pad = 4\nblur = { kernel = 65 }", 36, "[pipeline.train.blur]: 'kernel' is 65; give a whole number from 1 to 63"},
    {"pad = 4", "pad = 4\nblur = { sigma = [1, 2] }", 36, "[pipeline.train.blur] needs 'kernel'; give a whole number from 1 to 63"},
    {"pad = 4", "pad = 4\nblur = { kernel = 3, sigma = [0, 2] }", 36, "[pipeline.train.blur]: 'sigma' is [0, 2]; give a list of 2 numbers from 0.01"},
    {"pad = 4", "pad = 4\nerasing = { mode = \"noise\" }", 36, "[pipeline.train.erasing]: 'mode' is \"noise\"; give one of const, rand, pixel"},
    {"pad = 4", "pad = 4\nerasing = { probability = 2 }", 36, "[pipeline.train.erasing]: 'probability' is 2; give a number from 0 to 1"},
    {"pad = 4", "pad = 4\nerasing = { area = [0.5, 0.1] }", 36, "[pipeline.train.erasing]: 'area' begins with the larger number;"},
    {"pad = 4", "pad = 4\nerasing = { count = 9 }", 36, "[pipeline.train.erasing]: 'count' is 9; give a whole number from 1 to 8"},
    {"pad = 4", "contrast = [1.5, 0.5]", 35, "[pipeline.train]: 'contrast' begins with the larger number;"},
    {"box = \"random_crop\"", "box = \"random_area\"\narea = [0, 1]", 35, "[pipeline.train]: 'area' is [0, 1]; give a list of 2 numbers"},
    {"box = \"random_crop\"\npad = 4", "box = \"crop\"", 34, "[pipeline.train]: 'box' is \"crop\"; give one of whole, centre,"},
    {"box = \"random_crop\"\npad = 4", "box = \"random_crop\"\npad = 40\npadding = \"reflect\"", 35, "[pipeline.train]: 'pad' is 40; a mirror image of 32x32x3 has"},
    {"kind = \"momentum\"", "kind = \"lars\"", 38, "[optimizer]: 'kind' is \"lars\"; give one of adam, adamw,"},
    {"kind = \"momentum\"\n", "", 37, "[optimizer] needs 'kind'; give one of adam, adamw, momentum,"},
    {"kind = \"momentum\"", "kind = \"sgd\"\nmomentum = 0.9", 39, "[optimizer]: 'momentum' is not known here; known are clip_norm,"},
    {"kind = \"piecewise\"", "kind = \"linear\"", 42, "[schedule]: 'kind' is \"linear\"; give one of constant,"},
    {"boundaries = [10, 20]", "boundaries = [20, 10]", 43, "[schedule]: 'boundaries' must grow; give epochs in order"},
    {"boundaries = [10, 20]", "boundaries = [10, 20, 30]", 44, "[schedule]: 'factors' is [0.1, 0.01]; give a list of 3 numbers"},
    {"boundaries = [10, 20]", "boundaries = []", 43, "[schedule]: 'boundaries' is empty; give at least one epoch"},
    {"kind = \"piecewise\"\nboundaries = [10, 20]\nfactors = [0.1, 0.01]", "kind = \"cosine\"", 41, "[schedule] needs 'epochs'; give a number from 1e-06 to 1000000"},
    {"kind = \"piecewise\"", "kind = \"cosine\"\nepochs = 0", 43, "[schedule]: 'epochs' is 0; give a number from 1e-06 to 1000000"},
    {"[training]", "[mixing]\nmixup = -1\n\n[training]", 47, "[mixing]: 'mixup' is -1; give a number from 0 to 1000"},
    {"[training]", "[mixing]\ncutmix = \"yes\"\n\n[training]", 47, "[mixing]: 'cutmix' is \"yes\"; give a number from 0 to 1000"},
    {"[training]", "[mixing]\nprobability = 1.5\n\n[training]", 47, "[mixing]: 'probability' is 1.5; give a number from 0 to 1"},
    {"[training]", "[mixing]\nmode = \"pair\"\n\n[training]", 47, "[mixing]: 'mode' is not known here; known are cutmix,"},
    {"[training]", "[mixing]\ndraw = \"pair\"\n\n[training]", 47, "[mixing]: 'draw' is \"pair\"; give one of batch, example"},
    {"[training]", "[mixing]\nprobability = 0.5\n\n[training]", 47, "[mixing]: 'probability' mixes nothing by itself; give 'mixup' or"},
    {"[training]", "[mixing]\nmixup_alpha = 0.2\n\n[training]", 47, "[mixing]: 'mixup_alpha' is not known here, but 'mixup' is; known are"},
    {"logits = \"fc\"", "logits = \"fc\"\nkind = \"bce\"", 29, "[[loss]]: 'kind' is \"bce\"; give one of softmax, sigmoid"},
    {"logits = \"fc\"", "logits = \"fc\"\npositive_weights = 2", 29, "[[loss]]: 'positive_weights' is for heads of kind \"sigmoid\"; give"},
    {"logits = \"fc\"", "logits = \"fc\"\nkind = \"sigmoid\"\nclass_weights = 2", 30, "[[loss]]: 'class_weights' is for heads of kind \"softmax\"; give"},
    {"logits = \"fc\"", "logits = \"fc\"\nkind = \"sigmoid\"\npositive_weights = [1]", 30, "[[loss]]: 'positive_weights' has 1 number, but [input] has 10 classes;"},
    {"[training]", "[averages]\ndecay = 1.5\n\n[training]", 47, "[averages]: 'decay' is 1.5; give a number from 0 to 0.9999999"},
    {"[training]", "[averages]\n\n[training]", 46, "[averages] needs 'decay'; give a number from 0 to 0.9999999"},
    {"{ name = \"drop\", kind = \"dropout\", keep = 0.5 }", "{ name = \"a\", repeat = 1000, layers = [ { name = \"b\", repeat = 1000, layers = [ { name = \"c\", when = false, kind = \"relu\" } ] } ] }", 23, "a layer is the network's layer number 10001; use fewer"},
    {"keep = 0.5 },", "keep = 0.5, inputs = [] },", 23, "a layer: 'inputs' is []; give text in quotes, or a list of it"},
    {"{ name = \"drop\", kind = \"dropout\", keep = 0.5 }", "{ name = \"m1\", kind = \"conv2d\", kernel = 1, groups = \"depthwise\", multiplier = 65536 }, { name = \"m2\", kind = \"conv2d\", kernel = 1, groups = \"depthwise\", multiplier = 65536 }", 23, "layer 'm2' makes 68719476736 channels, more than a device can count; use fewer"},
    {"{ name = \"drop\", kind = \"dropout\", keep = 0.5 }", "{ name = \"m1\", kind = \"conv2d\", kernel = 1, groups = \"depthwise\", multiplier = 65536 }, { kind = \"global_average_pool\" }, { name = \"m2\", kind = \"conv2d\", kernel = 1, groups = \"depthwise\", multiplier = 2047 }, { name = \"join\", kind = \"concatenate\", inputs = [\"m2\", \"m2\", \"m2\"] }", 23, "layer 'join' makes 6439305216 channels, more than a device can count; use fewer"},
    {"{ name = \"drop\", kind = \"dropout\", keep = 0.5 }", "{ name = \"m1\", kind = \"conv2d\", kernel = 1, groups = \"depthwise\", multiplier = 512 }, { name = \"n0\", kind = \"batch_norm\", group = 1048573 }, { name = \"n1\", kind = \"batch_norm\", group = 4099 }", 23, "layer 'n0' makes batch norm's groups of 8388584 examples together with the layers before it, more than the 1048576 of the largest batch; give these layers one group size"},
    {"kind = \"momentum\"", "kind = \"adam\"\nbeta_1 = 1", 39, "[optimizer]: 'beta_1' is 1; give a number from 0 to 0.9999999"},
    {"kind = \"momentum\"", "kind = \"adamw\"\nbeta_2 = 1.0", 39, "[optimizer]: 'beta_2' is 1.0; give a number from 0 to 0.9999999"},
    {"kind = \"momentum\"", "kind = \"rmsprop\"\ndecay = 1", 39, "[optimizer]: 'decay' is 1; give a number from 0 to 0.9999999"},
    {"group = 8", "group = 8, decay = 1", 14, "layer 'body/1/bn': 'decay' is 1; give a number from 0 to 0.9999999"},
    {"[training]", "[averages]\ndecay = 1\n\n[training]", 47, "[averages]: 'decay' is 1; give a number from 0 to 0.9999999"},
    {"{ name = \"drop\", kind = \"dropout\", keep = 0.5 }", "{ name = \"drop\", kind = \"lrn\", bias = 0.001, beta = 20 }", 23, "layer 'drop': 'beta' is 20; give a number from 0 to 6"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel_size = 3, activation", 20, "layer 'conv1' needs 'kernel', not 'kernel_size'; give a whole number from 1 to"},
    {"filters = 16, kernel = 3, activation", "out_channels = 16, kernel = 3, activation", 20, "layer 'conv1' needs 'filters', not 'out_channels'; give a whole number from 1 to"},
    {"window = 2, stride = 2", "kernel_size = 2, stride = 2", 21, "layer 'pool1' needs 'window', not 'kernel_size'; give a whole number from 1 to"},
    {"kind = \"conv2d\", filters = 16", "type = \"conv2d\", filters = 16", 20, "a layer needs 'kind', not 'type'; give text in quotes"},
    {"learning_rate = 0.1", "lr = 0.1", 37, "[optimizer] needs 'learning_rate', not 'lr'; give a number from 0 to"},
    {"group = 8", "group = 8, eps = 1e-3", 14, "layer 'body/1/bn': 'eps' is not known here, but 'epsilon' is; known are"},
    {"group = 8", "group = 8, momentum = 0.1", 14, "layer 'body/1/bn': 'momentum' is not known here, but 'decay' is (PyTorch's momentum is 1 - decay); known are"},
    {"activation = \"relu\"", "activation = \"max_pool\"", 20, "layer 'conv1': 'activation' is \"max_pool\"; give one of gelu, "},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, pad = [0, 1, 0, 2000], activation", 20, "layer 'conv1': 'pad' is [0, 1, 0, 2000]; give \"same\", \"valid\" or pixels from 0 to 1024: one number,"},
    {"filters = 16, kernel = 3, activation", "filters = 16, kernel = 3, pad = true, activation", 20, "layer 'conv1': 'pad' is true; give \"same\", \"valid\" or pixels from 0 to 1024: one number,"},
};
// clang-format on

std::string message_about(const std::string& text) {
    try {
        const Recipe recipe = parse_recipe("bad", text, "bad.toml");
        memory_of_step(recipe, recipe.batch);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "it is sound";
}

} // namespace

TEST_CASE("a mistake in a recipe is reported in one line with file, line and what would be right") {
    REQUIRE(message_about(sound) == "it is sound");
    for (const Mistake& mistake : mistakes) {
        std::string text = sound;
        const std::size_t place = text.find(mistake.from);
        REQUIRE(place != std::string::npos);
        text.replace(place, std::string(mistake.from).size(), mistake.to);
        const std::string message = message_about(text);
        CAPTURE(mistake.to);
        const std::string begins = fmt::format("bad.toml:{}: {}", mistake.line, mistake.says);
        CHECK(message.substr(0, begins.size()) == begins);
        CHECK(message.find('\n') == std::string::npos);
    }
}

TEST_CASE("a network without a trained variable is refused") {
    for (const char* norm : {"", "{ kind = \"batch_norm\", group = 8, gamma = false, beta = false },"}) {
        std::string text = sound;
        const std::size_t begin = text.find("[defaults.dense]");
        text.replace(
            begin, text.find("[pipeline]") - begin,
            "[network]\nlayers = [\n"
            "{ kind = \"concatenate\", inputs = [\"images\", \"images\", \"images\", \"images\"] },\n" +
                std::string(norm) + "{ kind = \"global_average_pool\" }\n]\n");
        text.replace(text.find("classes = 10"), 12, "classes = 12");
        CHECK(message_about(text) ==
              "bad.toml:8: [network]: 'layers' has no layer that learns; add one, such as conv2d or dense");
    }
}

TEST_CASE("the limit on layers is checked before any work on them") {
    std::string layers;
    for (int i = 0; i < 20000; ++i) layers += "{ kind = \"relu\" },\n";
    const auto with = [](const std::string& more) {
        std::string text = sound;
        text.replace(text.find("  { name = \"drop\""), 0, more);
        return message_about(text);
    };
    CHECK(with(layers) == "bad.toml:10020: a layer is the network's layer number 10001; use fewer");
    // Not even the first of too many layers is looked at.
    const std::string mistaken = "{ kind = \"no such layer\" },\n";
    CHECK(with(mistaken).find("no such layer") != std::string::npos);
    CHECK(with(mistaken + layers) ==
          "bad.toml:10020: a layer is the network's layer number 10001; use fewer");
    // Within what is allowed
    CHECK(with(layers.substr(0, layers.size() / 4)) == "it is sound");
}

TEST_CASE("a mistake in --set is blamed on --set, not on the file") {
    const auto says = [](const std::string& change) {
        try {
            parse_recipe("bad", sound, "bad.toml", {change});
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("it is sound");
    };
    CHECK(says("optimizer.learning_rate=0.05") == "it is sound");
    CHECK(says("averages.decay=0.99") == "it is sound");
    CHECK(says("optimizer.learning_rate=-1") ==
          "bad.toml with --set: [optimizer]: 'learning_rate' is -1; give a number from 0 to 1000000");
    CHECK(
        says("optimiser.learning_rate=1").starts_with("bad.toml with --set: the recipe: 'optimiser' is not"));
    CHECK(says("optimizer.learning_rate") ==
          "--set 'optimizer.learning_rate': give TABLE.KEY=VALUE, such as optimizer.learning_rate=0.05, or "
          "KEY= to take a key out");
    CHECK(
        says("optimizer.lr=1")
            .starts_with("bad.toml with --set: [optimizer]: 'lr' is not known here, but 'learning_rate' is"));
    CHECK(says("optimizer.momentum=") ==
          "--set 'optimizer.momentum=': there is no 'momentum' to take out; there is kind, learning_rate");
    CHECK(says("averages=") ==
          "--set 'averages=': there is no 'averages' to take out; there is blocks, defaults, "
          "description, input, loss, network, optimizer, pipeline, schedule, training");
    CHECK(says("optimizer.kind.name=") ==
          "--set 'optimizer.kind.name=': there is no 'name' to take out; there is nothing");
    CHECK(says("schedule=") == "it is sound");
    CHECK(says("optimizer.learning_rate= ").find("[optimizer] needs 'learning_rate'; give") !=
          std::string::npos);
    for (const char* odd : {"=", "=1", ".=", "a b="})
        CHECK(says(odd).starts_with("--set '" + std::string(odd) + "': "));
    CHECK(says("optimizer.kind=adam") == "it is sound");
    CHECK(says("optimizer.kind=\"adam\"") == "it is sound");
    CHECK(says("optimizer.kind=sgd!").starts_with("--set 'optimizer.kind=sgd!': cannot be read as TOML ("));
    CHECK(says("optimizer.kind=sgd!").ends_with("); give a number, true, false, a word or \"text\""));
    std::string deep = "a";
    for (unsigned i = 0; i < 20'000; ++i) deep += ".a";
    for (const char* value : {"=1", "="}) {
        const std::string said = says(deep + value);
        CHECK(said.size() < 300);
        CHECK(
            said.find("...': cannot be read as TOML (keys and brackets nest more than 100 deep); give a ") !=
            std::string::npos);
    }
}

} // namespace towers
