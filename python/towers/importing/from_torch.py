"""Reads a torch.nn.Module as a recipe's network, through torch.fx.

Layers are called as their modules are: `layer1.0.conv1`.
"""

import dataclasses
import operator

import torch
import torch.nn.functional as F
from torch import nn

from .errors import NotExpressible
from .network import Network
from .torch_graph import AS_IS, DROPS_CHANNELS, SHAPES, TRY_ONNX, function_name, with_all_digits, listed, outputs_of
from .torch_shapes import Expanded, Images, Shapes
from .value import Value

ACTIVATIONS = {
    nn.ReLU: "relu", nn.ReLU6: "relu6", nn.SiLU: "silu", nn.Sigmoid: "sigmoid", nn.Hardswish: "hard_swish",
    F.relu: "relu", F.relu_: "relu", F.relu6: "relu6", F.silu: "silu", F.sigmoid: "sigmoid", F.hardswish: "hard_swish",
    torch.relu: "relu", torch.relu_: "relu", torch.sigmoid: "sigmoid", "relu": "relu", "relu_": "relu",
    "sigmoid": "sigmoid", "sigmoid_": "sigmoid",
}
ARITHMETIC = {
    operator.add: "add", operator.iadd: "add", torch.add: "add", "add": "add", "add_": "add",
    operator.sub: "subtract", operator.isub: "subtract", torch.sub: "subtract", "sub": "subtract", "sub_": "subtract",
    operator.mul: "multiply", operator.imul: "multiply", torch.mul: "multiply", "mul": "multiply", "mul_": "multiply",
    operator.truediv: "divide", operator.itruediv: "divide", torch.div: "divide", "div": "divide", "div_": "divide",
}


def both(value):
    return list(value) if isinstance(value, (tuple, list)) else [value, value]


class Translation(Shapes):
    """After construction, `network` has the layers. `normalizes`: scale and shift that the module itself applies to
    its input first."""

    def __init__(self, module, shape, group=32):
        """shape: height, width, channels of the images."""
        super().__init__(module)
        self.network = Network(shape, group)
        self.normalizes, self.takes_images = (1.0, 0.0), False
        self.walk()

    def placeholder(self, node):
        if any(isinstance(each, Images) for each in self.results.values()):
            if node.args:
                return node.args[0]  # an argument that has a default
            raise NotExpressible(f"takes a second input, '{node.target}'; a recipe's network takes images alone")
        return Images()

    @staticmethod
    def depends(what):
        """Whether it depends on the images."""
        return isinstance(what, (Value, Images, Expanded))

    def end(self, result):
        heads = listed(result)
        if any(not isinstance(each, Value) for each in heads):
            raise NotExpressible("its output is no layer's; a classifier's is one number for each class")
        self.network.end(heads)
        return result

    # --- Values

    def value(self, what, node):
        """A tensor of the graph as a layer's output."""
        if isinstance(what, Images):
            scale, shift = (torch.as_tensor(each, dtype=torch.float64).reshape(-1).numpy() for each in (what.scale, what.shift))
            if self.takes_images and [scale.tolist(), shift.tolist()] != [each.tolist() for each in self.normalizes]:
                raise NotExpressible(f"{self.called(node)} takes the images with another normalization than the layers before")
            self.takes_images, self.normalizes = True, (scale, shift)
            return self.network.images
        if isinstance(what, Value):
            return what
        if isinstance(what, Expanded):
            raise NotExpressible(f"{self.called(node)} takes repeated pixels; a recipe's multiply repeats them, no other layer")
        raise NotExpressible(f"{self.called(node)} takes {type(what).__name__}, which no layer gives")

    def constant(self, what, tensor):
        """Numbers as one for each channel of the tensor, or None."""
        if isinstance(what, (int, float)) and not isinstance(what, bool):
            return torch.tensor([float(what)])
        if not isinstance(what, torch.Tensor) or what.numel() > 2**20:
            return None
        what = what.detach()
        sizes = [size for size in what.shape if size != 1]
        axis = -1 if isinstance(tensor, Value) and (tensor.last or tensor.rank == 2) else -3
        if len(sizes) > 1 or sizes and (what.dim() < -axis or what.shape[axis] != sizes[0]):
            return None
        return what.reshape(-1).float()

    # --- Nodes

    def translate(self, node, given):
        module = self.module_of(node) if node.op == "call_module" else None
        what = type(module) if module is not None else node.target
        name = node.target if module is not None else node.name
        network = self.network
        function = function_name(what)
        if what is getattr and given.all[1] not in AS_IS:
            return self.attribute_of(given.all[0], given.all[1], node)
        if what == "size":
            shape = self.shape_of(given.all[0], node)
            return shape[given.all[1]] if len(given.all) > 1 else shape
        if what in ("dim", "ndimension"):
            return len(self.shape_of(given.all[0], node))
        if what is operator.getitem:
            if isinstance(given.all[0], (tuple, list)):
                return given.all[0][given.all[1]]
            raise NotExpressible(f"{self.called(node)} takes a part of a tensor; layers of a recipe take whole ones")
        if what in ("expand_as", "expand"):
            return self.expand(node, what, given)
        values = [each for each in given.all if self.depends(each)]
        if what in ARITHMETIC:
            return self.arithmetic(ARITHMETIC[what], name, given, node)
        if what in (torch.cat, torch.concat, torch.concatenate):
            return self.concatenate(name, given, node)
        if isinstance(what, type) and issubclass(what, tuple):
            return tuple(given.all)  # named outputs
        source = self.value(values[0] if values else given.get(0, "input"), node)
        if what in ACTIVATIONS:
            return network.activation(ACTIVATIONS[what], name, source)
        if isinstance(module, nn.GELU) or what is F.gelu:
            return network.activation("gelu", name, source, approximate=module.approximate if module else
                                      given.get(1, "approximate", "none"))
        if isinstance(module, nn.LeakyReLU) or what is F.leaky_relu:
            return network.activation("leaky_relu", name, source, slope=float(
                module.negative_slope if module else given.get(1, "negative_slope", 0.01)))
        if isinstance(module, nn.Softplus) or what is F.softplus:
            beta, threshold = (module.beta, module.threshold) if module else (given.get(1, "beta", 1),
                                                                              given.get(2, "threshold", 20))
            if beta != 1 or threshold < 20:
                raise NotExpressible(f"{self.called(node)} has beta {beta} and threshold {threshold}; softplus in recipes "
                                     "has a beta of 1 and no threshold")
            return network.activation("softplus", name, source)
        if isinstance(module, nn.Hardtanh) or what is F.hardtanh:
            low, high = (module.min_val, module.max_val) if module else (given.get(1, "min_val", -1.0),
                                                                          given.get(2, "max_val", 1.0))
            return self.clamp(node, name, source, low, high)
        if what in (torch.clamp, torch.clamp_, torch.clip, "clamp", "clamp_", "clip"):
            return self.clamp(node, name, source, given.get(1, "min", None), given.get(2, "max", None))
        if isinstance(module, nn.Conv2d):
            if module.padding_mode != "zeros" and any(both(module.padding) if not isinstance(module.padding, str) else [1]):
                raise NotExpressible(f"{self.called(node)} pads with '{module.padding_mode}'; recipes pad with zeros")
            return self.convolution(node, source, self.of_module(node, "weight", "bias"), module.stride, module.padding,
                                    module.dilation, module.groups)
        if what is F.conv2d:
            return self.convolution(node, source, self.of_function(node, given, weight=1, bias=2), given.get(3, "stride", 1),
                                    given.get(4, "padding", 0), given.get(5, "dilation", 1), given.get(6, "groups", 1))
        if isinstance(module, nn.Linear):
            return self.linear(source, self.of_module(node, "weight", "bias"))
        if what is F.linear:
            return self.linear(source, self.of_function(node, given, weight=1, bias=2))
        if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm1d)):
            if isinstance(module, nn.BatchNorm1d) and source.rank != 2:
                raise NotExpressible(f"{self.called(node)} takes a sequence; recipes have batch norm of images and of vectors")
            return self.batch_norm(node, source, self.of_module(node, "weight", "bias", "running_mean", "running_var"),
                                   module.momentum, module.eps)
        if what is F.batch_norm:
            return self.batch_norm(node, source, self.of_function(node, given, weight=3, bias=4, running_mean=1, running_var=2),
                                   given.get(6, "momentum", 0.1), given.get(7, "eps", 1e-5))
        if isinstance(module, nn.LayerNorm):
            return self.layer_norm(source, self.of_module(node, "weight", "bias"), module.normalized_shape, module.eps)
        if what is F.layer_norm:
            return self.layer_norm(source, self.of_function(node, given, weight=2, bias=3), given.get(1, "normalized_shape"),
                                   given.get(4, "eps", 1e-5))
        if isinstance(module, nn.LocalResponseNorm):
            return network.lrn(name, source, module.size, module.alpha, module.beta, module.k)
        if what is F.local_response_norm:
            return network.lrn(name, source, given.get(1, "size"), given.get(2, "alpha", 1e-4), given.get(3, "beta", 0.75),
                               given.get(4, "k", 1.0))
        if isinstance(module, nn.Identity) or what in (*AS_IS, getattr, "clone", torch.clone, operator.pos):
            return source
        if isinstance(module, nn.Dropout) or what in (F.dropout, torch.dropout):
            return network.dropout(name, source, module.p if module else given.get(1, "p", 0.5)
                                   if given.get(2, "training" if what is F.dropout else "train", True) else 0)
        if function in DROPS_CHANNELS:
            if module.p if module else given.get(1, "p", 0.5):
                network.note(f"{function} is left out: recipes have plain dropout only, and without training a network computes "
                             "the same", f"'{name}'")
            return source
        if isinstance(module, nn.MaxPool2d):
            return self.max_pool(node, name, source, module.kernel_size, module.stride, module.padding, module.dilation,
                                 module.ceil_mode, module.return_indices)
        if what is F.max_pool2d or what is torch.max_pool2d or (function in ("fn", "boolean_dispatch")
                                                                 and node.name.startswith("max_pool2d")):
            return self.max_pool(node, name, source, given.get(1, "kernel_size"), given.get(2, "stride", None),
                                 given.get(3, "padding", 0), given.get(4, "dilation", 1), given.get(5, "ceil_mode", False),
                                 given.get(6, "return_indices", False))
        if isinstance(module, nn.AvgPool2d):
            return self.average_pool(node, name, source, module.kernel_size, module.stride, module.padding,
                                     module.ceil_mode, module.count_include_pad, module.divisor_override)
        if what is F.avg_pool2d:
            return self.average_pool(node, name, source, given.get(1, "kernel_size"), given.get(2, "stride", None),
                                     given.get(3, "padding", 0), given.get(4, "ceil_mode", False),
                                     given.get(5, "count_include_pad", True), given.get(6, "divisor_override", None))
        if isinstance(module, (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)) or what is F.adaptive_avg_pool2d or (
                node.name.startswith("adaptive_max_pool2d")):
            size = both(module.output_size if module else given.get(1, "output_size"))
            is_max = isinstance(module, nn.AdaptiveMaxPool2d) or node.name.startswith("adaptive_max")
            return network.adaptive_pool("max_pool" if is_max else "average_pool", name, source, size)
        if what in ("mean", torch.mean):
            return self.mean(node, name, source, given.get(1, "dim", None), given.get(2, "keepdim", False))
        if isinstance(module, nn.Flatten):
            return self.flatten(node, source, module.start_dim, module.end_dim)
        if what in (torch.flatten, "flatten"):
            return self.flatten(node, source, given.get(1, "start_dim", 0), given.get(2, "end_dim", -1))
        if what in SHAPES:
            return self.reshape(node, what, source, given)
        if what in ("permute", torch.permute) or function == "Permute":
            axes = module.dims if module is not None else given.all[1] if isinstance(given.all[1], (tuple, list)) else given.all[1:]
            return self.permute(node, source, [int(axis) % 4 for axis in axes])
        if isinstance(module, (nn.Softmax, nn.LogSoftmax)) or what in (F.softmax, F.log_softmax, torch.softmax, "softmax",
                                                                        torch.log_softmax, "log_softmax"):
            if any(user.op != "output" for user in node.users):
                raise NotExpressible(f"{self.called(node)} stands within the network; recipes have a softmax in the loss only")
            network.note("the softmax at the end is left out: a recipe's loss has it")
            return dataclasses.replace(source, ending="log_softmax" if "log" in function.lower() else "softmax")
        return self.refuse(node)

    def refuse(self, node):
        hint = {"ConvTranspose2d": "recipes have no transposed convolutions", "Conv1d": "recipes have 2-d layers",
                "Conv3d": "recipes have 2-d layers", "MultiheadAttention": "recipes have no attention",
                "Upsample": "recipes have no resizing", "PReLU": "leaky_relu is possible", "ELU": "silu or gelu is possible",
                "Tanh": "sigmoid is possible", "GroupNorm": "batch_norm or layer_norm is possible",
                "InstanceNorm2d": "batch_norm is possible", "Hardsigmoid": "sigmoid is possible",
                "hardsigmoid": "sigmoid is possible", "Mish": "silu is possible"}
        module = self.modules[node.target] if node.op == "call_module" else None
        kind = type(module).__name__ if module is not None else (
            node.target if isinstance(node.target, str) else getattr(node.target, "__name__", ""))
        raise NotExpressible(f"{self.called(node)} has no layer in recipes; " + hint.get(
            kind, f"docs/importing.md lists what is possible; {TRY_ONNX}"))

    # --- Layers with weights: a layer's name, and the sources of its weights

    def of_module(self, node, *names):
        module = self.module_of(node)
        return node.target, [self.source(f"{node.target}.{name}", getattr(module, name), node) for name in names]

    def of_function(self, node, given, **places):
        """The layer is called as the module whose parameters the function takes."""
        tensors = {name: given.get(index, name, None) for name, index in places.items()}
        if any(each is not None and not isinstance(each, torch.Tensor) for each in tensors.values()):
            raise NotExpressible(f"{self.called(node)} takes weights that depend on the images")
        parameters = [self.names[id(each)] for each in tensors.values() if id(each) in self.names]
        owner = parameters[0].rpartition(".")[0] if parameters else ""
        return owner or node.name, [self.source(f"{owner or node.name}.{name}", each, node) for name, each in tensors.items()]

    def arithmetic(self, operation, name, given, node):
        a, b = given.get(0, "input"), given.get(1, "other")
        alpha = given.get(2, "alpha", 1)
        a, b = self.without_repeats(a, b), self.without_repeats(b, a)
        numbers = self.constant(b, a) if isinstance(a, (Value, Images)) else self.constant(a, b)
        if isinstance(a, (Value, Images)) and isinstance(b, (Value, Images)):
            if operation not in ("add", "multiply") or alpha != 1:
                raise NotExpressible(f"{self.called(node)}: recipes add and multiply layers, but do not {operation} them")
            a, b = self.value(a, node), self.value(b, node)
            return self.network.add(name, [a, b]) if operation == "add" else self.network.multiply(name, [a, b])
        if numbers is None or alpha != 1:
            raise NotExpressible(f"{self.called(node)} computes with numbers that are not one for each channel")
        reverse = not isinstance(a, (Value, Images))
        tensor = b if reverse else a
        scale, shift = {"add": (1.0, numbers), "subtract": (-1.0 if reverse else 1.0, numbers if reverse else -numbers),
                        "multiply": (numbers, 0.0), "divide": (1 / numbers, 0.0)}[operation]
        if reverse and operation == "divide":
            raise NotExpressible(f"{self.called(node)} divides by a layer's output")
        if isinstance(tensor, Images):
            return Images(tensor.scale * scale, tensor.shift * scale + shift)
        if operation in ("multiply", "divide") and torch.as_tensor(scale).numel() == 1 and float(torch.as_tensor(scale)) == 1:
            return tensor
        self.network.note("numbers for each channel become the weights of a depthwise convolution, and learn", self.called(node))
        as_array = lambda each: each.numpy() if isinstance(each, torch.Tensor) else each
        return self.network.scale_and_shift(name, tensor, as_array(scale), None if isinstance(shift, float) else as_array(shift))

    def concatenate(self, name, given, node):
        values = [self.value(each, node) for each in given.get(0, "tensors")]
        axis = given.get(1, "dim", given.named.get("axis", 0))
        first = values[0]
        wanted = (3, -1) if first.last else (1, -3 if first.rank == 4 else -1)
        if axis not in wanted:
            raise NotExpressible(f"{self.called(node)} joins along axis {axis}; recipes join channels")
        return self.network.concatenate(name, values)

    def clamp(self, node, name, source, low, high):
        if low == 0 and high == 6:
            return self.network.activation("relu6", name, source)
        if low == 0 and high is None:
            return self.network.activation("relu", name, source)
        raise NotExpressible(f"{self.called(node)} clamps to {low} .. {high}; recipes have relu (from 0) and relu6 (0 to 6)")

    def convolution(self, node, source, weights, strides, padding, dilations, groups):
        name, sources = weights
        shape, dilations = self.tensors[sources[0]].shape, both(dilations)
        pads = []
        for i in (0, 1):
            if padding == "same":
                total = dilations[i] * (shape[2 + i] - 1)
                pads += [total // 2, total - total // 2]
            else:
                pads += [0 if padding == "valid" else both(padding)[i]] * 2
        return self.network.conv(name, source, None, None, shape=shape, strides=both(strides), pads=pads, dilations=dilations,
                                 groups=groups, sources=sources)

    def linear(self, source, weights):
        name, sources = weights
        return self.network.dense(name, source, None, None, shape=self.tensors[sources[0]].shape, sources=sources)

    def batch_norm(self, node, source, weights, momentum, epsilon):
        name, sources = weights
        if sources[2] is None or sources[3] is None:
            raise NotExpressible(f"{self.called(node)} keeps no running statistics, with which recipes evaluate")
        if (sources[0] is None) != (sources[1] is None):
            self.refuse(node)
        return self.network.batch_norm(name, source, None, None, None, None, epsilon=epsilon, sources=sources,
                                       decay=0.9 if momentum is None else 1 - momentum, affine=sources[0] is not None)

    def layer_norm(self, source, weights, axes, epsilon):
        name, sources = weights
        return self.network.layer_norm(name, source, None, None, axes=axes, epsilon=epsilon, sources=sources)

    def max_pool(self, node, name, source, window, stride, padding, dilation, ceil_mode, indices):
        if both(dilation) != [1, 1] or indices:
            raise NotExpressible(f"{self.called(node)}: a recipe's max pool has neither dilation nor indices")
        pads = [each for side in both(padding) for each in (side, side)]
        return self.network.pool("max_pool", name, source, both(window), both(stride or window), pads, ceil_mode)

    def average_pool(self, node, name, source, window, stride, padding, ceil_mode, count_padding, divisor):
        if divisor is not None:
            raise NotExpressible(f"{self.called(node)}: a recipe's average pool has no divisor of its own")
        pads = [each for side in both(padding) for each in (side, side)]
        return self.network.pool("average_pool", name, source, both(window), both(stride or window), pads, ceil_mode,
                                 bool(count_padding))

    def mean(self, node, name, source, axes, keeps):
        axes = sorted(int(axis) % 4 for axis in (axes if isinstance(axes, (tuple, list)) else [axes])) if axes is not None else []
        if axes != ([1, 2] if source.last else [2, 3]) or source.rank != 4:
            raise NotExpressible(f"{self.called(node)} is a mean over axes {axes}; recipes have that of an image's pixels")
        return self.network.global_average_pool(name, source, bool(keeps))


def network_of(module, shape, group=32):
    """The network of a module for images of this height, width and channels. Returns it, with the values of its
    variables; the scale and shift that the module itself applies to its images; and outputs_of() this module."""
    module = with_all_digits(module)
    translation = Translation(module, shape, group)
    network = translation.network
    network.values |= network.renamed(translation.arrays(network.variables))
    return network, translation.normalizes, lambda images, **options: outputs_of(
        module, translation.traced, images, 1 + max(head.output for head in network.heads), **options)
