"""Each shell and Python script can be parsed, also those that run only where PyTorch or a card is.
Usage: scripts.py SOURCE
"""
import pathlib
import subprocess
import sys

source = pathlib.Path(sys.argv[1])
count, errors = 0, []
for folder in [".ci", "cmake", "docs", "python", "tests"]:
    for path in sorted((source / folder).rglob("*")):
        if not path.is_file():
            continue
        with path.open("rb") as file:
            first = file.readline(100)
        name = path.relative_to(source).as_posix()
        if path.suffix == ".py" or first.startswith(b"#!") and b"python" in first:
            try:
                compile(path.read_bytes(), name, "exec")
            except SyntaxError as error:
                errors.append(f"{name}:{error.lineno}: {error.msg}")
        elif path.suffix in (".sh", ".bash") or first.startswith(b"#!") and first.rstrip().endswith(b"sh"):
            shell = "bash" if path.suffix == ".bash" or b"bash" in first else "sh"
            parsed = subprocess.run([shell, "-n", path], capture_output=True, text=True)
            if parsed.returncode != 0:
                errors.append(f"{name}: {parsed.stderr.strip()}")
        else:
            continue
        count += 1
if errors:
    sys.exit("\n".join(errors))
print(f"{count} scripts can be parsed")
