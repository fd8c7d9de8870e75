#!/usr/bin/env python3
"""Prints which lines of backends/cuda the tests on emulated cards execute, as GCC's gcov counts them.
Usage: coverage.py BUILD [PERCENT]
BUILD: a build folder of Ninja's with conformance_on_emulated_cuda, built by GCC.
The exit code is 1 if the tests fail or execute less than PERCENT (100) of the lines."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from rebuild import rebuild, sources

files = ["cuda_backend.cpp", "functions.cpp", "graph.cpp", "runtime.h"]
# Tests that are quick and execute what the others do.
tests = ["--source-file=*/contract/*,*/variants.cpp,*/emulated_cuda/*", "--test-case=sums that are split*,sgd*"]


def main():
    build, least = pathlib.Path(sys.argv[1]).resolve(), float((sys.argv[2:] or ["100"])[0])
    lines = {}  # (file, number): how often it was executed
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sources_compiled = [file for file in files if file.endswith(".cpp")]
        program = rebuild(build, folder, [f"backends/cuda/{file}" for file in sources_compiled], ["--coverage", "-O0"])
        for each in tests:
            subprocess.run([program, each], check=True, stdout=subprocess.DEVNULL,
                           env=dict(os.environ, VK_DRIVER_FILES="/nonexistent"))
        for source in sources_compiled:
            data = folder / source.replace(".cpp", ".gcda")
            told = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=folder, check=True,
                                  stdout=subprocess.PIPE).stdout
            for file in json.loads(told)["files"]:
                path = pathlib.Path(file["file"])
                if path.parent.name != "cuda" or path.name not in files:
                    continue
                for line in file["lines"]:
                    key = path.name, line["line_number"]
                    lines[key] = lines.get(key, 0) + line["count"]
    for file in files:
        all_lines = {number: count for (where, number), count in lines.items() if where == file}
        missed = sorted(number for number, count in all_lines.items() if count == 0)
        print(f"backends/cuda/{file}: {len(all_lines) - len(missed)} of {len(all_lines)} lines executed")
        text = (sources / "backends/cuda" / file).read_text().splitlines()
        for number in missed:
            print(f"{number:6}: {text[number - 1]}")
    executed = 100 * sum(count > 0 for count in lines.values()) / len(lines)
    print(f"{executed:.1f} % of {len(lines)} lines")
    sys.exit(1 if executed < least else 0)


main()
