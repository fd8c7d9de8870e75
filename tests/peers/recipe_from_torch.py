"""Writes a PyTorch module as a recipe, and its tensors under the recipe's names.

Understands what torchvision's classifiers are made of: convolutions, linear layers, batch norm, pooling, activations,
sums, products and concatenations. Layers are called as their modules are: `layer1.0.conv1`.
"""

import operator

import torch
import torch.fx
import torch.nn.functional as F
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

ACTIVATIONS = {
    nn.ReLU: "relu", nn.ReLU6: "relu6", nn.SiLU: "silu", nn.Sigmoid: "sigmoid", nn.Hardswish: "hard_swish",
    F.relu: "relu", F.relu6: "relu6", F.silu: "silu", F.hardswish: "hard_swish", torch.relu: "relu",
    torch.sigmoid: "sigmoid",
    "relu": "relu", "sigmoid": "sigmoid",
}
NOTHING = (nn.Identity, nn.Dropout, nn.Dropout2d)  # dropout must have p = 0


def both(value):
    return list(value) if isinstance(value, (tuple, list)) else [value, value]


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return repr(value)


class Translation:
    """After construction: `text`, the recipe; tensors() and renamed() for the variables."""

    def __init__(self, module, image, classes, weights=(1.0,), smoothing=0.0, group=32, extra=""):
        """image: an example batch, [N, C, H, W]; weights: of the heads, in the order of the module's outputs."""
        self.layers, self.names, self.flattened = [], {}, {}
        self.modules = dict(module.named_modules())
        self.variables = {}  # name of a parameter or buffer -> (recipe's name, how the axes move)
        self.group = group
        graph = torch.fx.symbolic_trace(module)
        with torch.no_grad():
            ShapeProp(graph).propagate(image)
        heads = []
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                self.names[node] = "images"
            elif node.op == "output":
                heads = self.heads_of(node.args[0])
            else:
                self.translate(node)
        shape = [image.shape[2], image.shape[3], image.shape[1]]
        losses = "".join(
            f"[[loss]]\nlogits = {toml(head)}\nweight = {toml(weight)}\nsmoothing = {toml(smoothing)}\n\n"
            for head, weight in zip(heads, weights, strict=True))
        self.text = (f"[input]\nshape = {toml(shape)}\nclasses = {classes}\n\n[network]\nlayers = [\n"
                     + "".join(f"  {{ {each} }},\n" for each in self.layers) + f"]\n\n{losses}{extra}")

    def heads_of(self, result):
        if isinstance(result, torch.fx.Node) and result not in self.names:
            result = result.args  # a named tuple
        return [self.names[each] for each in (result if isinstance(result, (tuple, list)) else [result])]

    def add(self, node, kind, inputs, **attributes):
        name = node.target if node.op == "call_module" and node.target not in self.names.values() else node.name
        entry = {"name": name, "kind": kind, "inputs": [self.names[each] for each in inputs], **attributes}
        self.layers.append(", ".join(f"{key} = {toml(value)}" for key, value in entry.items()))
        self.names[node] = name
        self.flattened[node] = self.flattened.get(inputs[0])

    def skip(self, node, source):
        self.names[node] = self.names[source]
        self.flattened[node] = self.flattened.get(source)

    def argument(self, node, index, name, otherwise):
        return node.args[index] if len(node.args) > index else node.kwargs.get(name, otherwise)

    def translate(self, node):
        source = node.args[0] if node.args else None
        module = self.modules[node.target] if node.op == "call_module" else None
        what = type(module) if module is not None else node.target
        if what in ACTIVATIONS:
            self.add(node, ACTIVATIONS[what], [source])
        elif isinstance(module, nn.GELU):
            self.add(node, "gelu", [source], approximate=module.approximate)
        elif isinstance(module, nn.LeakyReLU):
            self.add(node, "leaky_relu", [source], slope=module.negative_slope)
        elif isinstance(module, nn.Conv2d):
            self.convolution(node, module, source)
        elif isinstance(module, nn.Linear):
            self.linear(node, module, source)
        elif isinstance(module, nn.BatchNorm2d):
            self.batch_norm(node, module, source)
        elif isinstance(module, NOTHING):
            assert getattr(module, "p", 0) == 0, f"{node.target} drops; set its p to 0"
            self.skip(node, source)
        elif getattr(what, "__name__", "") == "stochastic_depth":
            assert self.argument(node, 1, "p", None) == 0, f"{node.name} drops; set its p to 0"
            self.skip(node, source)
        elif isinstance(module, nn.MaxPool2d):
            self.max_pool(node, source, module.kernel_size, module.stride, module.padding, module.ceil_mode)
        elif what is F.max_pool2d or getattr(what, "__name__", "") == "boolean_dispatch" or "max_pool2d" in node.name:
            self.max_pool(node, source, self.argument(node, 1, "kernel_size", None),
                          self.argument(node, 2, "stride", None), self.argument(node, 3, "padding", 0),
                          self.argument(node, 5, "ceil_mode", False))
        elif isinstance(module, nn.AvgPool2d):
            self.average_pool(node, source, module.kernel_size, module.stride, module.padding, module.ceil_mode,
                              module.count_include_pad)
        elif what is F.avg_pool2d:
            self.average_pool(node, source, self.argument(node, 1, "kernel_size", None),
                              self.argument(node, 2, "stride", None), self.argument(node, 3, "padding", 0),
                              self.argument(node, 4, "ceil_mode", False),
                              self.argument(node, 5, "count_include_pad", True))
        elif isinstance(module, nn.AdaptiveAvgPool2d) or what is F.adaptive_avg_pool2d:
            size = both(module.output_size if module is not None else self.argument(node, 1, "output_size", None))
            assert size == [1, 1], f"{node.name}: only the mean of the whole image is known"
            self.add(node, "global_average_pool", [source])
        elif isinstance(module, nn.Flatten) or what in (torch.flatten, "flatten"):
            shape = source.meta["tensor_meta"].shape
            self.skip(node, source)  # a dense layer flattens by itself
            self.flattened[node] = tuple(shape[1:])
        elif what in (operator.add, operator.iadd, torch.add):
            self.add(node, "add", node.args[:2])
        elif what in (operator.mul, operator.imul, torch.mul):
            sizes = [each.meta["tensor_meta"].shape[2:].numel() for each in node.args[:2]]
            self.add(node, "multiply", node.args[:2] if sizes[0] >= sizes[1] else node.args[1::-1])
        elif what in (torch.cat, torch.concat):
            assert self.argument(node, 1, "dim", 0) == 1, f"{node.name}: only channels can be joined"
            self.add(node, "concatenate", source)
        elif what is F.dropout:
            assert self.argument(node, 1, "p", 0.5) == 0, f"{node.name} drops; set its p to 0"
            self.skip(node, source)
        elif isinstance(what, type) and issubclass(what, tuple):
            pass  # the outputs, see heads_of()
        else:
            raise NotImplementedError(f"{node.name}: {what}")

    def convolution(self, node, module, source):
        self.add(node, "conv2d", [source], filters=module.out_channels, kernel=both(module.kernel_size),
                 stride=both(module.stride), dilation=both(module.dilation), pad=both(module.padding), groups=module.groups,
                 bias=0.0 if module.bias is not None else False)
        name = self.names[node]
        self.variables[f"{node.target}.weight"] = (f"{name}/weights", lambda w: w.permute(2, 3, 1, 0))
        if module.bias is not None:
            self.variables[f"{node.target}.bias"] = (f"{name}/biases", lambda b: b)

    def linear(self, node, module, source):
        self.add(node, "dense", [source], units=module.out_features, bias=0.0 if module.bias is not None else False)
        shape = self.flattened.get(source)
        self.flattened[node] = None
        name = self.names[node]

        def move(w):  # PyTorch flattens [C, H, W], towers [H, W, C]
            if shape is not None and len(shape) == 3:
                w = w.reshape(-1, *shape).permute(0, 2, 3, 1).reshape(w.shape)
            return w.t()

        self.variables[f"{node.target}.weight"] = (f"{name}/weights", move)
        if module.bias is not None:
            self.variables[f"{node.target}.bias"] = (f"{name}/biases", lambda b: b)

    def batch_norm(self, node, module, source):
        self.add(node, "batch_norm", [source], epsilon=module.eps, decay=1 - module.momentum, gamma=module.affine,
                 beta=module.affine, group=self.group)
        name = self.names[node]
        for theirs, ours in (("weight", "gamma"), ("bias", "beta"), ("running_mean", "moving_mean"),
                             ("running_var", "moving_variance")):
            if getattr(module, theirs) is not None:
                self.variables[f"{node.target}.{theirs}"] = (f"{name}/{ours}", lambda v: v)

    def max_pool(self, node, source, window, stride, padding, ceil_mode):
        assert not ceil_mode, f"{node.name}: ceil_mode is not known"
        self.add(node, "max_pool", [source], window=both(window), stride=both(stride or window), pad=both(padding))

    def average_pool(self, node, source, window, stride, padding, ceil_mode, count_padding):
        assert not ceil_mode, f"{node.name}: ceil_mode is not known"
        self.add(node, "average_pool", [source], window=both(window), stride=both(stride or window),
                 pad=both(padding), count_padding=count_padding)

    def renamed(self, tensors):
        """PyTorch's name -> tensor becomes the recipe's name -> tensor with the recipe's axes."""
        return {self.variables[name][0]: self.variables[name][1](tensor.detach()).contiguous()
                for name, tensor in tensors.items() if name in self.variables}
