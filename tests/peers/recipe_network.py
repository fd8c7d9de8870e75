"""A recipe of towers as a network in PyTorch, for train_in_pytorch.py.

Written apart from the trainer, after docs/recipes.md. Knows the kinds of layers of the residual networks; any other is
an error. Variables have the names that checkpoints of towers have.
"""

import json
import math

import numpy as np
import torch
import torch.nn.functional as F

from recipe_graph import IMAGES, Graph


def read_safetensors(path):
    """name -> float32 tensor"""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
            tensors[name] = torch.from_numpy(values.copy())
    return tensors


def two(value):
    return value if isinstance(value, list) else [value, value]


class Network(torch.nn.Module):
    """Takes normalized images [N, channels, height, width], gives [N, classes], not scaled."""

    def __init__(self, recipe, whole_batch=False):
        """`whole_batch`: batch norm over the whole batch in place of the recipe's groups."""
        super().__init__()
        self.recipe, self.whole_batch = recipe, whole_batch
        self.nodes, self.shapes, self.decays = Graph(recipe).nodes, [], []
        for node in self.nodes:
            if not hasattr(self, "shape_of_" + node.kind):
                raise SystemExit(f"{node.name}: this copy knows no layers of kind {node.kind}")
            shapes = [recipe["input"]["shape"] if each == IMAGES else self.shapes[each] for each in node.inputs]
            self.shapes.append(getattr(self, "shape_of_" + node.kind)(node, *shapes))
        self.plan()

    def plan(self):
        """Which tensors end at which node, and what may be overwritten because nothing else reads it."""
        uses = [0] * len(self.nodes)
        for node in self.nodes:
            for each in node.inputs:
                uses[each] += each != IMAGES
        for node in self.nodes:
            first = node.inputs[0]
            node.in_place = first != IMAGES and uses[first] == 1 and self.nodes[first].kind in (
                "conv2d", "batch_norm", "add")  # their gradients do not need their output
        last_use = {each: i for i, node in enumerate(self.nodes) for each in node.inputs}
        self.ends = [[each for each, at in last_use.items() if at == i and each != IMAGES]
                     for i in range(len(self.nodes))]

    def forward(self, x):
        values = [None] * len(self.nodes) + [x]  # IMAGES is the last
        for i, node in enumerate(self.nodes):
            values[i] = getattr(self, "run_" + node.kind)(node, *(values[each] for each in node.inputs))
            for each in self.ends[i]:
                values[each] = None
        return values[len(self.nodes) - 1]

    # --- Variables

    def weights(self, node, shape, fan_in, fan_out):
        """Of `shape` in PyTorch's order of axes."""
        if "stddev" in node.table or "weight_decay" in node.table:
            raise SystemExit(f"{node.name}: this copy knows neither stddev nor weight_decay of a layer")
        start = node.table.get("init", "he_normal")
        weights = torch.empty(shape)
        if start in ("he_normal", "he_fan_out"):
            weights.normal_(0, math.sqrt(2 / (fan_in if start == "he_normal" else fan_out)))
        else:
            bound = {"glorot_uniform": math.sqrt(6 / (fan_in + fan_out)), "uniform_fan_in": 1 / math.sqrt(fan_in),
                     "uniform_fan_out": 1 / math.sqrt(fan_out)}[start]
            weights.uniform_(-bound, bound)
        self.variable(node, "weights", weights)
        bias = node.table.get("bias", 0)
        if bias is not False:
            self.variable(node, "biases", torch.full((shape[0],), float(bias)))
        if self.recipe["optimizer"].get("decays", "weights") == "weights":
            self.decays.append(node.name + "/weights")

    def variable(self, node, name, value):
        self.register_parameter(f"{node.name}/{name}", torch.nn.Parameter(value))
        if self.recipe["optimizer"].get("decays") == "all":
            self.decays.append(f"{node.name}/{name}")

    def of(self, node, name):
        return getattr(self, f"{node.name}/{name}", None)

    def load(self, tensors):
        """Variables in towers' order of axes: HWIO, [in, out]."""
        with torch.no_grad():
            for name, own in (*self.named_parameters(), *self.named_buffers()):
                value = tensors[name]
                own.copy_({4: lambda v: v.permute(3, 2, 0, 1), 2: torch.t}.get(value.dim(), lambda v: v)(value))

    # --- Layers: the output's [height, width, channels], making variables; then the computation

    def windows(self, node, shape, size):
        """Sets the node's window; the output's height and width. A padding of both sides alike is PyTorch's own."""
        node.size, node.stride = two(size), two(node.table.get("stride", 1 if node.kind == "conv2d" else None))
        pad = node.table.get("pad", "same")
        if pad == "same":  # TensorFlow's
            missing = [max((math.ceil(n / s) - 1) * s + k - n, 0) for n, s, k in zip(shape, node.stride, node.size)]
            sides = [(each // 2, each - each // 2) for each in missing]
        elif pad == "valid":
            sides = [(0, 0), (0, 0)]
        else:
            sides = [(each, each) for each in two(pad)] if not isinstance(pad, list) or len(pad) == 2 else [
                tuple(pad[:2]), tuple(pad[2:])]
        even = all(a == b for a, b in sides)
        node.padding = [a for a, _ in sides] if even else [0, 0]
        node.apart = None if even else (*sides[1], *sides[0])
        return [(n + a + b - k) // s + 1 for n, (a, b), k, s in zip(shape, sides, node.size, node.stride)]

    def shape_of_conv2d(self, node, shape):
        height, width = self.windows(node, shape, node.table["kernel"])
        filters, area = node.table["filters"], math.prod(node.size)
        if node.table.get("groups", 1) != 1 or two(node.table.get("dilation", 1)) != [1, 1]:
            raise SystemExit(f"{node.name}: this copy knows neither groups nor dilation of convolutions")
        self.weights(node, (filters, shape[2], *node.size), area * shape[2], area * filters)
        return [height, width, filters]

    def run_conv2d(self, node, x):
        x = F.pad(x, node.apart) if node.apart else x
        return F.conv2d(x, self.of(node, "weights"), self.of(node, "biases"), node.stride, node.padding)

    def shape_of_dense(self, node, shape):
        units, inputs = node.table["units"], math.prod(shape)
        self.weights(node, (units, inputs), inputs, units)
        return [1, 1, units]

    def run_dense(self, node, x):
        x = x.permute(0, 2, 3, 1).flatten(1) if x.dim() == 4 else x
        return F.linear(x, self.of(node, "weights"), self.of(node, "biases"))

    def shape_of_batch_norm(self, node, shape):
        group = node.table.get("group", 32)
        node.group = 0 if group == "batch" or self.whole_batch else group
        for name, start in (("gamma", node.table.get("gamma_start", 1.0)), ("beta", 0.0)):
            if node.table.get(name, True):
                self.variable(node, name, torch.full((shape[2],), float(start)))
        self.register_buffer(node.name + "/moving_mean", torch.zeros(shape[2]))
        self.register_buffer(node.name + "/moving_variance", torch.ones(shape[2]))
        return shape

    def run_batch_norm(self, node, x):
        gamma, beta = self.of(node, "gamma"), self.of(node, "beta")
        mean, variance = self.of(node, "moving_mean"), self.of(node, "moving_variance")
        epsilon, blend = node.table.get("epsilon", 1e-5), 1 - node.table.get("decay", 0.9)
        if not self.training:
            return F.batch_norm(x, mean, variance, gamma, beta, False, 0, epsilon)
        sample = node.table.get("variance", "sample") == "sample"
        if sample and node.group in (0, len(x)):
            return F.batch_norm(x, mean, variance, gamma, beta, True, blend, epsilon)
        groups = x.split(node.group or len(x))
        means, variances = torch.zeros(2, len(groups), len(mean))
        # A momentum of 1 leaves each group's own statistics there.
        parts = [F.batch_norm(part, means[i], variances[i], gamma, beta, True, 1, epsilon)
                 for i, part in enumerate(groups)]
        count = groups[0].numel() / len(mean)
        mean.lerp_(means.mean(0), blend)
        variance.lerp_(variances.mean(0) * (1 if sample else (count - 1) / count), blend)
        return torch.cat(parts)

    def shape_of_max_pool(self, node, shape):
        return [*self.windows(node, shape, node.table["window"]), shape[2]]

    def run_max_pool(self, node, x):
        x = F.pad(x, node.apart, value=-math.inf) if node.apart else x
        return F.max_pool2d(x, node.size, node.stride, node.padding)

    def shape_of_global_average_pool(self, node, shape):
        return [1, 1, shape[2]]

    def run_global_average_pool(self, node, x):
        return F.adaptive_avg_pool2d(x, 1)

    def shape_of_add(self, node, *shapes):
        return shapes[0]

    def run_add(self, node, first, *others):
        for i, each in enumerate(others):
            first = first.add_(each) if node.in_place or i else first + each
        return first

    def shape_of_relu(self, node, shape):
        return shape

    def run_relu(self, node, x):
        return F.relu(x, inplace=node.in_place)
