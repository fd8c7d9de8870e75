"""Finds the program and runs it: its flags, its log, its errors."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, FrozenSet, List, Optional, TextIO, Union

#: What receives a log: True prints it, False drops it, a function gets each line.
Log = Union[bool, Callable[[str], None]]


class Error(RuntimeError):
    """The program failed. The text is the line in which it says what went wrong, where, and what to do."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code  #: its exit code, or -N if signal N ended it


class UsageError(Error, ValueError):
    """The arguments are wrong, or name a device that is not there."""


def program() -> str:
    """The program's path: $TOWERS_PROGRAM, else the one inside this package, else the one on PATH."""
    named = os.environ.get("TOWERS_PROGRAM")
    if named:
        return named
    inside = Path(__file__).parent / "bin" / "towers"
    if inside.exists():
        return str(inside)
    found = shutil.which("towers")
    if found is not None and not _is_script(found):  # a script would call this package
        return found
    raise Error("there is no program 'towers' in this package or on PATH; install the wheel, or name the program in "
                "TOWERS_PROGRAM")


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


@functools.lru_cache(maxsize=None)
def _version_of(path: str) -> str:
    try:
        out = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Error(f"cannot run {path}: {error}") from error
    return out.split()[-1]


def version() -> str:
    """The version of the installed package, or in a source tree that of the program, if there is one."""
    from importlib import metadata
    try:
        return metadata.version("towers")
    except metadata.PackageNotFoundError:
        pass
    try:
        return _version_of(program())
    except Error:
        return "unknown"


@functools.lru_cache(maxsize=None)
def _switches(path: str, command: str) -> FrozenSet[str]:
    """The flags of a command that take on or off."""
    out = subprocess.run([path, *command.split(), "--help"], capture_output=True, text=True, check=False).stdout
    return frozenset(re.findall(r"(--[a-z-]+) \[?on\|off", out))


#: Between the parts of a list that a flag takes as one word
_BETWEEN = {"towers": ",", "quirks": ",", "shares": ":"}


def arguments(command: str, flags: Dict[str, Any]) -> List[str]:
    """The command line of `command` with these flags: batch=64 is --batch 64, keep_best=True is --keep-best."""
    words = command.split()
    for key, value in flags.items():
        name = key.strip("_").replace("_", "-")
        flag = "--" + name
        if value is None:
            continue
        if isinstance(value, bool):
            if flag in _switches(program(), command):
                words.append(f"{flag}={'on' if value else 'off'}")
            elif value:
                words.append(flag)
        elif isinstance(value, dict):  # the changes of --set
            for each, what in value.items():
                words += [flag, f"{each}={_as_toml(what)}"]
        elif isinstance(value, (list, tuple)):
            if name in _BETWEEN:
                words += [flag, _BETWEEN[name].join(str(each) for each in value)]
            else:
                for each in value:
                    words += [flag, _as_word(each)]
        else:
            words += [flag, _as_word(value)]
    return words


def _as_word(value: Any) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _as_toml(value: Any) -> str:
    if value is None:
        return ""  # takes the key out
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_quoted(each) for each in value) + "]"
    return str(value)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _as_toml(value)


def call(command: str, *words: Any, log: Log = False, **flags: Any) -> str:
    """Runs `towers COMMAND WORDS... --FLAGS...` and returns its standard output.

    `log` receives each line as it comes. Ctrl-C (KeyboardInterrupt) asks the program to stop, as it does in a
    terminal, and waits: a training saves its state before.

    Raises Error, or UsageError if the arguments are wrong.
    """
    line = [program(), *arguments(command, flags), *[_as_word(each) for each in words]]
    hear: Callable[[str], None]
    if callable(log):
        hear = log
    elif log:
        hear = _print
    else:
        hear = _drop
    # A session of its own, so that Ctrl-C in a terminal reaches only this process, which passes it on.
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", start_new_session=True) as process:
        assert process.stdout is not None and process.stderr is not None
        last: List[str] = []
        listener = threading.Thread(target=_listen, args=(process.stderr, last), daemon=True)
        listener.start()
        lines: List[str] = []
        interrupt: Optional[BaseException] = None
        while True:
            try:
                text = process.stdout.readline()
                if not text:
                    break
                lines.append(text)
                if interrupt is None:  # a `log` that has raised once may do so at each line
                    hear(text.rstrip("\n"))
            except BaseException as error:  # also one that `log` raises
                if interrupt is not None:
                    process.kill()
                    raise
                interrupt = error
                process.send_signal(signal.SIGINT)
        process.wait()
        listener.join()
    if interrupt is None and process.returncode != 0:
        message = last.pop() if last else f"towers {command} ended with code {process.returncode}"
        raise (UsageError if process.returncode == 2 else Error)(message, process.returncode)
    for note in last:
        print(note, file=sys.stderr)
    if interrupt is not None:
        raise interrupt
    return "".join(lines)


def _listen(stream: TextIO, last: List[str]) -> None:
    """Prints what the program says on standard error, but keeps the last line, which may be why it fails."""
    for line in stream:
        if last:
            print(last.pop(), file=sys.stderr, flush=True)
        last.append(line.rstrip("\n")[len("towers: ") if line.startswith("towers: ") else 0:])


def _print(line: str) -> None:
    print(line, flush=True)


def _drop(line: str) -> None:
    del line
