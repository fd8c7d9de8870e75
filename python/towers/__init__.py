"""Trains convolutional networks with the program `towers`: one replica of the model per compute device.

    import towers
    run = towers.run(recipe="cifar10-fast", data="shapes", batch=64, steps=100)
    run.metric("loss")          # ([0, 10, 20, ...], [2.31, 1.96, ...])
    run.eval().precision        # 0.934
    run.checkpoint()["conv1/weights"].shape

Keyword arguments are the program's flags with _ for -: `towers train --help` lists them.
"""

from ._checkpoint import Checkpoint, load, save
from ._program import Error, UsageError, call, program, version
from ._run import Evaluation, Run, devices, eval, open_run, recipes, run

__version__ = version()
__all__ = ["Checkpoint", "Error", "Evaluation", "Run", "UsageError", "call", "devices", "eval", "load", "open_run",
           "program", "recipes", "run", "save"]
