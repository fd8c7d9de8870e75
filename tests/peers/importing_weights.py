"""State dicts as people save them. For importing.py."""

import argparse
from unittest import mock

import numpy as np
import torch
from torch import nn

from towers.importing.weights import read


def small():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


def test_state_dicts(test):
    """Whatever the weights come in, they are the file's."""
    torch.manual_seed(2)
    net, other = small(), small()
    plain, averaged = net.state_dict(), torch.optim.swa_utils.AveragedModel(other).state_dict()
    state = lambda prefix, of=plain: {prefix + name: each for name, each in of.items()}
    code = test.path("small.py")
    with open(code, "w") as file:
        file.write("from importing_weights import small\n")

    def reads(what, saved, expected=net, label=""):
        path = test.path("weights.pt")
        torch.save(saved, path)
        said = test.imports(f"{code}:small", "--weights", path + label, "--shape", "6,6,3", "--out", test.path("w"), "--no-check",
                            "--force")
        found = test.load(test.path("w.safetensors"))["5/weights"] if said else None
        test.check(said and np.array_equal(found, expected.state_dict()["5.weight"].numpy().T), f"weights in {what}")
        return said

    settings = argparse.Namespace(lr=0.1, data="x")
    reads("DataParallel", state("module."))
    reads("torch.compile", state("_orig_mod."))
    reads("both", state("module._orig_mod."))
    reads("Lightning", {"state_dict": {**state("model."), "loss.weight": torch.ones(3)}, "epoch": 3})
    reads("torchvision's training", {"model": plain, "optimizer": torch.optim.SGD(net.parameters(), 0.1, 0.9).state_dict(),
                                     "epoch": 3, "args": settings})
    reads("PyTorch's tutorial", {"model_state_dict": plain, "optimizer_state_dict": {}, "acc": np.float64(0.5)})
    reads("a checkpoint in a checkpoint", {"checkpoint": {"net": state("module."), "acc": 91.2}})
    reads("old names", {name: each for name, each in plain.items() if "num_batches" not in name})
    reads("a wrapped part", {name.replace("1.", "1._orig_mod.", 1) if name[0] == "1" else name: each for name, each in plain.items()})
    reads("AveragedModel", averaged, other)
    both = {"model": plain, "model_ema": averaged}
    reads("the averages", both, other, ":model_ema")
    reads("the plain ones beside averages", both, net, ":model")
    flat = {**state("model."), **state("ema.module.", other.state_dict())}
    reads("averages in one dict", {"state_dict": flat}, other, ":state_dict.ema.module")
    path = test.path("weights.pt")
    for saved, says in (
            (both, f"{path}: has weights that fit the module more than once: 'model', 'model_ema'; give one, as in --weights "
                   f"{path}:model_ema"),
            (flat, f"{path}: has weights that fit the module more than once: 'model', 'ema.module'; give one, as in --weights "
                   f"{path}:ema.module"),
            ({"epoch": 3}, f"{path}: holds no tensors with names"),
            ({"model": {**plain, "6.weight": torch.ones(1)}}, f"{path}: does not fit the module: Error(s) in loading state_dict "
             'for Sequential: Unexpected key(s) in state_dict: "6.weight".'),
            ({"model": {name: each for name, each in state("module.").items() if name != "module.5.bias"}},
             f"{path}: does not fit the module: Error(s) in loading state_dict for Sequential: Missing key(s) in state_dict: "
             '"5.bias".')):
        torch.save(saved, path)
        test.says(says, f"{code}:small", "--weights", path)
    torch.save(both, path)
    test.says(f"{path}: has no 'ema' that fits the module; it has 'model', 'model_ema'", f"{code}:small", "--weights", path + ":ema")


def refuse_pairs(kinds):
    if any(isinstance(each, tuple) for each in kinds):
        raise AttributeError("'tuple' object has no attribute '__module__'")


def test_old_torch(test):
    """What PyTorch before 2.6 reads."""
    path = test.path("weights.pt")
    torch.save(small().state_dict(), path)
    version = torch.torch_version.TorchVersion("2.5.1")
    with mock.patch.object(torch, "__version__", version), mock.patch.object(torch.serialization, "safe_globals", refuse_pairs):
        try:
            test.check("5.weight" in read(path), "PyTorch 2.5 reads weights")
        except Exception as error:
            test.check(False, f"PyTorch 2.5: {error}")


def test_weights(test):
    test_state_dicts(test)
    test_old_torch(test)
