"""Builds a test program on emulated cards again with some of the cards' objects compiled anew."""
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

sources = pathlib.Path(__file__).resolve().parents[2]
target = "tests/emulated_cuda/conformance_on_emulated_cuda"


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def rebuild(build, folder, compiled, options=(), changed=None):
    """Returns the program, in the empty `folder`. `build`: a build folder of Ninja's. `compiled`: patterns of the names
    of the source files that are compiled anew, with these options. `changed`: a file's path and the text to compile in
    its place."""
    shutil.copytree(sources / "shaders", folder / "shaders")  # its files include each other from where they lie
    if changed:
        (folder / changed[0]).parent.mkdir(parents=True, exist_ok=True)
        (folder / changed[0]).write_text(changed[1])
    link = run(["ninja", "-C", build, "-t", "commands", target], check=True).stdout.splitlines()[-1]
    commands = []
    for each in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(each["file"])
        if "towers_emulated_cuda.dir" not in each["command"] or not any(map(source.match, compiled)):
            continue
        command = shlex.split(each["command"])
        old, new = command[command.index("-o") + 1], str(folder / f"{source.stem}.o")
        link = link.replace(old, new)
        words = {old: new}
        if changed and source == sources / changed[0]:
            words[str(source)] = str(folder / changed[0])
        command = [words.get(word, word) for word in command]
        at = command.index("-o")
        commands.append(command[:1] + ["-w", f"-I{folder}"] + command[1:at] + [*options] + command[at:])
    program = folder / "program"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda command: run(command, cwd=build), commands))
    link = link.replace(f"-o {target}", " ".join([*options, "-o", str(program)]))
    results.append(run(link, cwd=build, shell=True))
    for each in results:
        if each.returncode != 0:
            sys.exit(f"{' '.join(compiled)}: does not build: {each.stdout[-2000:]}")
    return program
