"""towers.importing, as far as it needs neither torch nor onnx; tests/peers/importing.py has more."""

import dataclasses
import io
import json
import os
import subprocess
import sys
import unittest
from contextlib import redirect_stderr
from pathlib import Path

import towers
from test_towers import InFolder, needs_numpy, numpy


@needs_numpy
class Messages(InFolder):
    """What `python -m towers.importing` says."""

    def setUp(self):
        super().setUp()
        Path("net.py").write_text("class Part(list): pass\nclass Net(list): pass\nclass Settings: pass\n"
                                  "def small():\n  return Net()\ndef show():\n  print(1)\n_hidden = other = Net()\n"
                                  "size = int(3)\n")

    def says(self, what, *arguments, code=1):
        from towers.importing.__main__ import main
        errors = io.StringIO()
        with redirect_stderr(errors):
            try:
                ended = main(list(arguments))
            except SystemExit as error:
                ended = error.code
        self.assertEqual((errors.getvalue(), ended), (f"towers.importing: {what}\n", code))

    def test_wrong_command_lines(self):
        def says(what, *arguments):
            self.says(f"{what}; see 'python -m towers.importing --help'", *arguments, code=2)

        says("the following arguments are required: MODEL")
        says("there is no flag '--shpae', but there is '--shape'", "net.py:Net", "--shpae=8,8,3")
        says("there is no flag '--bogus'", "net.py:Net", "--bogus", "1")
        says("'b' does not belong to any flag", "net.py:Net", "b")
        says("--shape '8,8': give height, width and channels, such as 224,224,3", "net.py:Net", "--shape", "8,8")
        says("--group: expected one argument", "net.py:Net", "--group")
        says("--bytes: --mean and --deviation say otherwise", "net.py:Net", "--bytes", "--mean", "1")
        says("--out './': give a name, such as ./net", "net.py:Net", "--out", "./")

    def test_what_a_file_offers(self):
        for model in ("net.py", "net.py:"):
            self.says("net.py: say what in it makes the module, as in net.py:Net; it has Part, Net, small", model)
        Path("net.py").write_text("from torch import nn\ndef part():\n  return 1\nmine = nn.Sequential(part())\n")
        self.says("net.py: say what in it makes the module, as in net.py:mine; it has part, mine", "net.py")
        Path("net.py").write_text("x = 1\n")
        self.says("net.py: give FILE.py:NAME; this file has no class, and no function, that could make a module", "net.py")
        Path("net.py").write_text("f(:\n")
        self.says("net.py: cannot be read as Python: invalid syntax (net.py, line 1)", "net.py")

    def test_misspelt_names(self):
        self.says("net.py: there is no 'nett', but there is 'Net'", "net.py:nett")
        self.says("net.py: there is no 'frobnicate'", "net.py:frobnicate")
        self.says("emial: there is no Python package 'emial', but there is 'email'", "emial:Net")
        self.says("email.mesage: there is no Python package 'email.mesage', but there is 'email.message'", "email.mesage:Net")
        self.says("./net:Net: give what makes a module, as in torchvision.models:resnet18 or mynet.py:Net", "./net:Net")

    def test_files_that_cannot_be_used(self):
        self.says("none.py: No such file or directory", "none.py:Net")
        self.says("net.py/none.py: Not a directory", "net.py/none.py:Net")
        self.says("no/folder: there is no such folder; make it, or give another --out", "net.py:Net", "--out", "no/folder/o")
        self.says("net.py: Not a directory; give another --out", "net.py:Net", "--out", "net.py/o")
        long = "o" * 300
        self.says(f"{long}.toml: File name too long", "net.py:Net", "--out", long)
        Path("o.toml").symlink_to("nowhere")
        self.says("o.toml: exists; give another --out, or --force", "net.py:Net", "--out", "o")

    def test_a_user_s_own_errors(self):
        Path("net.py").write_text("open('gone')\n")
        self.says("net.py: cannot be loaded: FileNotFoundError: [Errno 2] No such file or directory: 'gone'", "net.py:Net")
        Path("net.py").write_text("import sys\nsys.exit(3)\n")
        self.says("net.py: cannot be loaded: SystemExit: 3", "net.py:Net")
        Path("net.py").write_text("raise ValueError('\\x1b[1mbold\\x1b[0m\\n and\\x07 loud')\n")
        self.says("net.py: cannot be loaded: ValueError: bold and? loud", "net.py:Net")

    def test_writing_names_the_file(self):
        from towers.importing import files
        Path("folder").mkdir()
        for path, named in (("none/a", "none"), ("folder", "folder"), ("folder/" + "a" * 300, "folder/" + "a" * 300)):
            with self.assertRaises(OSError) as caught:
                files.write(path, b"")
            self.assertEqual(caught.exception.filename, named)
        self.assertEqual(os.listdir("folder"), [])


@needs_numpy
class Checking(InFolder):
    """An import's check by numbers, of a network that is a convolution, a mean and a dense layer."""

    MEAN, DEVIATION = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]

    def imported(self, *, mean=MEAN, heads=("logits",), ending="", leave_out=None, stored=(6, 7, 3)):
        from towers.importing import Imported
        from towers.importing.network import Network
        from towers.importing.recipe import Pipeline

        random = numpy.random.default_rng(1)
        self.weights = {name: random.normal(size=shape).astype("float32")
                        for name, shape in (("conv", (4, 3, 1, 1)), ("logits", (5, 4)), ("other", (5, 4)))}
        network = Network(stored, 8)
        pixels = network.conv("conv", network.images, self.weights["conv"], None)
        means = network.global_average_pool("means", network.activation("relu", "relu", pixels), False)
        network.end([dataclasses.replace(network.dense(name, means, self.weights[name], None), ending=ending)
                     for name in heads])
        if leave_out is not None:
            del network.values[leave_out]
        return Imported(network, Pipeline(mean, self.DEVIATION, 3), stored, description="a test")

    def outputs(self, *heads):
        def compute(pictures):
            x = (pictures / 255 - self.MEAN) / self.DEVIATION
            means = numpy.maximum(x @ self.weights["conv"][:, :, 0, 0].T, 0).mean((1, 2))
            return [means @ self.weights[name].T for name in heads]
        return compute

    def refuses(self, imported, outputs, what):
        from towers.importing import NotExpressible
        with self.assertRaisesRegex(NotExpressible, what):
            imported.check(outputs)

    def test_right_numbers(self):
        imported = self.imported()
        imported.check(self.outputs("logits"))
        self.assertLess(imported.off, 1e-5)
        self.assertEqual(imported.notes, [])
        self.assertEqual(os.listdir(), [])

    def test_every_output(self):
        imported = self.imported(heads=("logits", "other"))
        imported.check(self.outputs("logits", "other"))
        self.assertLess(imported.off, 1e-5)
        for heads, wrong in ((("logits", "logits"), "other"), (("other", "other"), "logits")):
            self.refuses(imported, self.outputs(*heads), f"'{wrong}' of the recipe is off by .* of the largest number of the "
                         "model's output; 0.0001 is allowed")

    def test_the_pipeline_is_part_of_it(self):
        self.refuses(self.imported(mean=[0.4, 0.5, 0.601]), self.outputs("logits"), "'logits' of the recipe is off by")

    def test_what_the_model_computes_of_the_logits(self):
        powers = lambda logits: numpy.exp(logits) / numpy.exp(logits).sum(1, keepdims=True)
        for ending, compute in (("softmax", powers), ("log_softmax", lambda logits: numpy.log(powers(logits)))):
            imported = self.imported(ending=ending)
            outputs = self.outputs("logits")
            imported.check(lambda pictures, outputs=outputs, compute=compute: list(map(compute, outputs(pictures))))
            self.assertLess(imported.off, 1e-5)
            self.refuses(imported, outputs, "is off by")

    def test_grey_pictures_and_a_recipe_that_the_program_refuses(self):
        from towers.importing import files
        Path("grey.png").write_bytes(files.png(numpy.arange(12, dtype="uint8").reshape(3, 4, 1)))
        said = towers.call("predict", self.imported().save("net")[1], "grey.png", recipe="net.toml", towers="cpu", json=True)
        self.assertEqual(json.loads(said)["picture"], "grey.png")
        imported = self.imported()
        imported.network.layers[0][3]["kernel"] = 3
        self.refuses(imported, self.outputs("logits"), "towers cannot compute with the recipe: .*net.safetensors: tensor "
                     "'conv/weights' has shape")

    def test_outputs_that_are_not_finite(self):
        imported = self.imported()
        imported.check(lambda pictures: [numpy.full((len(pictures), 5), numpy.inf)])
        self.assertEqual(imported.notes, ["nothing was checked by numbers: the model's own output 'logits' of random pictures "
                                          "is not finite"])

    def test_other_numbers_in_evaluation(self):
        from towers.importing import NotExpressible
        imported, right, wrong = self.imported(), self.outputs("logits"), self.outputs("other")
        imported.check(wrong, right)
        self.assertLess(imported.off, 1e-5)
        self.assertEqual(len(imported.notes), 1)
        self.assertRegex(imported.notes[0], "^in eval mode the module computes something else than in training")
        fewer = lambda pictures: [right(pictures)[0][:, :4]]
        self.imported().check(fewer, right)
        for traced in (wrong, lambda pictures: [numpy.full((len(pictures), 5), numpy.nan)]):
            imported = self.imported()
            with self.assertRaisesRegex(NotExpressible, "'logits' gives 5 numbers, and the model's output 4"):
                imported.check(fewer, traced)
            self.assertEqual((imported.off, imported.notes), (None, []))

    def test_a_missing_variable(self):
        from towers.importing import NotExpressible
        with self.assertRaisesRegex(NotExpressible, "'conv': its weights are not to be found in the model"):
            self.imported(leave_out="conv/weights")

    def test_without_the_program(self):
        imported, before = self.imported(), dict(os.environ)
        del os.environ["TOWERS_PROGRAM"]
        os.environ["PATH"] = ""
        try:
            imported.check(self.outputs("logits"))
        finally:
            os.environ.update(before)
        self.assertIsNone(imported.off)
        self.assertEqual(len(imported.notes), 1)
        self.assertRegex(imported.notes[0], "nothing was checked by numbers: there is no program 'towers'")


class StateDicts(unittest.TestCase):
    """Which of a file's tensors are a module's; tests/peers/importing_weights.py has the files of torch.save()."""

    NAMES = ("conv.weight", "conv.bias", "norm.running_mean", "norm.num_batches_tracked")

    class Tensor:
        shape = ()

    def state(self, prefix="", without=()):
        return {prefix + name: self.Tensor() for name in self.NAMES if name not in without}

    def taken(self, saved, label=None, wanted=NAMES):
        from towers.importing.weights import choose
        return choose(saved, dict.fromkeys(wanted), "w.pt", label)

    def test_wrappings(self):
        for label, saved in ((".", self.state()), ("module", self.state("module.")), ("_orig_mod", self.state("_orig_mod.")),
                             ("module._orig_mod", self.state("module._orig_mod.")), ("model", {"model": self.state("net.")}),
                             ("state_dict", {"state_dict": self.state("model."), "epoch": 3}),
                             ("a.b", {"a": {"b": self.state(), "n": 1}, "optimizer": {"state": {0: self.state("x.")["x.conv.bias"]}}}),
                             ("module", {**self.state("module."), "n_averaged": self.Tensor()})):
            taken = self.taken(saved)
            self.assertEqual(taken.label, label)
            self.assertEqual(set(taken.state), set(self.NAMES))
            self.assertEqual(taken.unknown, [])
        wrapped = {name.replace("conv.", "conv._orig_mod."): each for name, each in self.state("module.").items()}
        self.assertIs(self.taken(wrapped).state["conv.bias"], wrapped["module.conv._orig_mod.bias"])
        self.assertIs(self.taken({"module.x": wrapped["module.conv._orig_mod.bias"]}, wanted=["module.x"]).state["module.x"],
                      wrapped["module.conv._orig_mod.bias"])
        self.assertNotIn(self.NAMES[3], self.taken(self.state("module.", self.NAMES[3:])).state)

    def test_what_is_left(self):
        taken = self.taken({**self.state("model."), "model.extra": self.Tensor(), "loss.weight": self.Tensor()})
        self.assertEqual((taken.unknown, taken.others), (["model.extra"], ["loss.weight"]))
        self.assertEqual(self.taken({**self.state(), "extra": self.Tensor()}).unknown, ["extra"])

    def test_the_nearest_of_what_does_not_fit(self):
        taken = self.taken({"optimizer": {"x": self.Tensor()}, "model": {**self.state("module.", self.NAMES[1:2]),
                                                                         "module.extra": self.Tensor()}})
        self.assertEqual(set(taken.state), {*self.NAMES} - {self.NAMES[1]})
        self.assertEqual(taken.unknown, ["module.extra"])
        self.assertEqual(self.taken({"x": self.Tensor()}).unknown, ["x"])

    def test_several_that_fit(self):
        from towers.importing.errors import CannotImport
        both = {"model": self.state(), "ema": self.state("module.")}
        with self.assertRaisesRegex(CannotImport, "w.pt: has weights that fit the module more than once: 'model', 'ema'; give "
                                                  "one, as in --weights w.pt:ema"):
            self.taken(both)
        self.assertIs(self.taken(both, "ema").state["conv.bias"], both["ema"]["module.conv.bias"])
        flat = {**self.state(), **self.state("ema.")}
        with self.assertRaisesRegex(CannotImport, "more than once: '.', 'ema'"):
            self.taken(flat)
        for label, prefix in ((".", ""), ("ema", "ema.")):
            taken = self.taken(flat, label)
            self.assertIs(taken.state["conv.bias"], flat[prefix + "conv.bias"])
            self.assertEqual(taken.unknown, [])
        with self.assertRaisesRegex(CannotImport, "w.pt: has no 'x' that fits the module; it has 'model', 'ema'"):
            self.taken(both, "x")
        with self.assertRaisesRegex(CannotImport, "w.pt: holds no tensors"):
            self.taken({"epoch": 3, "model": {}})


class WithoutNumpy(InFolder):
    def test_importing_says_what_to_install(self):
        code = "import runpy, sys; sys.modules['numpy'] = None; sys.argv = ['', 'net.onnx']\n" \
               "runpy.run_module('towers.importing', run_name='__main__')"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual((ended.returncode, ended.stderr), (
            1, "towers.importing: net.onnx: needs the Python package 'numpy'; pip install numpy\n"))


if __name__ == "__main__":
    unittest.main()
