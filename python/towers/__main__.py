"""`python -m towers`, and the command `towers` of an installed wheel: becomes the program."""

import os
import sys

from ._program import Error, program


def main() -> None:
    try:
        path = program()
        os.execv(path, ["towers"] + sys.argv[1:])
    except (Error, OSError) as error:
        print(f"towers: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
