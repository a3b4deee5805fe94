"""Write what the documentation takes from the code: the commands, the lists of the catalog, the sentences of a check."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from textwrap import fill
from typing import Any

import typer.main
from generated import csv_text, markdown_table, replace_part

from sightline.answers.requirements import requirements_lines
from sightline.catalog import KINDS, entry, names
from sightline.cli.app import command_line
from sightline.frameworks import read_engine, read_framework
from sightline.frameworks.choices import choices_of
from sightline.loading import read_all
from sightline.loading.schema import reference, schema
from sightline.requirements.check import check
from sightline.scenario import Generate, GenerationPlan, Plan, Pretrain, Serve

DOCS = Path(__file__).parents[1] / "docs"
OFFERS = DOCS / "offers.csv"
SCHEMA = DOCS / "scenario.schema.json"
WIDTH = 120
"""Characters of a line of text."""
SHARED = 5
"""Commands from which on an option is described once for all."""
LISTED = ("models", "devices", "interconnects", "networks", "hosts", "clusters", "frameworks", "engines")
"""Kinds of entries that scenarios name."""


def main() -> None:
    """Rewrite the generated parts and the table of what frameworks and engines offer."""
    for page, part in PARTS:
        replace_part(DOCS / f"{page}.md", part.__name__, part())
    OFFERS.write_text(offers(), encoding="utf-8")
    SCHEMA.write_text(scenario_schema(), encoding="utf-8")


def commands() -> str:
    """Return the options that many commands share, then a section per command: its own arguments and options, examples."""
    every = all_commands(typer.main.get_command(command_line()))
    counted = Counter(_row(parameter) for command in every.values() for parameter in command.params)
    shared = {row for row, count in counted.items() if count >= SHARED}
    table = markdown_table(["option", "meaning"], [list(row) for row in counted if row in shared])
    intro = f"## Options of many commands\n\n{table}\n\n`-h` or `--help` shows the help of any command."
    return "\n\n".join([intro, *(_command(name, command, shared) for name, command in every.items())])


def all_commands(group: Any, prefix: str = "") -> dict[str, Any]:
    """Return the commands of a group by name, those of groups within it as ``group command``."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found |= {prefix + name: command} if inner is None else all_commands(command, f"{prefix}{name} ")
    return found


def _command(name: str, command: Any, shared: Collection[tuple[str, str]]) -> str:
    text, _, examples = command.help.partition("\b")
    lines = [line.strip() for line in examples.splitlines() if line.strip().startswith(("sightline", "cat"))]
    rows = [_row(parameter) for parameter in command.params]
    own = [list(row) for row in rows if row not in shared]
    paragraphs = (
        fill(one, WIDTH, break_long_words=False, break_on_hyphens=False) for one in text.strip().split("\n\n")
    )
    parts = [f"## sightline {name}", *paragraphs]
    if own:
        parts.append(markdown_table(["argument or option", "meaning"], own))
    if also := [spelling.partition("` `")[0].strip("`") for spelling, _ in rows if (spelling, _) in shared]:
        parts.append(f"Also: {_quoted(also)}.")
    return "\n\n".join([*parts, "```text\n" + "\n".join(lines) + "\n```"])


def _row(parameter: Any) -> tuple[str, str]:
    """How an argument or option is written, and what it means."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`", parameter.help or ""
    spelling = _quoted((*parameter.opts, *parameter.secondary_opts))
    takes = "" if parameter.is_flag else f" `{parameter.metavar or parameter.type.name.upper()}`"
    return spelling + takes, parameter.help or ""


def entries() -> str:
    """Return the names of the entries that scenarios name, and how many there are of the other kinds."""
    listed = [f"**{kind}** ({len(names(kind))}): {_quoted(names(kind))}" for kind in KINDS if kind in LISTED]
    others = ", ".join(f"{kind} ({len(names(kind))})" for kind in KINDS if kind not in LISTED)
    return "\n\n".join([*listed, f"Other kinds: {others}. `sightline catalog KIND` lists their names."])


def training_workload() -> str:
    """Return the keys of ``workload`` of training."""
    return _keys(Pretrain)


def generation_workload() -> str:
    """Return the keys of ``workload`` of generation."""
    return _keys(Generate)


def serving_workload() -> str:
    """Return the keys of ``workload`` of serving."""
    return _keys(Serve)


def training_plan() -> str:
    """Return the keys of ``plan`` of training."""
    return _keys(Plan)


def generation_plan() -> str:
    """Return the keys of ``plan`` of generation and serving."""
    return _keys(GenerationPlan)


def _keys(description: type) -> str:
    rows = [list(row) for row in reference(description, defaults=description not in (Plan, GenerationPlan))]
    return markdown_table(["key", "values", "meaning"], rows)


def scenario_schema() -> str:
    """Return the JSON schema of scenario files."""
    return dumps(schema(), indent=1) + "\n"


def frameworks() -> str:
    """Return the release lines of each framework of training."""
    return _release_lines("frameworks", "framework")


def engines() -> str:
    """Return the release lines of each engine of generation."""
    return _release_lines("engines", "engine")


def checked() -> str:
    """Return what the page on checks prints for its first requirements."""
    loaded = read_all([DOCS.parent / "examples" / "llama-2-7b-zero2-8xa800.yaml"])
    lines = requirements_lines([check(scenario, "fits,mfu>=0.15") for scenario in loaded.scenarios])
    return "```text\n" + "\n".join(lines) + "\n```"


def _release_lines(kind: str, heading: str) -> str:
    rows = [[f"`{name}`", _quoted(entry(kind, name).get("versions", {})) or "-"] for name in names(kind)]
    return markdown_table([heading, "release lines"], rows)


def offers() -> str:
    """Return what each framework and engine offers and takes by default, and the release lines that differ."""
    rows = [
        (kind, name, field, *line)
        for kind in ("frameworks", "engines")
        for name in names(kind)
        for field in ("offers", "defaults")
        for line in _by_version(kind, name, field)
    ]
    return csv_text(["kind", "name", "what", "key", "values", "release lines that differ"], rows)


def _by_version(kind: str, name: str, field: str) -> Iterator[tuple[str, str, str]]:
    """Each key of a field, as the newest version has it, and what the versions that differ have."""
    newest = _behavior(kind, name, "", field)
    older = {version: _behavior(kind, name, version, field) for version in entry(kind, name).get("versions", {})}
    for key in dict.fromkeys((*newest, *(key for stated in older.values() for key in stated))):
        others: dict[str, list[str]] = {}
        for version, stated in older.items():
            if stated.get(key) != newest.get(key):
                others.setdefault(_listed(stated[key]) if key in stated else "not offered", []).append(version)
        differing = "; ".join(f"{', '.join(versions)}: {values}" for values, versions in others.items())
        yield key, _listed(newest[key]) if key in newest else "not offered", differing


def _behavior(kind: str, name: str, version: str, field: str) -> Mapping[str, Any]:
    """What a version offers or takes by default; a framework's choices are defaults too, in bf16."""
    if kind == "engines":
        stated: Mapping[str, Any] = getattr(read_engine(name, version), field, {})
        return stated
    framework = read_framework(name, version)
    if field == "offers":
        return framework.offers
    kernels = dict(framework.attention_kernels)
    usual = kernels.pop("default", "flash-2")
    elsewhere = f", {'/'.join(sorted(set(kernels.values())))} on {'/'.join(kernels)}" if kernels else ""
    attention = {"attention_kernel": f"{usual}{elsewhere}"} if "attention_kernel" in framework.offers else {}
    overlap = (
        {} if framework.offers.get("tensor_overlap") == ("none",) else {"tensor_overlap": framework.overlap.tensor}
    )
    return {"attention": "flash", **overlap, **framework.defaults, **choices_of(framework, "bf16"), **attention}


def _listed(values: Any) -> str:
    return (
        ", ".join(map(str, values)) or "none"
        if isinstance(values, tuple | list)
        else "none"
        if values is None
        else str(values)
    )


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


PARTS: Sequence[tuple[str, Callable[[], str]]] = (
    ("commands", commands),
    ("catalog", entries),
    *(("scenario", part) for part in (training_workload, generation_workload, serving_workload)),
    *(("scenario", part) for part in (training_plan, generation_plan)),
    ("scenario", frameworks),
    ("scenario", engines),
    ("checking", checked),
)
"""Pages and the functions that write their parts of the same name."""


if __name__ == "__main__":
    main()
