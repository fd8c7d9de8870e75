"""Evaluates a checkpoint of `towers` on CIFAR-10's test images in PyTorch.

python3 docs/examples/evaluate_in_pytorch.py CHECKPOINT DATA_FOLDER
"""

import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

checkpoint, folder = sys.argv[1:]
AVERAGE = "/ExponentialMovingAverage"
v = {name[: -len(AVERAGE)]: value for name, value in load_file(checkpoint).items() if name.endswith(AVERAGE)}


def conv(x, name):  # weights: HWIO -> OIHW
    return F.relu(F.conv2d(x, v[name + "/weights"].permute(3, 2, 0, 1), v[name + "/biases"], padding=2))


def lrn(x):  # TensorFlow's alpha is 0.001 / 9; PyTorch divides its own by the window's 9 channels
    return F.local_response_norm(x, 9, alpha=0.001, beta=0.75, k=1.0)


def pool(x):  # ceil_mode pads below and right, as SAME does here
    return F.max_pool2d(x, 3, 2, ceil_mode=True)


def dense(x, name):
    return x @ v[name + "/weights"] + v[name + "/biases"]


def network(images):  # [N, 3, 24, 24] -> [N, 10]
    x = lrn(pool(conv(images, "conv1")))
    x = pool(lrn(conv(x, "conv2")))
    x = x.permute(0, 2, 3, 1).flatten(1)  # NHWC, the order that local3 expects
    return dense(F.relu(dense(F.relu(dense(x, "local3")), "local4")), "softmax_linear")


records = torch.frombuffer(bytearray(open(folder + "/test_batch.bin", "rb").read()), dtype=torch.uint8).view(-1, 3073)
correct, cross_entropy = 0, 0.0
with torch.no_grad():
    for batch in records.split(500):  # a label byte, then the planes of red, green and blue
        labels = batch[:, 0].long()
        x = batch[:, 1:].reshape(-1, 3, 32, 32)[:, :, 4:28, 4:28].float()  # the centre
        deviation, mean = torch.std_mean(x, dim=(1, 2, 3), unbiased=False, keepdim=True)
        logits = network((x - mean) / deviation.clamp(min=(3 * 24 * 24) ** -0.5))
        correct += int((logits.argmax(1) == labels).sum())
        cross_entropy += float(F.cross_entropy(logits, labels, reduction="sum"))

print(f"precision @ 1 = {correct / len(records):.3f}")
print(f"{correct} of {len(records)} examples, cross entropy {cross_entropy / len(records):.3f}")
