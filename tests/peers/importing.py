#!/usr/bin/env python3
"""Imports models from PyTorch and ONNX, and compares the logits that towers computes with PyTorch's. TOWERS_PROGRAM names the
program for the checks at the end of each import.

Usage: importing.py TOWERS DUMP_STEP [--models A,B] [--fuzz N]

Exit codes: 0, 1.
"""

import argparse
import contextlib
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
import torchvision
from onnx import TensorProto, helper
from importing_channels_last import test_channels_last
from importing_modules import test_modules
from importing_weights import test_weights
from safetensors.numpy import load_file, save_file
from torch import nn
from torch.nn import functional as F

from towers.importing import NotExpressible, import_onnx, import_torch
from towers.importing.__main__ import main as command


class Branches(nn.Module):
    """One of everything that torchvision's networks do not have."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding="same", dilation=2, bias=False), nn.BatchNorm2d(8))
        self.deep = nn.Conv2d(8, 16, (3, 5), padding=(0, 2), stride=(1, 2), groups=8)
        self.wide = nn.Conv2d(8, 16, 1)
        self.norm = nn.LayerNorm(16)
        self.pixels = nn.Linear(16, 12)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.vector = nn.BatchNorm1d(12 * 5 * 4)
        self.drop = nn.Dropout(0.3)
        self.first = nn.Linear(12 * 5 * 4 + 16, 20)
        self.last = nn.Linear(20, 7)
        self.scale = nn.Parameter(torch.linspace(0.5, 2, 12).reshape(12, 1, 1))

    def forward(self, x):
        x = F.silu(self.stem((x - 0.25) / 0.5))
        a = F.leaky_relu(self.deep(x), 0.1)
        b = F.avg_pool2d(F.gelu(self.wide(x)), (3, 2), (1, 2))
        both = a + F.hardswish(b)
        by_channel = both.permute(0, 2, 3, 1)
        c = self.pixels(self.norm(by_channel)).permute(0, 3, 1, 2) * self.scale
        c = self.pool(torch.clamp(c, 0, 6))
        gate = torch.sigmoid(both.mean((2, 3), keepdim=True))
        d = (both * gate).mean((2, 3))
        x = torch.cat([self.vector(c.reshape(c.size(0), -1)), d], 1)
        return self.last(F.gelu(self.first(self.drop(x)), approximate="tanh"))


MODELS = {"branches": (Branches, (12, 18)), "resnet18": (torchvision.models.resnet18, (64, 64)),
          "mobilenet_v2": (torchvision.models.mobilenet_v2, (64, 64)),
          "efficientnet_b0": (torchvision.models.efficientnet_b0, (64, 64))}


def make(name):
    """The network with values that show which is which."""
    torch.manual_seed(1)
    model = MODELS[name][0]()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm1d)):
                module.weight.uniform_(0.75, 1.25)
                module.bias.normal_(0, 0.2)
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.75, 1.25)
    return model


class Test:
    def __init__(self, arguments, folder):
        self.towers, self.dump_step, self.folder, self.failed = arguments.towers, arguments.dump_step, folder, 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, passed, what):
        self.failed += not passed
        print(f"{'ok' if passed else 'WRONG'}: {what}", flush=True)

    def run(self, *command):
        return subprocess.run(command, capture_output=True, text=True)

    def logits(self, imported, images):
        recipe, variables = imported.save(self.path("net"))
        checked = self.run(self.towers, "recipe", "check", recipe)
        if checked.returncode:
            raise SystemExit(checked.stderr)
        save_file({"images": images.astype(np.float32), "labels": np.zeros(len(images), np.float32)}, self.path("records"))
        subprocess.run([self.dump_step, "--logits", recipe, variables, self.path("records"), "cpu", self.path("out")],
                       check=True)
        return load_file(self.path("out"))["logits"]

    def compare(self, name):
        model, (height, width) = make(name), MODELS[name][1]
        images = np.random.default_rng(0).integers(0, 256, (4, 3, height, width))
        imported = import_torch(model.train(), (height, width, 3))
        x = torch.tensor(images).float() / 255
        with torch.no_grad():
            truth = model.eval()(x).numpy()
        found = {"PyTorch": self.logits(imported, images)}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            torch.onnx.export(model, (x[:2],), self.path(f"{name}.onnx"), dynamo=False, input_names=["x"],
                              dynamic_axes={"x": {0: "n"}})
        found["ONNX"] = self.logits(import_onnx(self.path(f"{name}.onnx")), images)
        for way, ours in found.items():
            off = np.abs(ours - truth).max() / np.abs(truth).max()
            self.check(off < 1e-4, f"{name} from {way}: logits off by {off:.1e}")
        return imported

    def trains(self, imported):
        recipe, variables = imported.save(self.path("tuned"))
        run = self.run(self.towers, "train", "--towers", "cpu", "--recipe", recipe, "--init", variables, "--set",
                       "input.classes=10", "--freeze", "stem*", "--batch", "32", "--steps", "2", "--data", "shapes",
                       "--run", self.path("run"))
        self.check(run.returncode == 0 and "layer 'last' begins anew" in run.stdout and "variables are frozen" in run.stdout,
                   "a run starts from the import, with a new last layer")
        if run.returncode:
            print(run.stderr)
        changes = re.findall(r"--set \S+", imported.text)
        check = self.run(self.towers, "recipe", "check", recipe, *" ".join(changes).split())
        self.check(len(changes) == 2 and check.returncode == 0, f"the recipe has the keys that its comment sets: {changes}")

    # --- What cannot be expressed

    def refuses(self, what, says, do):
        try:
            do()
        except NotExpressible as error:
            self.check(says in str(error) and "\n" not in str(error), f"{what}: {error}")
        else:
            self.check(False, f"{what} is imported")

    def refuse_modules(self):
        def module(*layers):
            return lambda: import_torch(nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3)), (8, 8, 3))

        for layer, says in ((nn.ConvTranspose2d(3, 3, 2), "'0' (ConvTranspose2d)"), (nn.PReLU(), "'0' (PReLU)"),
                            (nn.GroupNorm(1, 3), "'0' (GroupNorm)"), (nn.Tanh(), "'0' (Tanh)"),
                            (nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"), "pads with 'reflect'"),
                            (nn.AdaptiveAvgPool2d(3), "windows of several sizes"),
                            (nn.LocalResponseNorm(2), "odd number"), (nn.MaxPool2d(9), "empty image"),
                            (nn.BatchNorm2d(3, track_running_stats=False), "running statistics")):
            self.refuses(type(layer).__name__, says, module(layer))
        shared = nn.Conv2d(3, 3, 1)
        self.refuses("a shared layer", "shares its variables", module(shared, shared))

        class Looks(nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else -x

        self.refuses("a branch on values", "torch.fx cannot trace it", lambda: import_torch(Looks(), (8, 8, 3)))

    # --- Hostile files

    def model(self, nodes, constants=(), sizes=("n", 3, 8, 8), outputs=("y",)):
        graph = helper.make_graph(list(nodes), "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(sizes))],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
                                  list(constants))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])

    def refuse_files(self):
        node = helper.make_node
        weight = helper.make_tensor("w", TensorProto.FLOAT, [3, 3, 1, 1], np.ones(9, np.float32))
        negative, giant, external = (onnx.TensorProto() for _ in range(3))
        negative.CopyFrom(weight)
        negative.dims[0] = -3
        giant.CopyFrom(weight)
        giant.dims[0] = 2**40
        external.CopyFrom(weight)
        external.ClearField("float_data")
        external.data_location = TensorProto.EXTERNAL
        escaping, odd, through = (onnx.TensorProto() for _ in range(3))
        for each in (escaping, odd, through):
            each.CopyFrom(external)
        odd.external_data.add(key="location", value="a\0b")
        through.external_data.add(key="location", value="hostile.onnx/w.bin")
        external.external_data.add(key="location", value="not_there.bin")
        escaping.external_data.add(key="location", value="../../etc/passwd")
        conv = node("Conv", ["x", "w"], ["y"], "c")
        inner = helper.make_graph([node("Identity", ["x"], ["z"])], "inner", [], [])
        size = helper.make_tensor("s", TensorProto.INT64, [1], [2**40])
        for what, model, says in (
                ("an unknown operator", self.model([node("Frobnicate", ["x"], ["y"], "f")]), "'f' (Frobnicate)"),
                ("another domain's", self.model([node("Conv", ["x", "w"], ["y"], "f", domain="my")], [weight]), "my.Conv"),
                ("a dangling input", self.model([node("Relu", ["nowhere"], ["y"], "r")]), "takes 'nowhere'"),
                ("a circle", self.model([node("Relu", ["b"], ["a"], "r"), node("Relu", ["a"], ["b"]),
                                         node("Identity", ["b"], ["y"])]), "takes 'b'"),
                ("a name given twice", self.model([conv, node("Relu", ["y"], ["y"], "r")], [weight]), "gives 'y'"),
                ("a missing output", self.model([conv], [weight], outputs=["z"]), "nothing gives its output 'z'"),
                ("a negative size", self.model([conv], [negative]), "damaged"),
                ("a giant size", self.model([conv], [giant]), "damaged"),
                ("giant constants", self.model([node("ConstantOfShape", ["s"], ["y"], "k")], [size]), "has the shape"),
                ("missing external data", self.model([conv], [external]), "not beside the file"),
                ("external data elsewhere", self.model([conv], [escaping]), "outside the file's folder"),
                ("external data of an odd name", self.model([conv], [odd]), "outside the file's folder"),
                ("external data in a file", self.model([conv], [through]), "'hostile.onnx/w.bin': Not a directory"),
                ("a name with control codes", self.model([node("Frobnicate", ["x"], ["y"], "\x1b[1mf\x07\n")]), "'f? '"),
                ("negative images", self.model([conv], [weight], ["n", 3, -8, 8]), "size"),
                ("giant images", self.model([conv], [weight], ["n", 3, 2**40, 8]), "size"),
                ("images of any size", self.model([conv], [weight], ["n", 3, "h", "w"]), "--shape"),
                ("negative pads", self.model([node("Conv", ["x", "w"], ["y"], "c", pads=[-1, 0, 0, 0])], [weight]), "pads"),
                ("strides of zero", self.model([node("Conv", ["x", "w"], ["y"], "c", strides=[0, 1])], [weight]), "strides"),
                ("no groups", self.model([node("Conv", ["x", "w"], ["y"], "c", group=0)], [weight]), "groups"),
                ("a network in a node", self.model([node("If", ["x"], ["y"], "i", then_branch=inner)]), "graph of its own"),
                ("an image as output", self.model([conv], [weight]), "one number for each class"),
                ("no nodes", self.model([]), "empty graph")):
            path = self.path("hostile.onnx")
            with open(path, "wb") as file:
                file.write(model.SerializeToString())
            self.refuses(what, says, lambda path=path: import_onnx(path))
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                code = command([path, "--out", self.path("hostile"), "--force"])
            if code != 1 or errors.getvalue().count("\n") != 1:
                self.check(False, f"{what}: exit code {code}, {errors.getvalue()!r}")
        if os.path.exists(self.path("hostile.toml")):
            self.check(False, "a refused file leaves a recipe")
        for what, data, says in (("an empty file", b"", "no ONNX file"), ("text", b"hello, world", "no ONNX file")):
            with open(self.path("hostile.onnx"), "wb") as file:
                file.write(data)
            self.refuses(what, says, lambda: import_onnx(self.path("hostile.onnx")))
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = command([self.path("none.onnx"), "--out", self.path("hostile")])
        self.check(code == 1 and "none.onnx" in errors.getvalue(), f"a file that is not there: {errors.getvalue().strip()}")

    # --- Files of torch.save()

    def says(self, what, *arguments, starts=False):
        """The command ends with this one line, or one that starts so."""
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = command([*(() if "--out" in arguments else ("--out", self.path("refused"))), *arguments])
        said = errors.getvalue()
        as_expected = said.startswith(f"towers.importing: {what}") if starts else said == f"towers.importing: {what}\n"
        self.check(code == 1 and as_expected and said.count("\n") == 1, said.rstrip("\n"))

    def imports(self, *arguments):
        """What the command says, or "" if it fails."""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = command(list(arguments))
        if code:
            self.check(False, errors.getvalue().rstrip("\n"))
        return "" if code else out.getvalue()

    @staticmethod
    def load(path):
        return load_file(path)

    def refuse_weights(self):
        whole, old, state, script, other, cut, text = (
            self.path(each) for each in ("whole.pt", "old.pt", "state.pt", "script.pt", "list.pt", "cut.pt", "text.pt"))
        net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
        torch.save(Branches(), whole)
        torch.save({"model": net, "epoch": 3}, old, _use_new_zipfile_serialization=False)
        torch.save(net.state_dict(), state)
        with contextlib.redirect_stderr(io.StringIO()):
            torch.jit.script(net).save(script)
        torch.save([1, 2], other)
        with open(state, "rb") as whole_file, open(cut, "wb") as file:
            file.write(whole_file.read()[:-100])
        with open(text, "w") as file:
            file.write("hello, world")
        made = "torchvision.models:squeezenet1_1"
        rest = "not only weights; save those with torch.save(module.state_dict(), 'weights.pt'), and give the code that makes " \
            "the module: MODULE.py:NAME --weights weights.pt"
        for path, holds in ((whole, f"a pickled {Branches.__module__}.Branches"),
                            (old, "a pickled torch.nn.modules.container.Sequential"), (script, "TorchScript")):
            for arguments in ([path], [f"{path}:Net"], [made, "--weights", path]):
                self.says(f"{path}: holds {holds}, {rest}", *arguments)
        self.says(f"{state}: holds weights alone; give also the code that makes the module: MODULE.py:NAME --weights {state}",
                  state)
        safe = self.path("state.safetensors")
        save_file({name: each.numpy() for name, each in net.state_dict().items()}, safe)
        self.says(f"{safe}: holds weights alone; give also the code that makes the module: MODULE.py:NAME --weights {safe}", safe)
        self.says(f"{other}: holds a list, not a state dict", made, "--weights", other)
        for path in (cut, text):
            self.says(f"{path}: is no file of torch.save() or safetensors, or cut short", made, "--weights", path)
        self.says(f"{text}/w: Not a directory", made, "--weights", f"{text}/w")
        onnx_file = self.path("net.onnx")
        onnx.save(self.model([helper.make_node("Relu", ["x"], ["y"])]), onnx_file)
        self.says(f"{onnx_file}:net: an ONNX file is a model as it is; give {onnx_file}", f"{onnx_file}:net")
        self.says("torchvision.models: there is no 'resnet81', but there is 'resnet18'", "torchvision.models:resnet81")
        self.says("torchvision.models: No such file or directory; give an ONNX file, or what makes a module, as in "
                  "torchvision.models:resnet18 or mynet.py:Net", "torchvision.models")

    def fuzz(self, count):
        """Every change of a file is imported, or refused as such. If onnxruntime computes with the change, so does towers."""
        model = make("branches").eval()
        model.stem[0].padding = (2, 2)  # onnxruntime has no "same" with dilation
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            torch.onnx.export(model, (torch.zeros(2, 3, 12, 18),), self.path("whole.onnx"), dynamo=False, input_names=["x"],
                              dynamic_axes={"x": {0: "n"}})
        with open(self.path("whole.onnx"), "rb") as file:
            whole = file.read()
        chance, outcomes = random.Random(1), {"imported": 0, "refused": 0, "checked": 0}
        structure = onnx.load_from_string(whole)
        for number in range(count):
            data = bytearray(whole)
            if number % 3 == 0:
                del data[chance.randrange(len(data)):]
            elif number % 3 == 1:
                for _ in range(chance.randint(1, 8)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
            else:  # a sound file with one change in the graph
                changed = onnx.ModelProto()
                changed.CopyFrom(structure)
                node = chance.choice(changed.graph.node)
                kind = chance.randrange(4)
                if kind == 0 and node.input:
                    node.input[chance.randrange(len(node.input))] = chance.choice(changed.graph.node).output[0]
                elif kind == 1:
                    node.op_type = chance.choice(changed.graph.node).op_type
                elif kind == 2 and node.attribute:
                    attribute = chance.choice(node.attribute)
                    attribute.i = chance.choice([-1, 0, 7, 2**62])
                    if attribute.ints:
                        attribute.ints[0] = chance.choice([-1, 0, 7, 2**62])
                elif changed.graph.initializer:
                    tensor = chance.choice(changed.graph.initializer)
                    if tensor.dims:
                        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice([0, 1, 5, 2**31, 2**62])
                data = changed.SerializeToString()
            with open(self.path("fuzzed.onnx"), "wb") as file:
                file.write(data)
            try:
                imported = import_onnx(self.path("fuzzed.onnx"), check=number % 3 == 2)
                outcomes["imported"] += 1
                outcomes["checked"] += imported.off is not None
            except NotExpressible as error:
                outcomes["refused"] += 1
                if "\n" in str(error) or "of the recipe is off" in str(error):
                    self.check(False, f"fuzzed file {number}: {error!r}")
            except Exception as error:
                self.check(False, f"fuzzed file {number}: {type(error).__name__}: {error}")
        self.check(outcomes["imported"] + outcomes["refused"] == count, f"fuzzed files: {outcomes}")


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("towers")
    parser.add_argument("dump_step", help="the program of that name, built with the tests")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--fuzz", type=int, default=300, metavar="N", help="changed files to read (default: 300)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        test = Test(arguments, folder)
        imported = {name: test.compare(name) for name in arguments.models.split(",")}
        if "branches" in imported:
            test.trains(imported["branches"])
            test.fuzz(arguments.fuzz)
        test_modules(test)
        test_weights(test)
        test_channels_last(test)
        test.refuse_modules()
        test.refuse_files()
        test.refuse_weights()
    sys.exit(1 if test.failed else 0)


if __name__ == "__main__":
    main()
