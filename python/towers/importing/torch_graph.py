"""A torch.nn.Module as a graph of calls: what each changes in place, and the numbers that it computes with."""

import contextlib
import copy
import inspect
import itertools
import operator

import numpy as np
import torch
import torch.fx
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from .errors import NotExpressible, plain

BATCH = "batch"  # stands for the number of images in a shape
TRY_ONNX = "torch.onnx.export and an import of its file may be possible"
WRAPPERS = ("DataParallel", "DistributedDataParallel", "AveragedModel", "OptimizedModule")  # the last is torch.compile()'s
COMPUTES_WEIGHTS = (WeightNorm, SpectralNorm, BasePruningMethod)  # hooks that do so before a module runs
IN_PLACE = {operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow,
            operator.iand, operator.ior, operator.ixor}
AS_IS = ("contiguous", "detach", "requires_grad_", "data")
SHAPES = {"view", "reshape", torch.reshape, "unsqueeze", torch.unsqueeze, "squeeze", torch.squeeze}
DROPS_CHANNELS = {"dropout1d", "dropout2d", "dropout3d", "feature_dropout", "alpha_dropout", "feature_alpha_dropout",
                  "stochastic_depth", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout",
                  "StochasticDepth"}
# bound() knows no arguments of these
DROPOUTS = {torch.dropout, torch.feature_dropout, torch.alpha_dropout, torch.feature_alpha_dropout}
# What may give the memory that it got. Dropout does so without training.
VIEWS = {*SHAPES, *AS_IS, *DROPS_CHANNELS, torch.flatten, "flatten", "Flatten", "permute", torch.permute, "Permute",
         "expand_as", "expand", F.dropout, torch.dropout, "Dropout"}


def function_name(what):
    return what if isinstance(what, str) else getattr(what, "__name__", "")


def bound(function, args, kwargs):
    """The arguments by name; empty if Python does not know the function's own."""
    try:
        found = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {}
    found.apply_defaults()
    return found.arguments


@contextlib.contextmanager
def evaluating(module):
    """Leaves each of its modules in the mode that it had."""
    modes = [(each, each.training) for each in module.modules()]
    try:
        module.eval()
        with torch.no_grad():
            yield
    finally:
        for each, mode in modes:
            each.training = mode


def numbers_of(module):
    """Its parameters and buffers of floating-point numbers."""
    return [each for each in itertools.chain(module.parameters(), module.buffers()) if each.is_floating_point()]


def with_all_digits(module):
    """The module within wrappers, or a copy of it that computes on the CPU in float32, since GPUs may leave digits out."""
    while type(module).__name__ in WRAPPERS:
        module = getattr(module, "_orig_mod", None) or module.module
    if all(each.device.type == "cpu" and each.dtype in (torch.float32, torch.float64) for each in numbers_of(module)):
        return module
    try:
        return copy.deepcopy(module).cpu().float()
    except Exception as error:  # of a module's own code, or of tensors that cannot be copied
        raise NotExpressible(f"has no copy on the CPU in float32: {plain(error, 200)}; give it as module.float().cpu()") from error


class Mutable(torch.fx.Proxy):
    """Records `x += y` as such; by itself torch.fx takes it for x = x + y."""


def recorder(operation):
    return lambda self, other: self.tracer.create_proxy("call_function", operation, (self, other), {})


for each in IN_PLACE:
    setattr(Mutable, f"__{each.__name__}__", recorder(each))


class Tracer(torch.fx.Tracer):
    def proxy(self, node):
        return Mutable(node, self)


def trace(module):
    """Its torch.fx.GraphModule, traced in its present mode."""
    check_hooks(module, "the module itself", traced=False)
    counters = [(each, each.clone()) for each in module.buffers() if each.dim() == 0]  # tracing runs what counts
    try:
        return torch.fx.GraphModule(module, Tracer().trace(module))
    except NotExpressible:
        raise
    except Exception as error:  # whatever a module's own code raises
        text = " ".join(str(error).split())[:200]
        raise NotExpressible(f"torch.fx cannot trace it: {text or type(error).__name__}; what its forward() does must "
                             f"not depend on values; {TRY_ONNX}") from error
    finally:
        for each, before in counters:
            each.copy_(before)


def check_hooks(module, called, *, traced):
    """Refuses what changes how a module computes and is not traced."""
    for hooks, what in ((module._forward_pre_hooks, "pre-hook"), (module._forward_hooks, "hook")):
        for hook in hooks.values():
            if not isinstance(hook, COMPUTES_WEIGHTS):
                kind = getattr(hook, "__qualname__", type(hook).__name__)
                raise NotExpressible(f"{called} has a forward {what}, {kind}, which may change what it computes; take it off")
    if traced and "forward" in vars(module):
        raise NotExpressible(f"{called} has a forward() of its own, which may compute something else; take it off")


class Graph:
    """The calls of a traced module, with the result of each: what the derived class makes of it, or a number, a tensor or
    a shape that does not depend on the images."""

    def __init__(self, module):
        self.traced = trace(module)
        self.modules = dict(module.named_modules())
        self.tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self.names = {id(each): name for name, each in self.tensors.items()}
        self.results = {}
        # The first node that gives a node's tensor, and the one whose memory it is in
        self.tensor_of, self.memory_of = {}, {}

    def walk(self):
        with evaluating(self.modules[""]):
            for node in self.traced.graph.nodes:
                self.results[node] = self.result_of(node)
                self.follow(node)

    def result_of(self, node):
        if node.op == "placeholder":
            return self.placeholder(node)
        if node.op == "get_attr":
            return self.tensors[node.target] if node.target in self.tensors else self.attribute(node.target)
        if node.op == "output":
            return self.end(self.filled(node.args[0], node))
        arguments = Arguments(self, node)
        try:
            return self.translate(node, arguments) if any(map(self.depends, arguments.everything())) else (
                self.computed(node, arguments))
        except NotExpressible:
            raise
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError,
                ArithmeticError, AssertionError) as error:
            raise NotExpressible(f"{self.called(node)} is called as a recipe's layers cannot be: "
                                 f"{' '.join(str(error).split())[:160]}; {TRY_ONNX}") from error

    def attribute(self, name):
        value = self.modules[""]
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def filled(self, argument, reader):
        def result(node):
            if isinstance(self.results[node], Changed):
                raise NotExpressible(f"{self.called(reader)} takes '{node.name}', which {self.called(self.results[node].by)} "
                                     "has changed in place through another view; clone() it before")
            return self.results[node]

        return torch.fx.node.map_arg(argument, result)

    def called(self, node):
        """What messages call a node."""
        if node.op == "call_module":
            return f"'{node.target}' ({type(self.modules[node.target]).__name__})"
        if node.op == "output":
            return "its output"
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        if target == "boolean_dispatch" or target == "fn":
            target = node.name
        return f"'{node.name}' ({target})"

    def computed(self, node, given):
        """Numbers that do not depend on the images."""
        if node.target is not operator.getitem and any(isinstance(each, str) and each == BATCH for each in given.everything()):
            raise NotExpressible(f"{self.called(node)} computes with the number of images")
        if self.changes(node) and any(isinstance(each, torch.Tensor) for each in given.everything()):
            raise NotExpressible(f"{self.called(node)} changes the module's own numbers in place")
        if node.op == "call_module":
            return self.module_of(node)(*given.all, **given.named)
        if node.op == "call_method":
            return getattr(given.all[0], node.target)(*given.all[1:], **given.named)
        return node.target(*given.all, **given.named)

    # --- Operations in place

    def changes(self, node):
        """Whether the node changes its first argument."""
        if node.op == "call_module":
            return bool(getattr(self.modules[node.target], "inplace", False))
        name = function_name(node.target)
        if node.op == "call_method":
            return name.endswith("_") and not name.endswith("__") and name not in AS_IS
        if node.op != "call_function":
            return False
        if getattr(node.target, "__module__", "") == "_operator":  # which has also not_ and is_
            return node.target in IN_PLACE
        inplace = bound(node.target, node.args, node.kwargs).get("inplace", node.kwargs.get("inplace", False))
        return name.endswith("_") or bool(inplace)

    def follow(self, node):
        """After a node's result: rebinds the nodes that give the tensor which it has changed."""
        if node.kwargs.get("out") is not None:
            raise NotExpressible(f"{self.called(node)} writes into 'out'; recipes' layers give new tensors")
        source = node.args[0] if node.args else node.kwargs.get("input")
        changes = self.changes(node)
        module = self.modules[node.target] if node.op == "call_module" else None
        known = isinstance(source, torch.fx.Node) and self.depends(self.results[node])
        what = type(module).__name__ if module is not None else node.target
        self.tensor_of[node] = self.memory_of[node] = node
        if known and (changes or isinstance(module, nn.Identity)):
            self.tensor_of[node], self.memory_of[node] = self.tensor_of[source], self.memory_of[source]
        elif known and (what in VIEWS or function_name(what) in VIEWS or what is getattr):
            self.memory_of[node] = self.memory_of[source]
        if not known or not changes:
            return
        for other, memory in self.memory_of.items():
            if memory is self.memory_of[node]:
                same = self.tensor_of[other] is self.tensor_of[node]
                self.results[other] = self.results[node] if same else Changed(node)

    # --- Weights

    def module_of(self, node):
        """The node's module, ready to be asked for its weights."""
        module = self.modules[node.target]
        if isinstance(module, nn.modules.lazy.LazyModuleMixin):
            raise NotExpressible(f"{self.called(node)} has no weights yet; call the module once with images")
        check_hooks(module, self.called(node), traced=True)
        for hook in module._forward_pre_hooks.values():
            hook(module, None)
        return module

    def source(self, name, tensor, node):
        """Under which name variables get these numbers: the parameter's own, or else this one. None if there are none."""
        if tensor is None:
            return None
        if tensor.is_complex() or tensor.is_quantized or tensor.layout != torch.strided:
            raise NotExpressible(f"{self.called(node)} has weights of {tensor.dtype}, {tensor.layout}; recipes have float32")
        name = self.names.get(id(tensor), name)
        self.tensors[name] = tensor
        return name

    def arrays(self, names):
        return {name: self.tensors[name].detach().float().cpu().numpy() for name in names if name in self.tensors}


class Changed:
    """In place of a node's result: its memory has been changed `by` another one."""

    def __init__(self, by):
        self.by = by


class Arguments:
    """A node's arguments with the results of the nodes in them."""

    def __init__(self, graph, node):
        self.all = list(graph.filled(node.args, node))
        self.named = dict(graph.filled(node.kwargs, node))

    def get(self, index, name, *otherwise):
        if len(self.all) > index:
            return self.all[index]
        return self.named.get(name, *otherwise) if otherwise else self.named[name]

    def everything(self):
        found = []
        for each in [*self.all, *self.named.values()]:
            found += each if isinstance(each, (tuple, list)) else [each]
        return found


class Evaluation(torch.fx.Interpreter):
    """Runs a graph that was traced in training as if it were in evaluation."""

    def call_function(self, target, args, kwargs):
        if target in DROPOUTS:
            return args[0] if args else kwargs["input"]
        named = bound(target, args, kwargs)
        if "training" not in named or named.get("running_mean", self) is None:  # statistics of weights
            return super().call_function(target, args, kwargs)
        return super().call_function(target, (), {**named, "training": False})


def outputs_of(module, traced, images, count, *, as_traced=False):
    """The module's first `count` outputs in evaluation, for float32 images, [images, channels, height, width]. Those that it
    has only in training, as auxiliary heads, follow from the graph; as_traced: all do."""
    like = next(iter(numbers_of(module)), torch.zeros(()))
    images = torch.from_numpy(np.ascontiguousarray(images)).to(like.device, like.dtype)
    try:
        with evaluating(module):
            own = listed(module(images.clone()))
            if as_traced:  # then random numbers that a trace takes for constants may not be what differs
                torch.testing.assert_close(listed(Evaluation(trace(module)).run(images.clone())), own)
            found = [] if as_traced else own
            if len(found) < count:
                found += listed(Evaluation(traced).run(images.clone()))[len(found):]
        return [each.double().cpu().numpy() for each in found[:count]]
    except Exception as error:  # whatever a module's own code raises
        raise NotExpressible(f"fails in evaluation: {type(error).__name__}: {plain(error, 300)}") from error


def listed(result):
    """A module's outputs."""
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, (tuple, list)) else [result]
