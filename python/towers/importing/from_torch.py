"""Reads a torch.nn.Module as a recipe's network, through torch.fx.

Layers are called as their modules are: `layer1.0.conv1`.
"""

import dataclasses
import math
import operator

import torch
import torch.fx
import torch.nn.functional as F
from torch import nn

from .recipe import Network, NotExpressible, Value

ACTIVATIONS = {
    nn.ReLU: "relu", nn.ReLU6: "relu6", nn.SiLU: "silu", nn.Sigmoid: "sigmoid", nn.Hardswish: "hard_swish",
    F.relu: "relu", F.relu_: "relu", F.relu6: "relu6", F.silu: "silu", F.sigmoid: "sigmoid", F.hardswish: "hard_swish",
    torch.relu: "relu", torch.relu_: "relu", torch.sigmoid: "sigmoid", "relu": "relu", "relu_": "relu",
    "sigmoid": "sigmoid", "sigmoid_": "sigmoid",
}
DROPS_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
AS_IS = (operator.truth, "contiguous", "clone", "detach", torch.clone)
ARITHMETIC = {
    operator.add: "add", operator.iadd: "add", torch.add: "add", "add": "add", "add_": "add",
    operator.sub: "subtract", operator.isub: "subtract", torch.sub: "subtract", "sub": "subtract", "sub_": "subtract",
    operator.mul: "multiply", operator.imul: "multiply", torch.mul: "multiply", "mul": "multiply", "mul_": "multiply",
    operator.truediv: "divide", operator.itruediv: "divide", torch.div: "divide", "div": "divide", "div_": "divide",
}
SHAPES = {"view", "reshape", torch.reshape, "unsqueeze", torch.unsqueeze, "squeeze", torch.squeeze}
BATCH = "batch"  # stands for the number of images in a shape


def both(value):
    return list(value) if isinstance(value, (tuple, list)) else [value, value]


class Images:
    """The module's input, and what it has computed from it number by number so far."""

    def __init__(self, scale=1.0, shift=0.0):
        self.scale, self.shift = scale, shift


class Translation:
    """After construction, `network` has the layers. `normalizes`: scale and shift that the module itself applies to
    its input first."""

    def __init__(self, module, shape, group=32):
        """shape: height, width, channels of the images."""
        self.network = Network(shape, group)
        self.modules = dict(module.named_modules())
        self.tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self.normalizes, self.takes_images = (1.0, 0.0), False
        try:
            graph = torch.fx.symbolic_trace(module).graph
        except Exception as error:  # whatever a module's own code raises
            text = " ".join(str(error).split())[:200]
            raise NotExpressible(f"torch.fx cannot trace it: {text or type(error).__name__}; what its forward() does must "
                                 "not depend on values; torch.onnx.export and an import of its file may be possible") from error
        self.results = {}
        for node in graph.nodes:
            self.results[node] = self.result_of(node)

    def result_of(self, node):
        if node.op == "placeholder":
            if any(isinstance(each, Images) for each in self.results.values()):
                if node.args:
                    return node.args[0]  # an argument that has a default
                raise NotExpressible(f"takes a second input, '{node.target}'; a recipe's network takes images alone")
            return Images()
        if node.op == "get_attr":
            return self.tensors[node.target] if node.target in self.tensors else self.attribute(node.target)
        if node.op == "output":
            return self.end(self.filled(node.args[0]))
        arguments = Arguments(self, node)
        try:
            return self.translate(node, arguments)
        except NotExpressible:
            raise
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError,
                ArithmeticError) as error:
            raise NotExpressible(f"{self.called(node)} is called as a recipe's layers cannot be: "
                                 f"{' '.join(str(error).split())[:160]}") from error

    def attribute(self, name):
        value = self.modules[""]
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def filled(self, argument):
        return torch.fx.node.map_arg(argument, lambda node: self.results[node])

    def called(self, node):
        """What messages call a node."""
        if node.op == "call_module":
            return f"'{node.target}' ({type(self.modules[node.target]).__name__})"
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        if target == "boolean_dispatch" or target == "fn":
            target = node.name
        return f"'{node.name}' ({target})"

    def end(self, result):
        if isinstance(result, dict):
            result = list(result.values())
        result = list(result) if isinstance(result, (tuple, list)) else [result]
        if any(not isinstance(each, Value) for each in result):
            raise NotExpressible("its output is no layer's; a classifier's is one number for each class")
        self.network.end(result)
        return result

    # --- Values

    def value(self, what, node):
        """A tensor of the graph as a layer's output."""
        if isinstance(what, Images):
            scale, shift = (torch.as_tensor(each, dtype=torch.float64).reshape(-1).numpy() for each in (what.scale, what.shift))
            if self.takes_images and (scale.tolist(), shift.tolist()) != [each.tolist() for each in self.normalizes]:
                raise NotExpressible(f"{self.called(node)} takes the images with another normalization than the layers before")
            self.takes_images, self.normalizes = True, (scale, shift)
            return self.network.images
        if isinstance(what, Value):
            return what
        raise NotExpressible(f"{self.called(node)} takes {type(what).__name__}, which no layer gives")

    def constant(self, what):
        """Numbers as one for each channel, or None."""
        if isinstance(what, (int, float)) and not isinstance(what, bool):
            return torch.tensor([float(what)])
        if not isinstance(what, torch.Tensor) or what.numel() > 2**20:
            return None
        what = what.detach()
        sizes = [size for size in what.shape if size != 1]
        if len(sizes) > 1:
            return None
        where = list(what.shape).index(sizes[0]) - what.dim() if sizes else None
        return (what.reshape(-1).float(), where)[0] if where in (None, -3, -1) else None

    # --- Nodes

    def translate(self, node, given):
        module = self.modules[node.target] if node.op == "call_module" else None
        what = type(module) if module is not None else node.target
        name = node.target if module is not None else node.name
        network = self.network
        function = getattr(what, "__name__", "") if not isinstance(what, str) else what
        if what is getattr:
            return self.shape_of(given.all[0], node) if given.all[1] == "shape" else self.refuse(node)
        if what == "size":
            shape = self.shape_of(given.all[0], node)
            return shape[given.all[1]] if len(given.all) > 1 else shape
        if what == "dim":
            return len(self.shape_of(given.all[0], node))
        if what is operator.getitem:
            if isinstance(given.all[0], (tuple, list, torch.Tensor)):
                return given.all[0][given.all[1]]
            raise NotExpressible(f"{self.called(node)} takes a part of a tensor; layers of a recipe take whole ones")
        values = [each for each in given.all if isinstance(each, (Value, Images))]
        if not any(isinstance(each, (Value, Images)) for each in given.everything()):
            return self.computed(node, given)
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
        if isinstance(module, nn.Hardtanh) or what is F.hardtanh:
            low, high = (module.min_val, module.max_val) if module else (given.get(1, "min_val", -1.0),
                                                                          given.get(2, "max_val", 1.0))
            return self.clamp(node, name, source, low, high)
        if what in (torch.clamp, "clamp", torch.clip, "clip"):
            return self.clamp(node, name, source, given.get(1, "min", None), given.get(2, "max", None))
        if isinstance(module, nn.Conv2d):
            return self.convolution(node, module, source)
        if isinstance(module, nn.Linear):
            return network.dense(name, source, None, None, shape=(module.out_features, module.in_features),
                                 sources=self.sources(node, module, ("weight", "bias")))
        if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm1d)):
            return self.batch_norm(node, module, source)
        if isinstance(module, nn.LayerNorm):
            return network.layer_norm(name, source, None, None, axes=module.normalized_shape, epsilon=module.eps,
                                      sources=self.sources(node, module, ("weight", "bias")))
        if what is F.layer_norm:
            named = {id(each): key for key, each in self.tensors.items()}
            return network.layer_norm(name.rsplit("_layer_norm", 1)[0], source, None, None, axes=given.get(1, "normalized_shape"),
                                      epsilon=given.get(4, "eps", 1e-5), sources=[
                                          named.get(id(given.get(i, key, None))) for i, key in ((2, "weight"), (3, "bias"))])
        if isinstance(module, nn.LocalResponseNorm):
            return network.lrn(name, source, module.size, module.alpha, module.beta, module.k)
        if what is F.local_response_norm:
            return network.lrn(name, source, given.get(1, "size"), given.get(2, "alpha", 1e-4), given.get(3, "beta", 0.75),
                               given.get(4, "k", 1.0))
        if isinstance(module, nn.Identity) or what in AS_IS:
            return source
        if isinstance(module, nn.Dropout) or what in (F.dropout, torch.dropout):
            return network.dropout(name, source, module.p if module else given.get(1, "p", 0.5)
                                   if given.get(2, "training" if what is F.dropout else "train", True) else 0)
        if isinstance(module, DROPS_CHANNELS) or function in ("dropout1d", "dropout2d", "dropout3d", "feature_dropout",
                                                              "alpha_dropout", "feature_alpha_dropout", "stochastic_depth"):
            rate = module.p if module else given.get(1, "p", 0.5)
            if rate:
                kind = type(module).__name__ if module else function
                network.note(f"{kind} is left out: recipes have plain dropout only, and without training a network computes "
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
            return source
        return self.refuse(node)

    def refuse(self, node):
        hint = {"ConvTranspose2d": "recipes have no transposed convolutions", "Conv1d": "recipes have 2-d layers",
                "Conv3d": "recipes have 2-d layers", "MultiheadAttention": "recipes have no attention",
                "Upsample": "recipes have no resizing", "PReLU": "leaky_relu is possible", "ELU": "silu or gelu is possible",
                "Tanh": "sigmoid is possible", "GroupNorm": "batch_norm or layer_norm is possible",
                "InstanceNorm2d": "batch_norm is possible", "Hardsigmoid": "sigmoid is possible",
                "hardsigmoid": "sigmoid is possible", "Softplus": "silu is possible", "Mish": "silu is possible"}
        module = self.modules[node.target] if node.op == "call_module" else None
        kind = type(module).__name__ if module is not None else (
            node.target if isinstance(node.target, str) else getattr(node.target, "__name__", ""))
        raise NotExpressible(f"{self.called(node)} has no layer in recipes; "
                             + hint.get(kind, "docs/importing.md lists what is possible"))

    def computed(self, node, given):
        """Numbers that do not depend on the images."""
        if node.op == "call_module":
            self.refuse(node)
        if node.op == "call_method":
            return getattr(given.all[0], node.target)(*given.all[1:], **given.named)
        if any(each == BATCH for each in given.everything()):
            raise NotExpressible(f"{self.called(node)} computes with the number of images")
        return node.target(*given.all, **given.named)

    def shape_of(self, what, node):
        if isinstance(what, torch.Tensor):
            return tuple(what.shape)
        value = self.network.images if isinstance(what, Images) else self.value(what, node)
        height, width, channels = value.shape
        if value.rank == 2:
            return (BATCH, height * width * channels)
        return (BATCH, height, width, channels) if value.last else (BATCH, channels, height, width)

    def sources(self, node, module, names):
        if node.target.startswith("_") and node.target not in self.modules:
            self.refuse(node)
        return [f"{node.target}.{each}" if getattr(module, each) is not None else None for each in names]

    def arithmetic(self, operation, name, given, node):
        a, b = given.get(0, "input"), given.get(1, "other")
        alpha = given.get(2, "alpha", 1)
        numbers = self.constant(b) if isinstance(a, (Value, Images)) else self.constant(a)
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

    def convolution(self, node, module, source):
        if module.padding_mode != "zeros" and any(both(module.padding) if not isinstance(module.padding, str) else [1]):
            raise NotExpressible(f"{self.called(node)} pads with '{module.padding_mode}'; recipes pad with zeros")
        pads = []
        for i in (0, 1):
            if module.padding == "same":
                total = module.dilation[i] * (module.kernel_size[i] - 1)
                pads += [total // 2, total - total // 2]
            else:
                pads += [0 if module.padding == "valid" else both(module.padding)[i]] * 2
        return self.network.conv(node.target, source, None, None, shape=module.weight.shape, strides=module.stride, pads=pads,
                                 dilations=module.dilation, groups=module.groups,
                                 sources=self.sources(node, module, ("weight", "bias")))

    def batch_norm(self, node, module, source):
        if isinstance(module, nn.BatchNorm1d) and source.rank != 2:
            raise NotExpressible(f"{self.called(node)} takes a sequence; recipes have batch norm of images and of vectors")
        if module.running_mean is None:
            raise NotExpressible(f"{self.called(node)} keeps no running statistics, with which recipes evaluate")
        if module.affine and module.bias is None:
            self.refuse(node)
        decay = 0.9 if module.momentum is None else 1 - module.momentum
        return self.network.batch_norm(node.target, source, None, None, None, None, epsilon=module.eps, decay=decay,
                                       affine=module.affine, sources=self.sources(
                                           node, module, ("weight", "bias", "running_mean", "running_var")))

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

    def flatten(self, node, source, start, end):
        if source.rank == 2 or start == 2 and source.pixels == 1:
            return dataclasses.replace(source, rank=2)
        if start not in (1, -3) or end not in (-1, 3):
            raise NotExpressible(f"{self.called(node)} flattens axes {start} to {end}; recipes flatten whole images")
        return source.flat()

    def reshape(self, node, what, source, given):
        elements = math.prod(source.shape)
        if what in ("unsqueeze", torch.unsqueeze, "squeeze", torch.squeeze):
            if source.pixels != 1:
                raise NotExpressible(f"{self.called(node)} changes the axes of an image")
            wide = "unsqueeze" in str(what if isinstance(what, str) else what.__name__)
            return dataclasses.replace(source, rank=4 if wide else 2, last=False)
        sizes = given.all[1] if isinstance(given.all[1], (tuple, list)) else given.all[1:]
        sizes = [-1 if each == BATCH else each for each in sizes]
        if len(sizes) == 2 and sizes[1] in (-1, elements):
            return source.flat()
        if len(sizes) == 4 and tuple(sizes[2:]) == (1, 1) and source.pixels == 1:
            return dataclasses.replace(source, rank=4, last=False)
        own = self.shape_of(source, node)
        if len(sizes) == len(own) and all(each in (-1, mine) for each, mine in zip(sizes[1:], own[1:])):
            return source
        raise NotExpressible(f"{self.called(node)} gives the shape {sizes}; recipes flatten images, and nothing else")

    def permute(self, node, source, axes):
        if source.rank == 4 and axes == [0, 2, 3, 1] and not source.last:
            return dataclasses.replace(source, last=True)
        if source.rank == 4 and axes == [0, 3, 1, 2] and source.last:
            return dataclasses.replace(source, last=False)
        raise NotExpressible(f"{self.called(node)} moves the axes to {axes}; only channels to the end and back is possible")


class Arguments:
    """A node's arguments with the results of the nodes in them."""

    def __init__(self, translation, node):
        self.all = list(translation.filled(node.args))
        self.named = dict(translation.filled(node.kwargs))

    def get(self, index, name, *otherwise):
        if len(self.all) > index:
            return self.all[index]
        return self.named.get(name, *otherwise) if otherwise else self.named[name]

    def everything(self):
        found = []
        for each in [*self.all, *self.named.values()]:
            found += each if isinstance(each, (tuple, list)) else [each]
        return found


def network_of(module, shape, group=32):
    """The network of a module for images of this height, width and channels. Returns it, with the values of its
    variables, and the scale and shift that the module itself applies to its images."""
    translation = Translation(module, shape, group)
    network = translation.network
    tensors = {name: each.detach().float().cpu().numpy() for name, each in translation.tensors.items()}
    network.values |= network.renamed(tensors)
    return network, translation.normalizes
