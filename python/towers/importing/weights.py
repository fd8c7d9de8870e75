"""Reads the weights of a module from a file, in whatever people wrap them."""

import argparse
import collections
import contextlib
import os
import pathlib
import re
from collections.abc import Mapping

from .errors import CannotImport, plain

# Parts of names that DataParallel and AveragedModel, torch.compile, FSDP and checkpoint_wrapper add
WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
COUNTER = "num_batches_tracked"  # which old files lack


def holds_weights(path):
    """Whether the file is like one of torch.save(), a zip file or in old versions a pickle, or of safetensors."""
    if not os.path.isfile(path):  # whoever reads it says why
        return False
    if path.endswith(".safetensors"):
        return True
    with open(path, "rb") as file:
        return re.match(rb"PK\x03\x04|\x80[\x02-\x05]", file.read(4)) is not None


def allowing_what_is_harmless():
    """Allows torch.load() what training scripts save beside weights, and what runs no code when it is read: settings, paths
    and numpy's numbers."""
    import numpy as np
    import torch

    if torch.__version__ < (2, 6):  # whose torch.load() takes no names for what it allows
        return contextlib.nullcontext()
    scalar = (getattr(np, "_core", None) or np.core).multiarray.scalar
    names = [(scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")]  # before numpy 2, and since
    kinds = [type(np.dtype(each)) for each in ("f4", "f8", "i4", "i8", "?")]
    return torch.serialization.safe_globals([argparse.Namespace, pathlib.PosixPath, np.dtype, *names, *kinds])


def read(path):
    """What a .safetensors file or one of torch.save() holds, if it is a dict."""
    open(path, "rb").close()  # libraries have errors of their own for a file that cannot be read
    try:
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file

            return load_file(path)
        import torch

        with allowing_what_is_harmless():
            saved = torch.load(path, map_location="cpu", weights_only=True)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # of any kind: the file may hold anything
        pickled = re.search(r"\bGLOBAL (\S+)", str(error))
        if not pickled and "TorchScript" not in str(error):
            raise CannotImport(f"{path}: is no file of torch.save() or safetensors, or cut short") from None
        what = f"a pickled {pickled[1]}" if pickled else "TorchScript"
        raise CannotImport(f"{path}: holds {what}, not only weights; save those with torch.save(module.state_dict(), "
                           "'weights.pt'), and give the code that makes the module: MODULE.py:NAME --weights weights.pt"
                           ) from None
    if not isinstance(saved, Mapping):
        raise CannotImport(f"{path}: holds a {type(saved).__name__}, not a state dict")
    return saved


def state_dicts_in(saved, place=""):
    """Each dict of tensors, with the keys that lead to it: "", "model", "ema.state_dict"."""
    tensors = {key: each for key, each in saved.items() if isinstance(key, str) and hasattr(each, "shape")}
    if tensors:
        yield place, tensors
    for key, each in saved.items():
        if isinstance(each, Mapping):
            yield from state_dicts_in(each, f"{place}.{key}".strip("."))


def prefixes(names, wanted):
    """With which prefixes there are wanted names, and how many."""
    found = collections.Counter()
    for name in names:
        parts = name.split(".")
        found.update("".join(f"{part}." for part in parts[:i]) for i in range(len(parts)) if ".".join(parts[i:]) in wanted)
    return found


def with_prefix(prefix, names, wanted):
    """wanted -> name, of those that are there."""
    return {each: prefix + each for each in wanted if prefix + each in names}


def by_prefix(names, wanted):
    """prefix -> with_prefix(), for each prefix with which all wanted names are there."""
    needed = [each for each in wanted if not each.endswith(COUNTER)]
    return {prefix: with_prefix(prefix, names, wanted) for prefix in prefixes(names, wanted)
            if all(prefix + each in names for each in needed)}


def unwrapped(name):
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def fits(names, wanted):
    """As by_prefix(). If no prefix does, the names may differ from the wanted ones by wrappers anywhere in them."""
    found = by_prefix(names, wanted)
    if found:
        return found
    theirs, ours = {unwrapped(each): each for each in names}, {unwrapped(each): each for each in wanted}
    if len(theirs) < len(names) or len(ours) < len(wanted):
        return {}
    return {prefix: {ours[each]: theirs[name] for each, name in found.items()}
            for prefix, found in by_prefix(theirs, ours).items()}


class Weights:
    """A dict of tensors by the module's names. `label`: where in the file it is; `unknown`: names there that the module
    does not have; `others`: names elsewhere in the same dict."""

    def __init__(self, label, tensors, names, rest):
        self.label, self.state = label, {name: tensors[theirs] for name, theirs in names.items()}
        prefix = os.path.commonprefix([theirs[:-len(name)] if theirs.endswith(name) else "" for name, theirs in names.items()])
        self.unknown = [each for each in rest if each.startswith(prefix)]
        self.others = [each for each in rest if not each.startswith(prefix)]


def all_that_fit(saved, wanted):
    found = []
    for place, tensors in state_dicts_in(saved):
        ways = fits(tensors, wanted)
        for prefix, names in ways.items():
            # A module within the module may fit too: then what it has is not unknown.
            inner = {each for other, theirs in ways.items() if other != prefix for each in theirs.values()}
            rest = [each for each in tensors if each not in names.values() and each not in inner]
            label = [place, prefix.strip(".")] if len(ways) > 1 else [place or prefix.strip(".")]
            found.append(Weights(".".join(filter(None, label)) or ".", tensors, names, rest))
    return found


def choose(saved, wanted, path, label=None):
    """The Weights in a file for a module that has the wanted names, or the only ones. Raises CannotImport."""
    found = all_that_fit(saved, wanted)
    labels = ", ".join(f"'{each.label}'" for each in found)
    if label is not None:
        found = [each for each in found if each.label == label]
        if not found:
            raise CannotImport(f"{path}: has no '{label}' that fits the module" + (f"; it has {labels}" if labels else ""))
    if len(found) > 1:
        raise CannotImport(f"{path}: has weights that fit the module more than once: {labels}; give one, as in --weights "
                           f"{path}:{found[-1].label}")
    if not found:
        return nearest(saved, wanted, path)
    return found[0]


def nearest(saved, wanted, path):
    """The Weights of which most are the module's."""
    dicts = [tensors for _, tensors in state_dicts_in(saved)]
    if not dicts:
        raise CannotImport(f"{path}: holds no tensors with names")
    _, prefix, tensors = max(((count, prefix, tensors) for tensors in dicts for prefix, count in prefixes(tensors, wanted).items()),
                             key=lambda each: each[0], default=(0, "", dicts[0]))
    names = with_prefix(prefix, tensors, wanted)
    return Weights(".", tensors, names, [each for each in tensors if each not in names.values()])


def load_weights(module, argument):
    """Fills the module from a file, or FILE:LABEL. Returns lines about what of it was taken."""
    path, _, label = argument.rpartition(":")
    if os.path.exists(argument) or not os.path.exists(path):
        path, label = argument, None
    taken = choose(read(path), module.state_dict(), path, label)
    try:
        module.load_state_dict({**taken.state, **dict.fromkeys(taken.unknown)})
    except Exception as error:  # whatever a module's own code raises
        raise CannotImport(f"{path}: does not fit the module: {plain(error, 300)}") from error
    lines = [f"{path}: took the weights of '{taken.label}'"] if taken.label != "." else []
    if taken.others:
        lines.append(f"{path}: {len(taken.others)} tensors are not the module's, such as '{taken.others[0]}'")
    return lines
