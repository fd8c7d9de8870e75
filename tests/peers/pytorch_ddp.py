#!/usr/bin/env python3
"""PyTorch's DistributedDataParallel with gloo, for comparison with ranks of `towers train` and with the exchange tool.

Usage: RANK=R WORLD_SIZE=N MASTER_ADDR=HOST MASTER_PORT=29500 GLOO_SOCKET_IFNAME=eth0
           python3 tests/peers/pytorch_ddp.py [--megabytes M... | --batch 128] [--steps N] [--threads 1]

Start it once for each rank; rank 0 prints. --megabytes: the exchange alone, of so many megabytes of gradients in layers
of 1 MB that take no time, with the update by SGD with momentum. --batch: the network and step of pytorch_cifar10.py,
with so many examples in each rank; without RANK in one process.
"""

import argparse
import os
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import pytorch_cifar10


class Layers(torch.nn.Module):
    """Parameters whose gradients take hardly more time than it takes to write them."""

    def __init__(self, megabytes):
        super().__init__()
        count, layer = int(megabytes * 1e6 / 4), 512 * 512
        sizes = [layer] * (count // layer) + [count % layer]
        self.layers = torch.nn.ParameterList(torch.zeros(size) for size in sizes if size > 0)

    def forward(self):
        return sum(layer[0] for layer in self.layers)


class Loss(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images, labels):
        return self.network.losses(images, labels)[0]


def parallel(module, options):
    if options.ranks == 1:
        return module
    return DistributedDataParallel(module, bucket_cap_mb=options.bucket, gradient_as_bucket_view=True,
                                   broadcast_buffers=False)


def exchange_alone(options, megabytes):
    module = parallel(Layers(megabytes), options)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def step():
        optimizer.zero_grad()
        module().backward()
        optimizer.step()

    return step


def cifar10(options):
    trainer = pytorch_cifar10.Trainer(options, *pytorch_cifar10.prepared_batches(options))
    trainer.loss_of = parallel(Loss(trainer.network), options)
    return trainer.step


def seconds_per_step(step, options):
    """With as many steps in all ranks"""

    def meet():
        if options.ranks > 1:
            torch.distributed.barrier()

    for _ in range(1 + options.steps // 10):
        step()
    meet()
    begin = time.perf_counter()
    for _ in range(options.steps):
        step()
    meet()
    return (time.perf_counter() - begin) / options.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, nargs="+")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bucket", type=float, default=25, help="megabytes, PyTorch's bucket_cap_mb (default: 25)")
    options = parser.parse_args()
    vars(options).update(device="cpu", mode="eager", precision="fp32", lrn="custom", layout="nhwc", seed=1)
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    rank, options.ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if options.ranks > 1:
        torch.distributed.init_process_group("gloo")
    for megabytes in options.megabytes or [None]:
        seconds = seconds_per_step(exchange_alone(options, megabytes) if megabytes else cifar10(options), options)
        if rank == 0:
            what = f"{megabytes} MB" if megabytes else f"{options.batch * options.ranks / seconds:.1f} examples/s"
            print(f"{options.ranks} ranks, {what}: {1e3 * seconds:.3f} ms a step, PyTorch {torch.__version__}", flush=True)
    if options.ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
