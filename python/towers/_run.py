"""Trainings: starting them, and what they leave in their run directory."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _checkpoint
from ._program import Error, Log, call

_AnyPath = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What `towers eval` measured."""

    correct: int  #: examples classified correctly, or that have exactly the labels found
    examples: int
    cross_entropy: float  #: mean over the examples, without weight decay
    step: int  #: updates that the checkpoint's training had done
    text: str  #: all that the program printed

    @property
    def precision(self) -> float:
        return self.correct / self.examples if self.examples else 0.0


class Run:
    """A run directory. Everything is read when it is asked for, so a run that still goes may be watched."""

    def __init__(self, path: _AnyPath) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"towers.open_run({str(self.path)!r})"

    @property
    def config(self) -> str:
        """config.toml: the effective settings."""
        return (self.path / "config.toml").read_text(encoding="utf-8")

    @property
    def recipe(self) -> str:
        """recipe.toml: the recipe, with the changes of `set`."""
        return (self.path / "recipe.toml").read_text(encoding="utf-8")

    @property
    def lines(self) -> List[Dict[str, Any]]:
        """The lines of metrics.jsonl, those of logged steps and of test passes."""
        try:
            text = (self.path / "metrics.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        whole = text[:text.rfind("\n") + 1]  # the last line may be half written
        try:
            return [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise Error(f"{self.path / 'metrics.jsonl'}: a line is no JSON") from error

    @property
    def metrics(self) -> Dict[str, List[Any]]:
        """Each figure of the logged steps as a list; they have one length. None where a step lacks the figure."""
        return _columns([line for line in self.lines if "loss" in line])

    @property
    def tests(self) -> Dict[str, List[Any]]:
        """Each figure of the test passes (`eval_every`) likewise."""
        return _columns([line for line in self.lines if "test_examples" in line or "test_precision" in line])

    def metric(self, name: str) -> Tuple[List[int], List[Any]]:
        """The steps that have this figure, and its values: what plot() takes. Raises KeyError if none has it."""
        having = [line for line in self.lines if name in line]
        if not having:
            raise KeyError(f"no line of {self.path / 'metrics.jsonl'} has '{name}'")
        return [line["step"] for line in having], [line[name] for line in having]

    @property
    def checkpoints(self) -> Dict[int, Path]:
        """The checkpoints that are kept: the path of each by its step, in order."""
        try:
            names = os.listdir(self.path)  # glob() would take a folder that cannot be read for an empty one
        except FileNotFoundError:
            names = []
        found = {}
        for name in names:
            match = re.fullmatch(r"model\.ckpt-([0-9]+)\.safetensors", name)
            if match:
                found[int(match[1])] = self.path / name
        return dict(sorted(found.items()))

    def checkpoint(self, step: Optional[int] = None) -> _checkpoint.Checkpoint:
        """The checkpoint of this step, or the latest."""
        kept = self.checkpoints
        if not kept:
            raise Error(f"{self.path} has no checkpoint")
        if step is None:
            step = max(kept)
        if step not in kept:
            raise Error(f"{self.path} has no checkpoint of step {step}, but of {', '.join(map(str, kept))}")
        return _checkpoint.load(kept[step])

    def best(self) -> _checkpoint.Checkpoint:
        """The one that `keep_best=True` keeps."""
        return _checkpoint.load(self.path / "best.safetensors")

    def eval(self, log: Log = False, **flags: Any) -> Evaluation:
        """Evaluates the latest checkpoint; flags of `towers eval`."""
        return eval(self, log=log, **flags)

    def resume(self, log: Log = True, **flags: Any) -> "Run":
        """Continues the run, with its settings unless a flag overrides them: run.resume(steps=2000)."""
        call("train", run=self.path, resume=True, log=log, **flags)
        return self


def _columns(lines: List[Dict[str, Any]]) -> Dict[str, List[Any]]:
    names = dict.fromkeys(name for line in lines for name in line)
    return {name: [line.get(name) for line in lines] for name in names}


def run(recipe: Optional[_AnyPath] = None, *, run: Optional[_AnyPath] = None, log: Log = True, **flags: Any) -> Run:
    """Trains, and returns the run when the training has ended.

    Keyword arguments are the flags of `towers train`: batch=64, steps=1000, keep_best=True, distort=False.
    A list may be given where a flag takes one: towers=["cuda:0", "cpu"], shares=[3, 1]. `set` takes a dict:
    set={"optimizer.learning_rate": 0.05}. `log` is True (print each line of the log as it comes), False or a
    function that gets each line.

    Ctrl-C, or a notebook's stop button, saves the state first; Run.resume() goes on.

    Raises Error with the program's message, such as where a training diverged; UsageError if a flag is wrong.
    """
    made = None if run is not None else _new_folder(recipe)
    path = Path(run) if run is not None else made
    assert path is not None
    try:
        call("train", recipe=recipe, run=path, log=log, **flags)
    finally:
        if made is not None and not any(made.iterdir()):
            made.rmdir()
    return Run(path)


def _new_folder(recipe: Optional[_AnyPath]) -> Path:
    """A new folder in runs/, named as the program names them."""
    name = "cifar10-tutorial" if recipe is None else Path(recipe).stem
    name += time.strftime("-%Y%m%d-%H%M%S")
    number = 1
    while True:
        path = Path("runs", name if number == 1 else f"{name}-{number}")
        path.parent.mkdir(exist_ok=True)
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1


def open_run(path: _AnyPath) -> Run:
    """A run that is there already."""
    try:
        os.stat(Path(path) / "config.toml")
    except FileNotFoundError:
        raise Error(f"{os.fspath(path)} is no run directory: it has no config.toml") from None
    except OSError as error:
        raise Error(f"{os.fspath(path)} cannot be read: {error.strerror}") from error
    return Run(path)


def eval(what: Union[Run, _AnyPath], *, log: Log = False, **flags: Any) -> Evaluation:  # noqa: A001
    """Evaluates a run's latest checkpoint, or a checkpoint file, on the data that it was trained with or `data`."""
    path = what.path if isinstance(what, Run) else Path(what)
    where = {"run": path} if isinstance(what, Run) or path.is_dir() else {"checkpoint": path}
    text = call("eval", log=log, **where, **flags)
    found = re.findall(r"^([0-9]+) of ([0-9]+) examples(?: have exactly the labels found)?, cross entropy (\S+), "
                       r"step ([0-9]+)", text, re.MULTILINE)
    if not found:
        raise Error(f"towers eval printed no result: {text.strip()}")
    correct, examples, cross_entropy, step = found[-1]
    return Evaluation(int(correct), int(examples), float(cross_entropy), int(step), text)


def devices() -> List[Dict[str, Any]]:
    """The devices that can train, as `towers devices --json` describes them: id, name, kind, memory ..."""
    return list(json.loads(call("devices", json=True))["devices"])


def recipes() -> Dict[str, str]:
    """The built-in recipes: their names and what they are."""
    lines = [line.split(None, 1) for line in call("recipe list").splitlines()]
    return {line[0]: line[1] for line in lines}
