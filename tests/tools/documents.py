"""README.md and docs/ name only what is there: files, the targets of links, and in docs/architecture.md names of code.
Usage: documents.py SOURCE
"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
documents = [source / "README.md", *sorted((source / "docs").glob("*.md"))]
# Folders of the repository; in others, a document names files of its reader.
folders = [path.name for path in source.iterdir() if path.is_dir() and path.name not in ("build", ".git", ".cache")]
of_code = (".h", ".cpp", ".def", ".comp", ".cu", ".cmake", ".py", ".sh", ".toml", ".js", ".css")
files = [path for folder in folders for path in (source / folder).rglob("*") if path.is_file()]
names = {path.name for path in files}
words = set()
for path in files:
    if path.suffix in of_code and "docs" not in path.parts:
        words.update(re.findall(r"\w+", path.read_text(errors="replace")))


def headings(document):
    """The anchors that GitHub makes of a document's headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def alternatives(path):
    """`a.{h,cpp}` as its files."""
    braces = re.search(r"\{([^}]*)\}", path)
    return [path.replace(braces[0], end) for end in braces[1].split(",")] if braces else [path]


errors = []
for document in documents:
    name = document.relative_to(source)
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)]*)\)", text):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if "://" in link:
            continue
        if not target.exists():
            errors.append(f"{name}: a link to {path}, which is not there")
        elif anchor and anchor not in headings(target):
            errors.append(f"{name}: a link to {link}, but {target.name} has no such heading")
    for span in re.findall(r"`([^`\n]+)`", text):
        for path in re.findall(r"[\w.*{},/+-]+", span):
            if "NAME" in path:  # stands for any
                continue
            for file in alternatives(path):
                if file.split("/")[0] in folders and "/" in file and not any(source.glob(file)):
                    errors.append(f"{name}: `{file}` is not there")
                elif "/" not in file and file.endswith((".h", ".cpp", ".def", ".comp", ".cu")) and file not in names:
                    errors.append(f"{name}: no file is called `{file}`")
        if document.name == "architecture.md":
            for word in re.findall(r"[a-z]\w*_\w+|[A-Z]\w*[a-z]\w*", span):  # names of functions and types
                if word not in words and not any(word in path.stem for path in files):
                    errors.append(f"{name}: no code has the name {word} of `{span}`")
if errors:
    sys.exit("\n".join(errors))
print(f"{len(documents)} documents name {len(files)} files and {len(words)} words rightly")
