"""`python -m towers`, and the command `towers` of an installed wheel: becomes the program."""

import os
import shutil
import sys

from ._program import Error, program


def main() -> None:
    try:
        path = program()
        os.execv(path, [_name(path)] + sys.argv[1:])
    except (Error, OSError) as error:
        print(f"towers: {error}", file=sys.stderr)
        sys.exit(1)


def _name(path: str) -> str:
    """What the program calls itself in the commands that it suggests."""
    called = sys.argv[0]
    if os.path.basename(called) != "towers":  # python -m towers
        return path
    found = shutil.which("towers")
    return "towers" if found is not None and os.path.samefile(found, called) else called


if __name__ == "__main__":
    main()
