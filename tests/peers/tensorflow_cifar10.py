#!/usr/bin/env python3
"""The CIFAR-10 tutorial's network in TensorFlow 2, for comparison with `towers train --recipe cifar10-tutorial` on a CPU.

Usage: python3 tests/peers/tensorflow_cifar10.py [--batch 128] [--threads N] [--steps 120] [--xla] [--json]

It times what pytorch_cifar10.py does: forward + backward + SGD + moving averages as one graph (tf.function), on prepared
images. It does no loading, cropping, distorting or logging. Warm-up is not timed; steps are timed in groups of ten.

Examples/s with two cores of an AMD EPYC (Zen 4), TensorFlow 2.21, batch 128: graph 1321 to 1366, with --xla 835.
Needs `pip install tensorflow-cpu` (or tensorflow)."""

import argparse
import json
import os
import statistics
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--batch", type=int, default=128, help="examples in a step (default: 128)")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all that it may use")
parser.add_argument("--steps", type=int, default=120, help="timed steps, a multiple of 10 (default: 120)")
parser.add_argument("--xla", action="store_true", help="compile the step")
parser.add_argument("--json", action="store_true", help="print one line of JSON")
options = parser.parse_args()

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    import tensorflow as tf
except ImportError as error:
    sys.exit(f"{sys.argv[0]}: {error}: install TensorFlow, e.g. pip install tensorflow-cpu")

tf.config.threading.set_intra_op_parallelism_threads(options.threads)
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.random.set_seed(1)

CLASSES, CROP, WARM_UP, GROUP = 10, 24, 20, 10
LEARNING_RATE, WEIGHT_DECAY, MOST_AVERAGING = 0.1, 0.004, 0.9999

layers = [  # kernel shape, stddev, bias
    ([5, 5, 3, 64], 5e-2, 0.0),
    ([5, 5, 64, 64], 5e-2, 0.1),
    ([6 * 6 * 64, 384], 0.04, 0.1),
    ([384, 192], 0.04, 0.1),
    ([192, CLASSES], 1.0 / 192, 0.0),
]
variables = []
for shape, stddev, bias in layers:
    variables.append(tf.Variable(tf.random.truncated_normal(shape, stddev=stddev)))
    variables.append(tf.Variable(tf.fill([shape[-1]], bias)))
averages = [tf.Variable(variable) for variable in variables]


def logits(x):
    w1, b1, w2, b2, w3, b3, w4, b4, w5, b5 = variables

    def lrn(x):
        return tf.nn.local_response_normalization(x, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)

    def pool(x):
        return tf.nn.max_pool2d(x, 3, 2, "SAME")

    x = lrn(pool(tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w1, 1, "SAME"), b1))))
    x = pool(lrn(tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w2, 1, "SAME"), b2))))
    x = tf.nn.relu(tf.matmul(tf.reshape(x, [x.shape[0], -1]), w3) + b3)
    x = tf.nn.relu(tf.matmul(x, w4) + b4)
    return tf.matmul(x, w5) + b5


@tf.function(jit_compile=options.xla)
def step(images, labels, decay):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits(images))
        loss = tf.reduce_mean(losses) + WEIGHT_DECAY * (tf.nn.l2_loss(variables[4]) + tf.nn.l2_loss(variables[6]))
    for variable, average, gradient in zip(variables, averages, tape.gradient(loss, variables)):
        variable.assign_sub(LEARNING_RATE * gradient)
        average.assign_sub((1.0 - decay) * (average - variable))
    return loss


batches = [
    (tf.random.normal([options.batch, CROP, CROP, 3]), tf.random.uniform([options.batch], 0, CLASSES, tf.int32))
    for _ in range(4)
]
rates, losses = [], []
begin = time.perf_counter()
for number in range(WARM_UP + options.steps):
    decay = tf.constant(min(MOST_AVERAGING, (1.0 + number) / (10.0 + number)))
    loss = float(step(*batches[number % len(batches)], decay))
    losses.append(loss)
    if (number + 1) % GROUP == 0:
        seconds, begin = time.perf_counter() - begin, time.perf_counter()
        if number >= WARM_UP:
            rates.append(options.batch * GROUP / seconds)
if not rates:
    sys.exit(f"{sys.argv[0]}: --steps must be at least {GROUP}")
figures = {
    "examples_per_second": round(statistics.median(rates), 1),
    "best": round(max(rates), 1),
    "first_loss": round(losses[0], 4),
    "last_loss": round(losses[-1], 4),
    "device": "cpu",
    "batch": options.batch,
    "threads": options.threads,
    "xla": options.xla,
    "tensorflow": tf.__version__,
}
print(json.dumps(figures) if options.json else "\n".join(f"{key}: {value}" for key, value in figures.items()))
