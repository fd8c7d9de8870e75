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


class WithoutNumpy(InFolder):
    def test_loading_says_what_to_install(self):
        code = "import sys; sys.modules['numpy'] = None\nimport towers\ntry: towers.load('x')\n" \
               "except towers.Error as error: print(error)"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertIn("pip install numpy", said)


if __name__ == "__main__":
    unittest.main()
