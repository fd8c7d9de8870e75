"""Includes between folders point one way: apps -> engine -> backends -> shaders, and without circles inside the engine.
Usage: folders.py SOURCE     prints each folder of the engine with those that it includes, the lowest first
"""
import collections
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
layers = ["shaders", "backends", "engine", "apps"]  # each may include only itself and earlier ones
include = re.compile(r'^\s*#\s*include\s+"((?:' + "|".join(layers) + r')/[^"]+)"', re.MULTILINE)
errors = []
arrows = collections.defaultdict(lambda: collections.defaultdict(list))  # from folder -> to folder -> includes
for layer in layers:
    for path in sorted((source / layer).rglob("*")):
        if path.suffix not in (".h", ".cpp", ".cu", ".comp", ".def") or not path.is_file():
            continue
        for target in include.findall(path.read_text()):
            name = path.relative_to(source).as_posix()
            if layers.index(target.split("/")[0]) > layers.index(layer):
                errors.append(f"{name} includes {target}: {layer} must not know {target.split('/')[0]}")
            if layer == "engine" and target.startswith("engine/"):
                # Files directly in engine/ count as a folder named ".".
                own, other = (file.split("/")[1] if file.count("/") > 1 else "." for file in (name, target))
                if own != other:
                    arrows[own][other].append(f"{name} includes {target}")
                arrows[other]

# Prints folders that include only folders printed before; what remains is in a circle or above one.
left = dict(arrows)
while ready := sorted(folder for folder, others in left.items() if not set(others) & set(left)):
    for folder in ready:
        print(f"{folder} -> {', '.join(sorted(left.pop(folder))) or 'nothing'}")
while free := [folder for folder in left if not any(folder in others for others in left.values())]:
    for folder in free:
        left.pop(folder)
for folder, others in sorted(left.items()):
    for other in sorted(set(others) & set(left)):
        errors.append(f"in a circle: {others[other][0]}")
if errors:
    sys.exit("\n".join(errors))
print(f"{len(arrows)} folders, {sum(len(others) for others in arrows.values())} arrows, no circle")
