"""What goes wrong, in one line each."""

import re


def plain(text, most=1000):
    """One line of at most so many characters. A file's names and a library's messages may have control codes, which a
    terminal would obey."""
    text = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", str(text))  # colours
    return "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))[:most]


class NotExpressible(Exception):
    """A model, or one of its nodes, that a recipe cannot express. The message is one line."""

    def __init__(self, message):
        super().__init__(plain(message))


class Differs(NotExpressible):
    """A recipe that does not compute what the model does."""


class CannotImport(Exception):
    """A wrong command line, or a file that cannot be used. The message is one line."""


class CannotCheck(Exception):
    """Why an import is not checked by numbers."""
