"""Trains while one Vulkan call of one device fails, or one CUDA call of an emulated card, for every call that the program makes.

The layer of tests/broken_vulkan lists the calls of an undisturbed run and lets one of them fail in each of many others:
with an error, a lost device, without memory, by a crash, or by never returning. Each is tried from the first call on
and from a later one on; the device is the only one, the second beside the CPU, or one of two cards that the program
takes by itself (the layer shows two software devices as cards).

Prints a line for each cell: the verdict, the exit code, the seconds, the rule, and the last line of stderr. Verdicts
other than `ok`:
  endless      it did not end in time
  signal       a signal ended it, such as exit code 139
  silent       it failed without a word
  taken away   a healthy device could have trained on, but did not (a driver that crashes once the run has begun ends
               the program)
  wrong        it ended well, but the device alone has trained another model than undisturbed
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HOWS = ["error", "lost", "memory", "crash", "hang"]
VULKAN = {"error": "VK_ERROR_INITIALIZATION_FAILED", "lost": "VK_ERROR_DEVICE_LOST",
          "memory": "VK_ERROR_OUT_OF_DEVICE_MEMORY", "crash": "crash", "hang": "hang"}
CUDA = {"error": "999", "lost": "702", "memory": "2", "crash": "crash", "hang": "hang"}
RETURNS_NO_ERROR = re.compile(
    r"vk(Cmd|Destroy|Free|Unmap|ResetQueryPool|GetBuffer|GetDeviceQueue"
    r"|GetPhysicalDevice(Properties|Features|Memory|Queue))"
)
QUICK = {
    ("vkCreateDevice", "first", "hang"),
    ("vkCreateDevice", "first", "crash"),
    ("vkCreateComputePipelines", "later", "error"),
    ("vkAllocateMemory", "first", "memory"),
    ("vkQueueSubmit2", "later", "lost"),
    ("vkQueueWaitIdle", "first", "hang"),
}
RECIPE = """[input]
shape = [16, 16, 3]
classes = 10
[network]
layers = [
  { name = "conv", kind = "conv2d", filters = 4, kernel = 3, stride = 2 },
  { name = "bn", kind = "batch_norm", group = 2, activation = "relu" },
  { name = "fc", kind = "dense", units = 10 },
]
[training]
batch = 4
steps = 4
[optimizer]
kind = "sgd"
learning_rate = 0.1
"""


class Matrix:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.numbers = itertools.count()
        (folder / "recipe.toml").write_text(RECIPE)
        (folder / "data").mkdir()
        record = bytes([3]) + bytes(range(256)) * 12
        for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
            (folder / "data" / f"{name}.bin").write_bytes(record * 10)
        self.hows = CUDA if arguments.cuda else VULKAN
        backend = "cuda:" if arguments.cuda else "vulkan:"
        shown = [each for each in self.devices() if each["id"].startswith(backend)]
        if not shown:
            print("SKIPPED: no device of " + backend)
            sys.exit(0)
        wanted = arguments.device or ("" if arguments.cuda else "llvmpipe")
        victim = next((each for each in shown if wanted in each["name"]), shown[0])
        self.name = victim["name"]
        self.towers = {"alone": ["--towers", victim["id"]], "pair": ["--towers", "cpu," + victim["id"]]}
        if len(shown) > 1:
            self.towers["default"] = []

    def environment(self, rules, log=None):
        added = {
            **({"TOWERS_EMULATED_CUDA_DEVICES": "2", "TOWERS_EMULATED_CUDA_FAIL": rules} if self.arguments.cuda else
               {"VK_ADD_LAYER_PATH": self.arguments.layer, "VK_INSTANCE_LAYERS": "VK_LAYER_TOWERS_broken",
                "TOWERS_BROKEN_VULKAN": rules}),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "OMP_NUM_THREADS": "1",
            "LP_NUM_THREADS": "1",
        }
        if log:
            added["TOWERS_BROKEN_LOG"] = str(log)
        return {**os.environ, **added}

    def devices(self):
        command = [self.arguments.towers, "devices", "--json"]
        out = subprocess.run(command, env=self.environment(""), check=True, stdout=subprocess.PIPE).stdout
        return json.loads(out)["devices"]

    def train(self, towers, rules, timeout, limit=None, log=None):
        """The exit code (None: endless), the seconds, stdout, stderr, and the run's folder."""
        run = self.folder / f"run{next(self.numbers)}"
        command = [self.arguments.towers, "train", "--recipe", self.folder / "recipe.toml", "--data",
                   self.folder / "data", "--shares", "even", "--seed", "1", "--log-every", "1", "--summary-every", "0",
                   "--device-timeout", str(timeout), "--run", run] + self.towers[towers]
        if towers == "default" and not self.arguments.cuda:
            rules = "deviceType=discrete;" + rules
        begin = time.monotonic()
        try:
            done = subprocess.run(command, env=self.environment(rules, log), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=limit)
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            code, out, err = None, late.stdout or b"", late.stderr or b""
        return code, time.monotonic() - begin, out.decode(errors="replace"), err.decode(errors="replace"), run

    def calls(self, towers):
        """The calls of an undisturbed run that concern the device, with how often each is made at least."""
        log = self.folder / f"log-{towers}"
        code, _, out, err, run = self.train(towers, "", 60, log=log)  # fills the cache of pipelines, too
        if code != 0:
            sys.exit(f"FAILED: undisturbed, {towers} ends with {code}: {err}{out}")
        if towers == "alone":
            self.undisturbed = self.model(run)
        counts = {}
        for line in log.read_text().splitlines():
            call, count = line.rsplit("#", 1)
            call, _, device = call.partition("@")
            if device in ("", self.name):
                counts[call, device] = max(counts.get((call, device), 0), int(count))
        return counts

    @staticmethod
    def model(run):
        return [each.read_bytes() for each in sorted(run.glob("model.ckpt-4.safetensors"))]

    def cells(self):
        """The towers and the rule of each."""
        for towers in self.towers:
            for (call, device), most in sorted(self.calls(towers).items()):
                for (when, count), how in itertools.product([("first", 1), ("later", most // 2 + 1)], HOWS):
                    if self.wants(towers, call, when, how) and not (when == "later" and count == 1):
                        yield towers, f"{call}{'@' if device else ''}{device}#{count}+={self.hows[how]}"

    def wants(self, towers, call, when, how):
        arguments = self.arguments
        return (
            (how in ("crash", "hang") or not RETURNS_NO_ERROR.match(call))
            and re.search(arguments.calls, call)
            and towers in (arguments.only or self.towers)
            and how in (arguments.how or HOWS)
            and (not arguments.quick or (towers != "pair" and (call, when, how) in QUICK))
        )

    @staticmethod
    def could_go_on(towers, rule, code, out, run):
        if run.exists() and rule.endswith("=crash"):
            return False
        if towers == "pair":  # a named device that is not listed, or that refuses before the first step, ends the run
            not_there = code == 2 or re.match("cudaDriver|cudaRuntime|cudaGetDevice", rule)
            return not not_there and (
                ": step " in out or rule.endswith(("=VK_ERROR_DEVICE_LOST", "=702", "=hang")))
        return towers == "default"

    def judge(self, towers, rule):
        code, seconds, out, err, run = self.train(towers, rule, self.arguments.device_timeout, self.arguments.limit)
        finished = "done: saved" in out
        lines = err.strip().splitlines()
        if code is None:
            verdict = "endless"
        elif code < 0 or code >= 128:
            verdict = "signal"
        elif code != 0 and not lines:
            verdict = "silent"
        elif code != 0 and not finished and self.could_go_on(towers, rule, code, out, run):
            verdict = "taken away"
        elif code == 0 and (not finished or (towers == "alone" and self.model(run) != self.undisturbed)):
            verdict = "wrong"
        else:
            verdict = "ok"
        last = lines[-1] if lines else next((each for each in out.splitlines() if "is dropped" in each), "")
        ended = "-" if code is None else code
        print(f"{verdict:<10} {ended:>4} {seconds:5.1f} s  {towers:<7} {rule}  {last}", flush=True)
        return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("towers", help="the program")
    parser.add_argument("layer", nargs="?", help="the folder of the layer's manifest")
    parser.add_argument("--cuda", action="store_true", help="the program is built on emulated CUDA; without a layer")
    parser.add_argument("--device", help="a part of the failing device's name")
    parser.add_argument("--calls", default="", help="a regular expression for the calls")
    parser.add_argument("--how", nargs="*", choices=HOWS)
    parser.add_argument("--only", nargs="*", choices=["alone", "pair", "default"])
    parser.add_argument("--quick", action="store_true", help="only the most telling cells")
    parser.add_argument("--device-timeout", type=float, default=1)
    parser.add_argument("--limit", type=float, default=120, help="the seconds after which a run is endless")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    with tempfile.TemporaryDirectory() as folder:
        matrix = Matrix(parser.parse_args(), pathlib.Path(folder))
        with concurrent.futures.ThreadPoolExecutor(matrix.arguments.jobs) as pool:
            verdicts = list(pool.map(lambda cell: matrix.judge(*cell), list(matrix.cells())))
    bad = [each for each in verdicts if each != "ok"]
    kinds = "".join(f", {bad.count(each)} {each}" for each in sorted(set(bad)))
    print(f"{len(verdicts)} cells, {len(bad)} not ok{kinds}")
    if bad or not verdicts:
        sys.exit("FAILED")


if __name__ == "__main__":
    main()
