#!/usr/bin/env python3
"""The CIFAR-10 tutorial's network in PyTorch, for comparison with `towers train --recipe cifar10-tutorial`.

Usage: python3 tests/peers/pytorch_cifar10.py [--device cpu|cuda] [--mode eager|compile|cuda-graph|compile-cuda-graph]
           [--precision fp32|tf32|bf16] [--batch 128] [--threads N] [--seconds 10 | --steps N] [--json]
       python3 tests/peers/pytorch_cifar10.py --check-loss /path/to/cifar-10-batches-bin

It times forward + backward + SGD + moving averages, on prepared images that are already on the device. It does no
loading, cropping, distorting or logging, all of which `towers train` does within its step. Warm-up is not timed.
Steps are timed in groups of --group. examples/s is the median over the groups; their quartiles give the spread.

The defaults are the fastest that we found on a CPU (see LRN below), so that the comparison is fair. Debian's
python3-torch takes the dense layers' products from libblas.so.3. That is the slow reference BLAS unless
`apt-get install libopenblas0-openmp` (or BLIS) has replaced it, so install one of these before you compare.

--check-loss prints the loss at step 0 on real images with the training distortions. The tutorial's is 4.676 =
ln 10 (cross entropy) + 2.1906 + 0.1825 (decay of local3 and local4).

Works with PyTorch 1.13 (Debian 12) and 2.x; `compile` needs 2.x.
"""

import argparse
import contextlib
import glob
import json
import os
import platform
import statistics
import sys
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"{sys.argv[0]}: {error}: install PyTorch, e.g. apt-get install python3-torch")

CLASSES, CROP, IMAGE = 10, 24, 32
LEARNING_RATE, WEIGHT_DECAY = 0.1, 0.004
RADIUS, ALPHA, BETA = 4, 0.001 / 9.0, 0.75
WINDOW = 2 * RADIUS + 1


# LRN: y = x / (1 + alpha * sum of x^2 over 9 channels) ^ 0.75, in four ways. Examples/s with 2 cores of an AMD EPYC
# (Zen 4), fp32, batch 128, with malloc keeping memory as in compare_cpu.sh, channels-last unless noted:
#   PyTorch 1.13 + OpenBLAS, eager: custom 1735 (NCHW 1400), band 1615, pool 1250, torch 1068
#   PyTorch 2.15 (PyPI), eager:     custom 1745, band 1626; without the malloc settings about 1400 and 1440
#   PyTorch 2.15, torch.compile, without the malloc settings: custom 1023, band 1007
#   PyTorch 1.13 + reference BLAS (a bare apt-get install python3-torch), custom: 515
# In bf16 the band's 1 + alpha * sum rounds to 1, so LRN almost vanishes; use bf16 for timing only.
def lrn_torch(x, band):
    """PyTorch's own, which divides its alpha by the window."""
    return F.local_response_norm(x, WINDOW, alpha=ALPHA * WINDOW, beta=BETA, k=1.0)


def lrn_pool(x, band):
    """Average pooling along the channels, which lie innermost when the layout is channels-last."""
    channels = (x * x).permute(0, 2, 3, 1)
    mean = F.avg_pool1d(channels.flatten(1, 2), WINDOW, 1, RADIUS).view_as(channels).permute(0, 3, 1, 2)
    return x * (1.0 + ALPHA * WINDOW * mean) ** -BETA


def lrn_band(x, band):
    """A 1x1 convolution with a band matrix; s^-0.75 = s^-0.5 * (s^-0.5)^0.5 is cheaper than pow."""
    r = F.conv2d(x * x, band.to(x.dtype), band.new_ones(x.shape[1], dtype=x.dtype)).rsqrt()
    return x * (r * r.sqrt())


class BandFunction(torch.autograd.Function):
    """lrn_band with its derivative in closed form, so that autograd keeps three tensors instead of seven."""

    @staticmethod
    def forward(context, x, band):
        scale = F.conv2d(x * x, band, band.new_ones(x.shape[1]))
        r = scale.rsqrt()
        factor = r * r.sqrt()
        context.save_for_backward(x, factor, r, band)
        return x * factor

    @staticmethod
    def backward(context, dy):
        # dx = dy s^-b - 2 alpha b x * window sum of (dy x s^(-b-1)); `band` holds alpha and is symmetric
        x, factor, r, band = context.saved_tensors
        inner = (dy * x).mul_(factor).mul_(r).mul_(r)
        return (dy * factor).addcmul_(x, F.conv2d(inner, band), value=-2.0 * BETA), None


def lrn_custom(x, band):
    return BandFunction.apply(x, band.to(x.dtype))


LRN = {"torch": lrn_torch, "pool": lrn_pool, "band": lrn_band, "custom": lrn_custom}


class Network(torch.nn.Module):
    def __init__(self, lrn):
        super().__init__()
        self.lrn = LRN[lrn]
        self.conv1 = torch.nn.Conv2d(3, 64, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(64, 64, 5, padding=2)
        self.local3 = torch.nn.Linear(6 * 6 * 64, 384)
        self.local4 = torch.nn.Linear(384, 192)
        self.softmax_linear = torch.nn.Linear(192, CLASSES)
        for layer, stddev, bias in (
            (self.conv1, 5e-2, 0.0),
            (self.conv2, 5e-2, 0.1),
            (self.local3, 0.04, 0.1),
            (self.local4, 0.04, 0.1),
            (self.softmax_linear, 1.0 / 192, 0.0),
        ):
            torch.nn.init.trunc_normal_(layer.weight, std=stddev, a=-2 * stddev, b=2 * stddev)
            torch.nn.init.constant_(layer.bias, bias)
        distance = torch.arange(64)[:, None] - torch.arange(64)[None, :]
        self.register_buffer("band", ALPHA * (distance.abs() <= RADIUS).float()[:, :, None, None])

    def forward(self, x):
        # ceil_mode pads one row below and one column on the right, as TensorFlow's SAME does here: 24 -> 12 -> 6
        x = self.lrn(F.max_pool2d(F.relu(self.conv1(x)), 3, 2, ceil_mode=True), self.band)
        x = F.max_pool2d(self.lrn(F.relu(self.conv2(x)), self.band), 3, 2, ceil_mode=True)
        x = x.permute(0, 2, 3, 1).flatten(1)  # TensorFlow's order; free when the layout is channels-last
        x = F.relu(self.local4(F.relu(self.local3(x))))
        return self.softmax_linear(x)

    def losses(self, images, labels):
        """total, cross entropy"""
        cross_entropy = F.cross_entropy(self(images).float(), labels)
        decay = self.local3.weight.square().sum() + self.local4.weight.square().sum()
        return cross_entropy + 0.5 * WEIGHT_DECAY * decay, cross_entropy


def autocast(options):
    if options.precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(options.device, dtype=torch.bfloat16)


def as_graph(body, images, labels):
    """`body`, a step on one of these batches that returns the loss, as a CUDA graph"""
    some_images, some_labels = images[0].clone(memory_format=torch.preserve_format), labels[0].clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            body(some_images, some_labels)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = body(some_images, some_labels)

    def replay(new_images, new_labels):
        some_images.copy_(new_images)
        some_labels.copy_(new_labels)
        graph.replay()
        return loss

    return replay


class Trainer:
    """One step: forward, backward, SGD, moving averages."""

    def __init__(self, options, images, labels):
        self.options, self.images, self.labels = options, images, labels
        self.network = Network(options.lrn).to(options.device)
        if options.layout == "nhwc":
            self.network = self.network.to(memory_format=torch.channels_last)
        self.parameters = list(self.network.parameters())
        self.averages = [p.detach().clone() for p in self.parameters]
        self.weight = torch.zeros((), device=options.device)  # 1 - decay; on the device, so that a graph can read it
        self.updates = 0
        self.loss_of = lambda images, labels: self.network.losses(images, labels)[0]
        self.run = self.body
        if options.mode.startswith("compile"):
            self.loss_of = torch.compile(self.loss_of)
        if options.mode.endswith("cuda-graph"):
            self.run = as_graph(self.body, images, labels)

    def body(self, images, labels):
        with autocast(self.options):
            loss = self.loss_of(images, labels)
        loss.backward()
        with torch.no_grad():
            torch._foreach_add_(self.parameters, [p.grad for p in self.parameters], alpha=-LEARNING_RATE)
            if self.options.device == "cpu":
                # a Python number is a little faster than a tensor here
                torch._foreach_mul_(self.averages, 1.0 - self.weight_number)
                torch._foreach_add_(self.averages, self.parameters, alpha=self.weight_number)
            else:
                for average, parameter in zip(self.averages, self.parameters):
                    average.lerp_(parameter, self.weight)
        for p in self.parameters:
            p.grad = None
        return loss.detach()

    def step(self):
        self.updates += 1
        self.weight_number = 1.0 - min(0.9999, (1.0 + self.updates) / (10.0 + self.updates))
        if self.options.device != "cpu":
            self.weight.fill_(self.weight_number)
        batch = self.updates % len(self.images)
        return self.run(self.images[batch], self.labels[batch])


def synchronize(options):
    if options.device == "cuda":
        torch.cuda.synchronize()


def prepared_batches(options):
    """Random images with zero mean and unit variance, as after standardization."""
    generator = torch.Generator().manual_seed(options.seed)
    images, labels = [], []
    for _ in range(4):
        x = torch.randn(options.batch, 3, CROP, CROP, generator=generator).to(options.device)
        images.append(x.contiguous(memory_format=torch.channels_last) if options.layout == "nhwc" else x)
        labels.append(torch.randint(0, CLASSES, (options.batch,), generator=generator).to(options.device))
    return images, labels


def blas():
    """The loaded library that multiplies matrices; Debian's PyTorch lets the system choose it."""
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                path = line.split()[-1]
                if os.path.basename(path).startswith(("libblas.so", "libopenblas", "libblis")):
                    return os.path.realpath(path)
    except OSError:
        pass
    return next((word for word in torch.__config__.show().split() if word.startswith("BLAS_INFO=")), "unknown").strip(",")


def time_steps(step, options):
    """`step` trains for one step and returns the loss. Figures in the order in which they are printed."""
    first_loss = step().item()
    start, warm_up = time.perf_counter(), 0
    while warm_up < 3 or time.perf_counter() - start < options.warmup:
        step()
        synchronize(options)
        warm_up += 1

    rates, steps, start = [], 0, time.perf_counter()
    while (steps < options.steps) if options.steps else (time.perf_counter() - start < options.seconds):
        group_start = time.perf_counter()
        for _ in range(options.group):
            loss = step()
        synchronize(options)
        rates.append(options.batch * options.group / (time.perf_counter() - group_start))
        steps += options.group
    quartiles = statistics.quantiles(rates, n=4) if len(rates) > 1 else [rates[0]] * 3
    return {
        "examples_per_second": round(statistics.median(rates), 1),
        "quartiles": [round(quartiles[0], 1), round(quartiles[2], 1)],
        "best": round(max(rates), 1),
        "seconds_per_step": round(options.batch / statistics.median(rates), 6),
        "steps": steps,
        "warm_up_steps": warm_up + 1,
        "first_loss": round(first_loss, 4),
        "last_loss": round(loss.item(), 4),
    }


def benchmark(options):
    return {
        **time_steps(Trainer(options, *prepared_batches(options)).step, options),
        "device": device_name(options),
        "kind": options.device,
        "mode": options.mode,
        "precision": options.precision,
        "lrn": options.lrn,
        "layout": options.layout,
        "batch": options.batch,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "blas": blas(),
    }


def distort(records, random):
    """The tutorial's training pipeline: [N, 3, 32, 32] bytes -> [N, 3, 24, 24]"""
    images = np.empty((len(records), 3, CROP, CROP), np.float32)
    for record, image in zip(records.astype(np.float64), images):
        top, left = random.randint(0, IMAGE - CROP + 1, size=2)
        x = record[:, top : top + CROP, left : left + CROP]
        if random.uniform() < 0.5:
            x = x[:, :, ::-1]
        x = x + random.uniform(-63, 63)
        mean = x.mean(axis=(1, 2), keepdims=True)
        x = (x - mean) * random.uniform(0.2, 1.8) + mean
        image[:] = (x - x.mean()) / max(x.std(), 1.0 / np.sqrt(x.size))
    return images


def check_loss(options):
    files = sorted(glob.glob(os.path.join(options.check_loss, "data_batch_*.bin")))
    if not files:
        sys.exit(f"{options.check_loss}: no data_batch_*.bin; pass the folder of CIFAR-10's binary version")
    data = np.fromfile(files[0], np.uint8).reshape(-1, 1 + 3 * IMAGE * IMAGE)
    totals, cross_entropies, decays = [], [], []
    for seed in range(10):
        torch.manual_seed(seed)
        random = np.random.RandomState(seed)
        rows = data[random.choice(len(data), options.batch, replace=False)]
        images = torch.from_numpy(distort(rows[:, 1:].reshape(-1, 3, IMAGE, IMAGE), random))
        network = Network(options.lrn)
        with torch.no_grad():
            total, cross_entropy = network.losses(images, torch.from_numpy(rows[:, 0].astype(np.int64)))
        totals.append(total.item())
        cross_entropies.append(cross_entropy.item())
        decays.append([0.5 * WEIGHT_DECAY * w.weight.square().sum().item() for w in (network.local3, network.local4)])
    local3, local4 = np.mean(decays, axis=0)
    return {
        "loss_at_step_0": round(statistics.mean(totals), 4),
        "lowest": round(min(totals), 4),
        "highest": round(max(totals), 4),
        "cross_entropy": round(statistics.mean(cross_entropies), 4),
        "local3_decay": round(local3, 4),
        "local4_decay": round(local4, 4),
        "runs": len(totals),
        "lrn": options.lrn,
        "torch": torch.__version__,
    }


def add_device_flags(parser):
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--mode", choices=("eager", "compile", "cuda-graph", "compile-cuda-graph"), default="eager")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32",
                        help="number format; tf32 needs CUDA (default: fp32)")
    parser.add_argument("--group", type=int, help="steps timed together (default: 2 on the CPU, 50 on CUDA)")


def set_device(parser, options):
    """As these flags say"""
    options.group = options.group or (50 if options.device == "cuda" else 2)
    if options.mode.startswith("compile") and not hasattr(torch, "compile"):
        parser.error(f"--mode {options.mode}: PyTorch {torch.__version__} has no torch.compile; install 2.0 or later")
    if options.device != "cuda" and (options.mode.endswith("cuda-graph") or options.precision == "tf32"):
        parser.error("--mode cuda-graph and --precision tf32 need --device cuda")
    if options.device == "cuda":
        if not torch.cuda.is_available():
            parser.error("--device cuda: this PyTorch sees no CUDA device")
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"


def device_name(options):
    return torch.cuda.get_device_name() if options.device == "cuda" else platform.processor() or "cpu"


def parse():
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_device_flags(parser)
    parser.add_argument("--lrn", choices=tuple(LRN), help="implementation of LRN (default: custom; band in bf16)")
    parser.add_argument("--layout", choices=("nhwc", "nchw"), default="nhwc",
                        help="memory layout; nhwc is PyTorch's channels-last (default: nhwc)")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=affinity, help="CPU threads (default: all usable cores)")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of timed steps (default: 10)")
    parser.add_argument("--steps", type=int, default=0, help="number of timed steps, instead of --seconds")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds before timing starts (default: 2)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--check-loss", metavar="FOLDER", help="print the loss at step 0 on CIFAR-10's binary files")
    options = parser.parse_args()
    options.lrn = options.lrn or ("band" if options.precision == "bf16" else "custom")
    set_device(parser, options)
    return options


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    result = check_loss(options) if options.check_loss else benchmark(options)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
