"""The Python module with the built program, which TOWERS_PROGRAM names."""

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import towers

try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipIf(numpy is None, "SKIPPED: this Python has no numpy")
# Small enough for a second, on what every machine has
SMALL = {"towers": "cpu", "batch": 4, "threads": 1}


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder.name)


class Program(InFolder):
    def test_version_is_the_program_s(self):
        said = subprocess.run([towers.program(), "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(towers.__version__, said.split()[1])

    def test_module_becomes_the_program(self):
        ended = subprocess.run([sys.executable, "-m", "towers", "train", "--barch", "3"], capture_output=True,
                               text=True, check=False)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("--barch", ended.stderr)

    def test_program_inside_the_package_is_found(self):
        # Without TOWERS_PROGRAM, and with a script of the package's first on PATH, which must not call itself
        environment = {key: value for key, value in os.environ.items() if key != "TOWERS_PROGRAM"}
        Path("towers").write_text(f"#!{sys.executable}\nfrom towers.__main__ import main\nmain()\n")
        Path("towers").chmod(0o755)
        environment["PATH"] = f"{os.getcwd()}:/usr/bin:/bin"
        ended = subprocess.run(["./towers", "--version"], capture_output=True, text=True, check=False,
                               env=environment)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("there is no program 'towers'", ended.stderr)
        self.assertEqual(ended.stderr.count("\n"), 1)

    def test_devices_and_recipes(self):
        self.assertIn("cpu", [device["id"] for device in towers.devices()])
        self.assertIn("cifar10-tutorial", towers.recipes())

    def test_arguments(self):
        from towers._program import arguments
        made = arguments("train", {"batch": 8, "keep_best": True, "distort": False, "resume": True, "validate": False,
                                   "lr": None, "towers": ["cpu", "cpu"], "shares": [3, 1], "data": Path("a b"),
                                   "set": {"input.shape": [8, 8, 3], "a.b": None, "c": True}})
        self.assertEqual(made, ["train", "--batch", "8", "--keep-best=on", "--distort=off", "--resume", "--towers",
                                "cpu,cpu", "--shares", "3:1", "--data", "a b", "--set", "input.shape=[8, 8, 3]",
                                "--set", "a.b=", "--set", "c=true"])


class Training(InFolder):
    def test_a_run_and_its_evaluation(self):
        lines = []
        run = towers.run(steps=3, log_every=1, eval_every=2, keep_best=True, log=lines.append, run="mine", **SMALL)
        self.assertTrue(any("step 1, loss = " in line for line in lines))
        self.assertEqual(run.path, Path("mine"))
        self.assertEqual(run.metrics["step"], [0, 1, 2])
        steps, losses = run.metric("loss")
        self.assertEqual((steps, losses), (run.metrics["step"], run.metrics["loss"]))
        self.assertAlmostEqual(losses[0], 4.7, delta=0.3)
        self.assertEqual(run.tests["step"], [2, 3])
        self.assertEqual(list(run.checkpoints), [0, 3])
        self.assertIn("steps = 3", run.config)
        with self.assertRaises(KeyError):
            run.metric("los")

        result = run.eval(towers="cpu")
        self.assertEqual((result.examples, result.step), (2000, 3))
        self.assertEqual(result.correct, run.tests["test_correct"][-1])
        self.assertEqual(result.precision, run.tests["test_precision"][-1])
        self.assertEqual(towers.eval(run.checkpoints[0], towers="cpu").step, 0)

        again = towers.open_run("mine").resume(steps=4, log=False)
        self.assertEqual(again.metrics["step"], [0, 1, 2, 3])

    def test_log_is_printed_as_it_comes(self):
        out = io.StringIO()
        with redirect_stdout(out):
            run = towers.run(steps=1, **SMALL)
        self.assertRegex(out.getvalue(), r"step 0, loss = ")
        self.assertRegex(str(run.path), r"^runs/cifar10-tutorial-\d{8}-\d{6}$")

    def test_interrupt_saves_the_run(self):
        def interrupt(line):
            if "step 2," in line:
                raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            towers.run(steps=100000, log_every=1, run="long", log=interrupt, **SMALL)
        run = towers.open_run("long")
        self.assertGreaterEqual(max(run.checkpoints), 3)
        self.assertLess(max(run.checkpoints), 1000)

    def test_a_log_that_always_raises_saves_the_run(self):
        def broken(line):
            if "step " in line:
                raise ValueError("a mistake in the notebook")
        with self.assertRaisesRegex(ValueError, "a mistake"):
            towers.run(steps=100000, log_every=1, run="broken", log=broken, **SMALL)
        self.assertGreaterEqual(max(towers.open_run("broken").checkpoints), 1)

    def test_messages_become_exceptions(self):
        with self.assertRaisesRegex(towers.UsageError, "'--barch', but there is '--batch'"):
            towers.run(barch=3)
        with self.assertRaisesRegex(towers.Error, "/nonexistent") as caught:
            towers.run(data="/nonexistent")
        self.assertEqual(caught.exception.code, 1)
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(os.listdir("runs"), [], "an empty run directory is left over")
        with self.assertRaisesRegex(towers.Error, "no run directory"):
            towers.open_run("none")
        errors = io.StringIO()
        with redirect_stderr(errors), self.assertRaisesRegex(towers.Error, "diverged|infinite|NaN"):
            towers.run(steps=5, lr=1e30, log=False, run="diverged", **SMALL)

    def test_a_run_that_cannot_be_read_says_why(self):
        Path("file").touch()
        with self.assertRaisesRegex(towers.Error, "file/run cannot be read: Not a directory"):
            towers.open_run("file/run")
        with self.assertRaises(NotADirectoryError):
            towers.Run("file/run").checkpoint()
        with self.assertRaisesRegex(towers.Error, "none has no checkpoint"):
            towers.Run("none").checkpoint()

    def test_half_a_line_of_metrics_is_left_out(self):
        Path("r").mkdir()
        Path("r/metrics.jsonl").write_text('{"step":0,"loss":1.5}\n{"step":1,"lo')
        self.assertEqual(towers.Run("r").metrics, {"step": [0], "loss": [1.5]})


@needs_numpy
class Checkpoints(InFolder):
    def test_arrays_of_a_run(self):
        run = towers.run(steps=1, log=False, **SMALL)
        checkpoint = run.checkpoint()
        self.assertEqual(checkpoint.step, 1)
        self.assertEqual(checkpoint["conv1/weights"].shape, (5, 5, 3, 64))
        self.assertEqual(checkpoint["conv1/weights"].dtype, numpy.float32)
        averages = checkpoint.averages()
        self.assertEqual(len(averages), 10)
        self.assertTrue((averages["conv1/biases"] == checkpoint["conv1/biases/ExponentialMovingAverage"]).all())

        # Changed arrays start another run.
        checkpoint["softmax_linear/biases"] = numpy.arange(10, dtype=numpy.float32)
        towers.save("changed.safetensors", checkpoint)
        changed = towers.run(steps=0, init="changed.safetensors", log=False, run="other", **SMALL).checkpoint(0)
        self.assertTrue((changed["softmax_linear/biases"] == numpy.arange(10)).all())
        self.assertTrue((changed["conv1/weights"] == checkpoint["conv1/weights"]).all())

    def test_every_type_comes_back(self):
        arrays = {name: numpy.arange(6).reshape(2, 3).astype(name)
                  for name in ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool")}
        arrays["empty"] = numpy.zeros((0, 3), "float32")
        arrays["number"] = numpy.float32(2.5)
        towers.save("a.safetensors", arrays, {"made": "here"})
        back = towers.load("a.safetensors")
        self.assertEqual(back.metadata, {"made": "here"})
        for name, array in arrays.items():
            self.assertEqual(back[name].dtype, array.dtype)
            self.assertTrue(numpy.array_equal(back[name], array))
        with self.assertRaisesRegex(TypeError, "complex"):
            towers.save("a.safetensors", {"x": numpy.zeros(2, "complex64")})

    def test_step(self):
        for metadata, step in (({}, None), ({"step": "12"}, 12)):
            towers.save("a.safetensors", {}, metadata)
            self.assertEqual(towers.load("a.safetensors").step, step)
        for text in ("", "last", "-1", "1.5", "1_000", " 7", "9" * 5000):
            towers.save("a.safetensors", {}, {"step": text})
            with self.assertRaisesRegex(towers.Error, "a.safetensors: its metadata has no number 'step'"):
                towers.load("a.safetensors").step

    def test_bfloat16(self):
        header = b'{"x":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
        Path("b").write_bytes(len(header).to_bytes(8, "little") + header + bytes([0x80, 0x3F, 0, 0xC0]))
        self.assertEqual(towers.load("b")["x"].tolist(), [1.0, -2.0])

    def test_damage_is_refused(self):
        def check(data, what):
            Path("damaged").write_bytes(data)
            with self.assertRaisesRegex(towers.Error, what) as caught:
                towers.load("damaged")
            self.assertNotIn("\n", str(caught.exception))

        def file(header, data=bytes(8)):
            text = header if isinstance(header, bytes) else json.dumps(header).encode()
            return len(text).to_bytes(8, "little") + text + data

        check(b"", "0 bytes")
        check(b"\xff" * 20, "its header should have")
        check(file(b"{"), "no JSON")
        check(file(b"[1]"), "no JSON object")
        check(file(b"[" * 100000), "no JSON")
        check(file({"__metadata__": {"a": 1}}), "metadata")
        check(file({"x": 1}), "'x' is not a tensor's")
        check(file({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}), "'x' is not a tensor's")
        check(file({"x": {"dtype": "F8", "shape": [2], "data_offsets": [0, 8]}}), "the type 'F8'")
        check(file({"x": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}}), "'x'")
        for shape, offsets in ([[3], [0, 12]], [[2], [4, 12]], [[2], [8, 0]], [[1], [0, 8]], [[-1, -2], [0, 8]],
                               [[2], [-8, 0]], [[2**62, 4], [0, 0]]):
            check(file({"x": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}), "'x' lies outside")


@needs_numpy
class Importing(InFolder):
    """The messages of `python -m towers.importing` that need neither torch nor onnx; tests/peers/importing.py has more."""

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
        import dataclasses

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
    """Which of a file's tensors are a module's; tests/peers/importing_modules.py has the files of torch.save()."""

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

    def test_loading_says_what_to_install(self):
        code = "import sys; sys.modules['numpy'] = None\nimport towers\ntry: towers.load('x')\n" \
               "except towers.Error as error: print(error)"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertIn("pip install numpy", said)


if __name__ == "__main__":
    unittest.main()
