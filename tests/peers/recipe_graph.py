"""A recipe of towers as a graph of layers, for recipe_network.py. Written apart from the trainer, after docs/recipes.md."""

import os
import re
import tomllib
from collections import ChainMap

BUILT_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/recipes")
IMAGES = -1  # stands for the index of a node


def read_recipe(name, changes=()):
    """A file's or a built-in recipe's tables, changed as `towers train --set` does."""
    path = name if os.path.isfile(name) else os.path.join(BUILT_IN, name + ".toml")
    with open(path, "rb") as file:
        recipe = tomllib.load(file)
    for change in changes:
        key, _, value = change.partition("=")
        if re.fullmatch(r"(?!true$|false$|inf$|nan$)[A-Za-z][\w-]*", value):
            value = f'"{value}"'  # a shell takes away the quotes around a word
        merge(recipe, tomllib.loads(f"{key}={value}"))
    return recipe


def merge(into, tables):
    for key, value in tables.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def filled(value, parameters):
    """With parameters in place of "$key"; what stands in "layers" is filled in by the block."""
    if isinstance(value, str) and value.startswith("$"):
        return parameters[value[1:]]
    if isinstance(value, list):
        return [filled(each, parameters) for each in value]
    if isinstance(value, dict):
        return {key: each if key == "layers" else filled(each, parameters) for key, each in value.items()}
    return value


class Node:
    def __init__(self, name, kind, inputs, table):
        self.name, self.kind, self.inputs, self.table = name, kind, inputs, table


class Graph:
    """`nodes`, each behind those that it takes."""

    def __init__(self, recipe):
        self.recipe, self.nodes = recipe, []
        names = ChainMap({"images": IMAGES, "input": IMAGES})
        self.expand(recipe["network"]["layers"], "", names, ChainMap({"classes": recipe["input"]["classes"]}), IMAGES)

    def expand(self, layers, prefix, names, parameters, last):
        """Adds the layers; returns the last one's index."""
        for entry in layers:
            entry = filled(entry, parameters)
            sources = entry.get("inputs", entry.get("input", []))
            sources = [names[each] for each in ([sources] if isinstance(sources, str) else sources)] or [last]
            if not entry.get("when", True):
                names[entry.get("name")] = sources[0]
                continue
            name = entry.get("name") or self.free_name(entry["kind"], names)
            if "use" in entry or "layers" in entry:
                last = self.expand_block(entry, prefix, names, parameters, sources[0])
            else:
                table = {**self.recipe.get("defaults", {}).get(entry["kind"], {}), **entry}
                last = self.append(prefix + name, entry["kind"], sources, table)
                activation = table.get("activation", "none")
                if activation != "none":
                    last = self.append(f"{prefix}{name}/{activation}", activation, [last], {})
            names[name] = last
        return last

    def expand_block(self, entry, prefix, names, parameters, taken):
        block = self.recipe["blocks"][entry["use"]] if "use" in entry else entry
        repeated = "each" in entry or "repeat" in entry
        for number, each in enumerate(entry.get("each", [{}] * entry.get("repeat", 1)), 1):
            inner = parameters.new_child({"round": number, "first": number == 1, **block, **entry, **each})
            within = f"{prefix}{entry['name']}/" + (f"{number}/" if repeated else "")
            taken = self.expand(block["layers"], within, names.new_child({"input": taken}), inner, taken)
        return taken

    def append(self, *node):
        self.nodes.append(Node(*node))
        return len(self.nodes) - 1

    @staticmethod
    def free_name(kind, names):
        number = 1
        while f"{kind}{number}" in names.maps[0]:
            number += 1
        return f"{kind}{number}"
