"""README.md and docs/ name only what is there: files, and the files and headings to which they link. docs/architecture.md
names only functions and types that are there, and every folder of the engine.
Usage: documents.py SOURCE
"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
documents = [source / "README.md", *sorted((source / "docs").glob("*.md"))]
folders = ["apps", "backends", "cmake", "docs", "engine", "python", "shaders", "tests"]  # others are the reader's
files = [path for folder in folders for path in (source / folder).rglob("*") if path.is_file()]
names = {path.name for path in files}
of_code = (".h", ".cpp", ".def", ".comp", ".cu")
words = {word for path in files if path.suffix in (*of_code, ".txt") for word in re.findall(r"\w+", path.read_text())}


def prose_of(document):
    return re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors_in(document):
    """The anchors that GitHub makes of headings."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", prose_of(document), re.MULTILINE)}


def files_of(path):
    """`a.{h,cpp}` as its files."""
    braces = re.search(r"\{([^}]*)\}", path)
    return [path.replace(braces[0], end) for end in braces[1].split(",")] if braces else [path]


errors = []
for document in documents:
    text = prose_of(document)
    wrong = []
    for link in re.findall(r"\]\(([^)\s]*)\)", text):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if "://" not in link and not (target.exists() and (not anchor or anchor in anchors_in(target))):
            wrong.append(f"{link} leads nowhere")
    for span in re.findall(r"`([^`\n]+)`", text):
        for file in sum(map(files_of, re.findall(r"[\w.*{},/+-]+", span)), []):
            known = any(source.glob(file)) if file.split("/")[0] in folders and "/" in file else \
                "/" in file or not file.endswith(of_code) or file in names
            if not known and "NAME" not in file:  # which stands for any name
                wrong.append(f"there is no file {file}")
        if document.name == "architecture.md":
            wrong += [f"there is no {word} in the code" for word in re.findall(r"[a-z]\w*_\w+|[A-Z]\w*[a-z]\w*", span)
                      if "NAME" not in word and word not in words and not any(word in name for name in names)]
    if document.name == "architecture.md":
        wrong += [f"it lacks the folder {path.name}" for path in (source / "engine").iterdir()
                  if path.is_dir() and f" {path.name}/ " not in document.read_text()]
    errors += [f"{document.relative_to(source)}: {each}" for each in wrong]
if errors:
    sys.exit("\n".join(errors))
print(f"{len(documents)} documents name only what is there")
