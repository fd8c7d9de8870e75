"""Modules that change tensors in place, compute their weights, or call functions in place of layers. For
importing.py."""

import os
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

from towers.importing import import_torch
from towers.importing.from_torch import ACTIVATIONS, network_of


class Net(nn.Module):
    """Two convolutions of one shape, and what `forward` makes of them."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.fc, self.flat = nn.Linear(8, 10), nn.Linear(8 * 48, 10)
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.rest = forward

    def forward(self, x):
        return self.rest(self, x)

    def end(self, x):
        return self.fc(x.mean((2, 3)))

    def end_of_all(self, x):
        return self.end(self.conv2(F.relu(self.conv1(x))))


def in_place(change, **layers):
    """A shortcut from a tensor that a branch changes."""

    def forward(net, x):
        x = net.conv1(x)
        x = x + net.conv2(change(net, x))
        return net.end(x)

    return Net(forward, **layers)


def dropped(change):
    def forward(net, x):
        x = net.conv1(x)
        change(x)
        return net.end(net.conv2(x))

    return Net(forward)


def aliased(alias, change, **layers):
    """What reads the tensor under another name that was given before the change."""

    def forward(net, x):
        x = net.conv1(x)
        y = alias(net, x)
        x = change(net, x)
        return net.end(x + y)

    return Net(forward, **layers)


def add_in_place(net, x):
    x += net.conv2(x)
    return x


def subtract_in_place(net, x):
    x -= 0.25
    return x


def multiply_in_place(net, x):
    x *= torch.sigmoid(net.conv2(x))
    return x


def same(net, x):
    return x


def view_first(net, x):
    x = net.conv1(x)
    flat = x.flatten(1)
    x.relu_()
    return net.flat(flat) + net.end(x)


def view_last(net, x):
    return net.flat(F.relu(net.conv1(x).flatten(1), inplace=True))


def of_images(net, x):
    x -= 0.5
    return net.end(net.conv1(x.div_(0.25)))


def into_another(net, x):
    x = net.conv1(x)
    y = net.conv2(x)
    torch.add(x, x, out=y)
    return net.end(y)


IMPORTED = {
    "ReLU(inplace=True)": in_place(lambda net, x: net.act(x), act=nn.ReLU(inplace=True)),
    "SiLU(inplace=True)": in_place(lambda net, x: net.act(x), act=nn.SiLU(inplace=True)),
    "LeakyReLU(inplace=True)": in_place(lambda net, x: net.act(x), act=nn.LeakyReLU(0.1, inplace=True)),
    "Hardtanh(inplace=True)": in_place(lambda net, x: net.act(x), act=nn.Hardtanh(0, 6, inplace=True)),
    "Dropout(inplace=True)": in_place(lambda net, x: net.act(x), act=nn.Dropout(0.5, inplace=True)),
    "F.relu(inplace=True)": in_place(lambda net, x: F.relu(x, inplace=True)),
    "F.relu(x, True)": in_place(lambda net, x: F.relu(x, True)),
    "F.hardswish(x, True)": in_place(lambda net, x: F.hardswish(x, True)),
    "F.leaky_relu(x, 0.1, True)": in_place(lambda net, x: F.leaky_relu(x, 0.1, True)),
    "Softplus": in_place(lambda net, x: net.act(x), act=nn.Softplus()),
    "F.softplus": in_place(lambda net, x: F.softplus(x)),
    "F.relu_": in_place(lambda net, x: F.relu_(x)),
    "torch.relu_": in_place(lambda net, x: torch.relu_(x)),
    "x.clamp_": in_place(lambda net, x: x.clamp_(0, 6)),
    "x.sigmoid_": in_place(lambda net, x: x.sigmoid_()),
    "x.mul_": in_place(lambda net, x: x.mul_(torch.sigmoid(x))),
    "a change without a reader": in_place(lambda net, x: F.relu(x)),
    "x.relu_() dropped": dropped(lambda x: x.relu_()),
    "F.relu_(x) dropped": dropped(lambda x: F.relu_(x)),
    "x.add_() dropped": dropped(lambda x: x.add_(0.5)),
    "+= with an alias": aliased(same, add_in_place),
    "-= with an alias": aliased(same, subtract_in_place),
    "*= with an alias": aliased(same, multiply_in_place),
    "Identity as an alias": aliased(lambda net, x: net.act(x), add_in_place, act=nn.Identity()),
    "clone() as no alias": aliased(lambda net, x: x.clone(), add_in_place),
    "a change of the alias": aliased(lambda net, x: x.relu_(), subtract_in_place),
    "a view changed, and read alone": Net(view_last),
    "images changed": Net(of_images),
}
REFUSED = {
    "a view of what is changed": (Net(view_first), "'flatten', which 'relu_' (relu_) has changed in place"),
    "detach() of what is changed": (aliased(lambda net, x: x.detach(), add_in_place), "'iadd' (iadd) has changed in place"),
    "a dropout before a change": (aliased(lambda net, x: F.dropout(x, 0.5), add_in_place), "'iadd' (iadd) has changed in"),
    "out=": (Net(into_another), "'add' (add) writes into 'out'"),
    "numbers of another axis": (Net(lambda net, x: net.end(net.conv1(x) * torch.arange(8.0))), "not one for each channel"),
    "a softplus of another beta": (in_place(lambda net, x: F.softplus(x, 2)), "'softplus' (softplus) has beta 2"),
    "x.zero_()": (dropped(lambda x: x.zero_()), "'zero_' (zero_) has no layer"),
}


def wrapped(change, forward=Net.end_of_all):
    net = Net(forward)
    changed = change(net)
    return net if changed is None else changed


def share(net):
    net.conv3 = nn.Conv2d(8, 8, 3, padding=1)
    net.conv3.weight = net.conv2.weight
    net.rest = lambda net, x: net.end(net.conv3(net.conv2(net.conv1(x))))


def patch(net):
    net.conv2.forward = lambda x: x * 2


def hook(net, *rest):
    return None


COMPUTED = {
    "weight_norm": lambda net: [weight_norm(net.conv1), weight_norm(net.fc, dim=None)] and None,
    "parametrized weight_norm": lambda net: parametrizations.weight_norm(net.conv1) and None,
    "spectral_norm": lambda net: spectral_norm(net.conv1) and None,
    "parametrized spectral_norm": lambda net: parametrizations.spectral_norm(net.fc) and None,
    "orthogonal": lambda net: parametrizations.orthogonal(net.fc) and None,
    "prune": lambda net: [prune.l1_unstructured(net.conv1, "weight", 0.5), prune.random_unstructured(net.fc, "bias", 0.5)] and None,
    "prune twice": lambda net: [prune.l1_unstructured(net.conv1, "weight", 0.3) for _ in range(2)] and None,
    "a weight that is no parameter": lambda net: [net.conv1.__delattr__("weight"),
                                                  setattr(net.conv1, "weight", torch.randn(8, 3, 3, 3))] and None,
}
NOT_COMPUTED = {
    "one parameter in two modules": (share, "'conv3' shares its variables with 'conv2'"),
    "a forward hook": (lambda net: net.conv2.register_forward_hook(hook) and None, "'conv2' (Conv2d) has a forward hook, hook"),
    "a forward pre-hook": (lambda net: net.conv2.register_forward_pre_hook(hook) and None, "'conv2' (Conv2d) has a forward pre-"),
    "a hook of the module itself": (lambda net: net.register_forward_hook(hook) and None, "the module itself has a forward hook"),
    "another forward()": (patch, "'conv2' (Conv2d) has a forward() of its own"),
    "a lazy module": (lambda net: setattr(net, "fc", nn.LazyLinear(10)), "'fc' (LazyLinear) has no weights yet"),
}


class NormAct(nn.BatchNorm2d):
    """As timm's BatchNormAct2d calls a batch norm."""

    def forward(self, x):
        torch._assert(x.ndim == 4, f"expected 4D input (got {x.ndim}D input)")
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        x = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps)
        return F.relu(x, inplace=True)


class Standardized(nn.Conv2d):
    """A convolution of standardized weights."""

    def forward(self, x):
        weight = (self.weight - self.weight.mean((1, 2, 3), keepdim=True)) / (self.weight.std((1, 2, 3), keepdim=True) + 1e-5)
        return F.conv2d(x, weight, self.bias, self.stride, "same", self.dilation, self.groups)


class Functions(nn.Module):
    """Functions in place of layers, and shapes."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = Standardized(3, 8, 3), NormAct(8), nn.Linear(8, 5)
        self.gate = nn.Parameter(torch.randn(8, 8) / 4)
        self.kernel = nn.Parameter(torch.randn(8, 1, 3, 3) / 4)
        self.scale = nn.Parameter(torch.linspace(0.5, 2, 8))

    def forward(self, x):
        x = self.norm(self.conv(x))
        batch, channels, height, width = x.shape
        x = x + F.conv2d(x, self.kernel, padding=(1, 1), groups=channels)
        squeezed = F.avg_pool2d(x, x.size()[2:]).reshape(x.shape[0], -1)
        gate = torch.sigmoid(F.linear(squeezed, self.gate)).view(batch, channels, 1, 1)
        x = x * gate.expand_as(x) + gate.expand(-1, -1, height, width) * x
        return self.last(x.mean((2, 3)) * self.scale)


class Buffers(nn.Module):
    """Weights that are no parameters, in any precision."""

    def __init__(self, kind=torch.float32):
        super().__init__()
        self.register_buffer("steps", torch.tensor(3))
        self.register_buffer("kernel", torch.randn(8, 3, 3, 3).to(kind))
        self.register_buffer("weight", torch.randn(5, 8).to(kind))

    def forward(self, x):
        return F.linear(F.relu(F.conv2d(x, self.kernel)).mean((2, 3)), self.weight)


class Auxiliary(nn.Module):
    """A second head in training only, with a dropout."""

    def __init__(self, dropout=F.dropout):
        super().__init__()
        self.conv, self.aux, self.last = nn.Conv2d(3, 8, 3), nn.Linear(8, 5), nn.Linear(8, 5)
        self.dropout = dropout

    def forward(self, x):
        x = F.relu(self.conv(x)).mean((2, 3))
        return (self.last(x), self.aux(self.dropout(x, 0.5, self.training))) if self.training else self.last(x)


class Moody(nn.Module):
    """Computes something else in evaluation."""

    def __init__(self, otherwise):
        super().__init__()
        self.conv, self.last, self.otherwise = nn.Conv2d(3, 8, 3), nn.Linear(8, 5), otherwise

    def forward(self, x):
        x = self.last(F.relu(self.conv(x)).mean((2, 3)))
        return x if self.training else self.otherwise(x)


def test_numbers(test):
    """What is imported computes what the module does, and leaves it as it was."""

    def agrees(what, make, shape=(6, 8, 3), **more):
        module = make()
        before = {name: each.clone() for name, each in module.state_dict().items()}
        try:
            imported = import_torch(module.train(), shape, **more)
        except Exception as error:
            return test.check(False, f"{what}: {type(error).__name__}: {error}")
        kept = all(torch.equal(each, before[name]) for name, each in module.state_dict().items())
        test.check(imported.off is not None and imported.off < 1e-5 and kept and module.training and not any(
            "nothing was checked" in note for note in imported.notes), f"{what}: off by {imported.off}")
        return imported

    torch.manual_seed(1)
    for what, net in IMPORTED.items():
        agrees(what, lambda net=net: net)
    for what, change in COMPUTED.items():
        agrees(what, lambda change=change: wrapped(change))
    agrees("functions in place of layers", Functions, mean=0.5, deviation=[0.2, 0.25, 0.3])
    agrees("two branches of the images", lambda: Net(lambda net, x: net.end(net.conv1(x) + net.other(x)), other=nn.Conv2d(3, 8, 1)))
    agrees("numbers of the last axis", lambda: Net(lambda net, x: net.end((net.conv1(x).permute(0, 2, 3, 1) * torch.arange(
        8.0)).permute(0, 3, 1, 2))), shape=(8, 8, 3))
    for end in (nn.Softmax(1), nn.LogSoftmax(1)):
        agrees(type(end).__name__, lambda end=end: nn.Sequential(Net(Net.end_of_all), end))
    for dropout in (F.dropout, torch.dropout, torch.alpha_dropout, lambda x, p, train: torch.dropout(input=x, p=p, train=train)):
        agrees(f"an auxiliary head after a {dropout.__name__}", lambda dropout=dropout: Auxiliary(dropout))
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        agrees(f"weights in buffers, {kind}", lambda kind=kind: Buffers(kind))
    for what, otherwise in (("softmax", lambda x: x.softmax(1)), ("other numbers", lambda x: x * 1.01),
                            ("classes", lambda x: x.argmax(1)), ("a dict", lambda x: {"probabilities": x.softmax(1)})):
        imported = agrees(f"{what} in evaluation", lambda otherwise=otherwise: Moody(otherwise))
        test.check(imported and "in eval mode the module computes something else" in imported.notes[-1], "a line says so")
        imported = import_torch(Moody(otherwise).eval(), (6, 6, 3)) if what == "softmax" else None
        test.check(not imported or imported.off < 1e-5 and "eval" not in str(imported.notes), "none does for eval mode")
    for layer in ("aux", "last"):
        module = Auxiliary().train()
        imported = import_torch(module, (6, 6, 3), check=False)
        with torch.no_grad():
            getattr(module, layer).weight.mul_(1.001)
        outputs = network_of(module, (6, 6, 3))[2]
        test.refuses(f"a wrong {layer}", f"'{layer}' of the recipe is off by ", lambda: imported.check(
            lambda pictures: outputs(np.float32(pictures.transpose(0, 3, 1, 2) / 255))))
    for wrap in (nn.DataParallel, torch.optim.swa_utils.AveragedModel, torch.compile):
        agrees(f"a module in {wrap.__name__}", lambda wrap=wrap: wrap(Net(Net.end_of_all)))
    half = agrees("half precision", lambda: Net(Net.end_of_all).half())
    test.refuses("no weights", "has no copy on the CPU in float32", lambda: import_torch(Net(Net.end_of_all).to("meta"), (6, 8, 3)))
    test.check(half is not None and half.variables["fc/weights"].dtype == np.float32, "it becomes float32")


def test_refusals(test):
    for what, (net, says) in REFUSED.items():
        test.refuses(what, says, lambda net=net: import_torch(net.train(), (6, 8, 3), check=False))
    for what, (change, says) in NOT_COMPUTED.items():
        test.refuses(what, says, lambda change=change: import_torch(wrapped(change).train(), (6, 6, 3), check=False))
    for layer in (nn.ReLU(), nn.Conv2d(8, 8, 1)):  # also those without weights
        layer.register_forward_hook(hook)
        test.refuses(f"a hook of {type(layer).__name__}", "forward hook", lambda: import_torch(
            nn.Sequential(nn.Conv2d(3, 8, 3), layer, nn.Flatten(), nn.Linear(128, 3)), (6, 6, 3), check=False))
    test.refuses("splits", "torch.onnx.export", lambda: import_torch(
        Net(lambda net, x: net.end(torch.cat(net.conv1(x).roll(1, 1).chunk(2, 1), 1))), (6, 6, 3), check=False))
    # The command leaves nothing behind.
    path, out = test.path("wrong.py"), test.path("wrong")
    with open(path, "w") as file:
        file.write("from importing_modules import Auxiliary\n")
    model = f"{path}:Auxiliary"
    with mock.patch.dict(ACTIVATIONS, {F.relu: "sigmoid"}):
        test.says(f"{model}: 'last' of the recipe is off by", model, "--shape", "6,6,3", "--out", out, starts=True)
        test.check(not any(os.path.exists(out + end) for end in (".toml", ".safetensors")), "no file is left")
        test.check(test.imports(model, "--shape", "6,6,3", "--out", out, "--no-check") and os.path.exists(out + ".toml"),
                   "--no-check imports it")
    for mode in (True, False):
        test.refuses("random numbers", "is off by", lambda mode=mode: import_torch(
            Net(lambda net, x: net.end(net.conv1(x) + torch.randn(8, 1, 1))).train(mode), (6, 6, 3)))
    test.refuses("no tensor in evaluation", "fails in evaluation: AttributeError", lambda: import_torch(
        Moody(lambda x: "a cat").train(), (6, 6, 3)))
    program = os.environ.pop("TOWERS_PROGRAM")
    path_before = os.environ["PATH"]
    os.environ["PATH"] = ""
    said = test.imports(model, "--shape", "6,6,3", "--out", out, "--force")
    os.environ["PATH"], os.environ["TOWERS_PROGRAM"] = path_before, program
    test.check(said.count("nothing was checked by numbers: there is no program 'towers'") == 1, "without the program, a line says so")


def test_modules(test):
    test_numbers(test)
    test_refusals(test)
