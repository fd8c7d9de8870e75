// Reads a recipe's network: layers in order, reusable blocks of layers, and the loss.
//
//   [input]              shape = [height, width, channels], classes, label_offset
//   [network]            layers = [ LAYER or BLOCK, ... ]
//   [blocks.NAME]        layers = [ ... ]                    used by BLOCKs; other keys: parameters' defaults
//   [defaults.KIND]      keys for all layers of this kind that do not give them
//   [[loss]]             logits (the last layer), weight, class_weights, smoothing, logit_scale; without any,
//                        the last layer gives the logits
//
//   LAYER   { kind = "conv2d", name = "conv1", input(s) = "...", activation = "relu", when = true, ... }
//   BLOCK   { name = "stage1", use = "NAME" or layers = [ ... ], repeat = 3 or each = [ {...}, ... ], ... }
//
// A layer's input is the layer before it unless it names others: layers of its block or around it, "input"
// (the block's input) or "images". Names in a block are NAME/LAYER, in a repeated one NAME/1/LAYER; a block's
// own name stands for its last layer. A block's other keys, and those in `each`, are its parameters: "$key"
// in the block stands for the value. A layer or block with `when = false` is left out, and its name stands
// for its input.
#pragma once

#include "engine/config/attributes.h"
#include "engine/model/model.h"

namespace towers {

/// Reads these tables. Throws UsageError for whatever is wrong or does not fit together.
Model read_model(Attributes& recipe);

} // namespace towers
