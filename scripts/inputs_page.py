"""Write docs/inputs.md and docs/inputs/keys.csv from the tables by which the inputs of others are read.

    python scripts/inputs_page.py

Lists of tools, releases, keys and reasons are those that readers use, and nobody types one by hand.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from generated import csv_text, markdown_table, replace_part

import sightline
from sightline.catalog.yaml12 import parse
from sightline.launching.engines.dialect import Dialect
from sightline.launching.readers import Reader, reader
from sightline.launching.registry import ENGINE_WRITERS
from sightline.launching.training.stacks import stacks
from sightline.loading.models.family import families, spellings
from sightline.loading.traces.clients import clients
from sightline.loading.traces.shapes import SHAPES

DOCS = Path(__file__).parents[1] / "docs"
PAGE, TABLE = DOCS / "inputs.md", DOCS / "inputs" / "keys.csv"
PACKAGE = Path(sightline.__file__).parent
TRAINING: Mapping[str, str] = {
    "megatron": "a command or script of `pretrain_gpt.py`",
    "deepspeed": "`ds_config.json`, or a command that names it",
    "accelerate": "its YAML, or `accelerate launch`",
    "trainer": "TrainingArguments as JSON or as a command",
    "torchtitan": "its TOML, or a command that names it",
    "launcher": "what starts the processes of any of them",
}
"""What is taken of each tool that trains, by its reader."""

UNREAD = "it may decide shapes; other keys that are not read are named and lower the evidence"
"""Why a key of a model's structure is refused."""


def main() -> None:
    """Write the page's parts and the table of keys."""
    for name, text in parts().items():
        replace_part(PAGE, name, text)
    TABLE.write_text(keys(), encoding="utf-8")


def parts() -> dict[str, str]:
    """Return the page's parts by name."""
    return {"engines": engines(), "training": training(), "refused": refused(), "models": models(), "loads": loads()}


def dialects() -> Iterator[Dialect]:
    """Yield what each engine's module says of its commands."""
    from importlib import import_module

    for module in ENGINE_WRITERS.values():
        yield import_module(f"sightline.launching.{module}").DIALECT


def engines() -> str:
    """Return the engines, whose commands are read."""
    rows = []
    for dialect in dialects():
        programs = [f"`{' '.join(words)}`" for words in dialect.programs]
        image = [f"image `{dialect.image}`"] if dialect.image else []
        files = [f"file of `--{name}`" for name in dialect.files]
        begin = dialect.prefix or dialect.prefix_of_options
        variables = [f"variables `{begin}*`" if begin else "variables named after options"]
        given = variables if begin is not None and (begin or dialect.prefix_of_options == "") else []
        rows.append([*_counts(reader(dialect.engine)), ", ".join([*programs, *image, *files, *given])])
    return markdown_table(["tool", "release", "harmless", "named", "read from"], rows)


def training() -> str:
    """Return the tools that train, whose files and commands are read."""
    rows = [[*_counts(reader(name)), taken] for name, taken in TRAINING.items()]
    for stack in stacks():
        harmless = {key for text in stack.harmless.values() for key in text.split()}
        rows.append([stack.name, str(stack.release), str(len(harmless)), "all others", f"its YAML, `{stack.commands}`"])
    return markdown_table(["tool", "release", "harmless", "named", "read from"], rows)


def _counts(lists: Reader) -> list[str]:
    return [lists.tool, str(lists.release), str(len(lists.reasons)), str(len(lists.effects))]


def refused() -> str:
    """Return what of each tool is refused, and the tools that are not read."""
    rows = [
        [tool, "; ".join(dict.fromkeys(reason for words in listed.values() for reason in words.values() if reason))]
        for tool, listed in refusing()
        if listed
    ]
    others = parse((PACKAGE / "launching/training/stacks.yaml").read_text(encoding="utf-8"))["_not_read"]
    table = markdown_table(["tool", "not predicted"], rows)
    return f"{table}\n\nRecognized and not read: {', '.join(others)}."


def refusing() -> Iterator[tuple[str, Mapping[str, Mapping[Any, str]]]]:
    """Yield every tool with the words of its keys that are refused."""
    for name in (*(dialect.engine for dialect in dialects()), *TRAINING):
        yield reader(name).tool, reader(name).refused
    for stack in stacks():
        yield stack.name, stack.refused


def _reasons(words: Mapping[Any, str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, words.values())))


def models() -> str:
    """Return what no model is predicted with."""
    stated = parse((PACKAGE / "loading/models/families.yaml").read_text(encoding="utf-8"))
    named = stated.get("_refused", {})
    rows = [[f"`{key}`", foreign["is"]] for key, foreign in spellings().foreign.items()]
    rows += [[f"`{names}`", reason] for reason, names in named.items()]
    rows += [[f"classes for `{names}`", reason] for reason, names in stated.get("_refused_tasks", {}).items()]
    rows.append(["numbers, lists or mappings under a key of layers, heads, experts, windows or quantization", UNREAD])
    known = f"{len(families())} values of `model_type` are known, and {len(spellings().harmless)} keys are harmless."
    return "\n\n".join([known, markdown_table(["key or family", "not predicted"], rows)])


def loads() -> str:
    """Return the tables and results that requests are read from."""
    rows = [[shape.name or "our own trace", shape.usual] for shape in SHAPES]
    for client in clients():
        read = [*client.columns, *client.load, *client.figures]
        rows.append([client.name, ", ".join(dict.fromkeys(read))])
    return markdown_table(["file", "what is read"], rows)


def keys() -> str:
    """Return every listed key of every tool with its reason."""
    models = spellings()
    columns = parse((PACKAGE / "loading/traces/columns.yaml").read_text(encoding="utf-8"))
    rows = []
    for name in (*(dialect.engine for dialect in dialects()), *TRAINING):
        lists = reader(name)
        rows += [[lists.tool, key, "harmless", why] for key, why in lists.reasons.items()]
        rows += [[lists.tool, key, "named", what] for key, what in lists.effects.items()]
    for stack in stacks():
        rows += [[stack.name, key, "harmless", why] for why, text in stack.harmless.items() for key in text.split()]
    rows += [[tool, key, "refused", _reasons(words)] for tool, listed in refusing() for key, words in listed.items()]
    rows += [["models", key, "harmless", why] for key, why in models.harmless.items()]
    rows += [["models", key, "harmless", f"it repeats {text}"] for key, text in models.repeats.items()]
    rows += [["tables of requests", key, "harmless", why] for why, text in columns.items() for key in text.split()]
    return csv_text(["tool", "key", "is", "reason"], rows)


if __name__ == "__main__":
    main()
