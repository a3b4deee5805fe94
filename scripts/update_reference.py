"""Write what the documentation takes from the code: the commands, the lists of the catalog, the sentences of a check."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main
from generated import markdown_table, replace_part

from sightline.catalog import KINDS, entry, names
from sightline.cli.app import command_line
from sightline.frameworks import read_engine, read_framework
from sightline.frameworks.choices import choices_of
from sightline.loading import read_all
from sightline.report.requirements import requirements_lines
from sightline.requirements.check import check

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Rewrite the generated parts."""
    replace_part(DOCS / "commands.md", "commands", commands())
    replace_part(DOCS / "catalog.md", "entries", entries())
    replace_part(DOCS / "scenario.md", "frameworks", frameworks())
    replace_part(DOCS / "scenario.md", "engines", engines())
    replace_part(DOCS / "checking.md", "checked", checked())


def commands() -> str:
    """Return a section per command: what it does, its arguments and options, examples."""
    group: Any = typer.main.get_command(command_line())
    return "\n\n".join(_command(name, command) for name, command in all_commands(group).items())


def all_commands(group: Any, prefix: str = "") -> dict[str, Any]:
    """Return the commands of a group by name, those of groups within it as ``group command``."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found |= {prefix + name: command} if inner is None else all_commands(command, f"{prefix}{name} ")
    return found


def _command(name: str, command: Any) -> str:
    text, _, examples = command.help.partition("\b")
    example_lines = [line.strip() for line in examples.splitlines() if line.strip().startswith(("sightline", "cat"))]
    rows = [[_spelling(parameter), parameter.help or ""] for parameter in command.params]
    rows.append(["`-h`, `--help`", "Show help and exit."])
    table = markdown_table(["argument or option", "meaning"], rows)
    block = "```text\n" + "\n".join(example_lines) + "\n```"
    return f"## sightline {name}\n\n{text.strip()}\n\n{table}\n\n{block}"


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`"
    names_of_it = ", ".join(f"`{option}`" for option in parameter.opts)
    return names_of_it if parameter.is_flag else f"{names_of_it} `{parameter.metavar}`"


def entries() -> str:
    """Return the names of all entries by kind."""
    return "\n\n".join(
        f"**{kind}** ({len(names(kind))}): " + ", ".join(f"`{n}`" for n in names(kind)) for kind in KINDS
    )


def frameworks() -> str:
    """Return what each framework of training offers and takes by default."""
    return _offers("frameworks", "framework")


def engines() -> str:
    """Return what each engine of generation offers and takes by default."""
    return _offers("engines", "engine")


def checked() -> str:
    """Return what the page on checks prints for its first requirements."""
    loaded = read_all([DOCS.parent / "examples" / "llama-2-7b-zero2-8xa800.yaml"])
    lines = requirements_lines([check(scenario, "fits,mfu>=0.15") for scenario in loaded.scenarios])
    return "```text\n" + "\n".join(lines) + "\n```"


def _offers(kind: str, heading: str) -> str:
    rows = []
    for name in names(kind):
        versions = ", ".join(f"`{version}`" for version in entry(kind, name).get("versions", {}))
        offers = "; ".join(_by_version(kind, name, "offers", lambda key, values: f"`{key}`: {_listed(values)}"))
        defaults = ", ".join(_by_version(kind, name, "defaults", lambda key, value: f"`{key}: {value}`"))
        rows.append([f"`{name}`", versions or "-", offers or "everything", defaults or "-"])
    return markdown_table([heading, "versions", "offers", "defaults"], rows)


def _by_version(kind: str, name: str, field: str, written: Callable[[str, Any], str]) -> Iterator[str]:
    """Each key of a field as the newest version has it, and behind it what the versions that differ have."""
    newest = _behavior(kind, name, "", field)
    older = {version: _behavior(kind, name, version, field) for version in entry(kind, name).get("versions", {})}
    for key in dict.fromkeys((*newest, *(key for stated in older.values() for key in stated))):
        others: dict[str, list[str]] = {}
        for version, stated in older.items():
            if stated.get(key) != newest.get(key):
                others.setdefault(_listed(stated[key]) if key in stated else "not offered", []).append(f"`{version}`")
        differing = "; ".join(f"{', '.join(versions)}: {values}" for values, versions in others.items())
        now = written(key, newest[key]) if key in newest else f"`{key}`: not offered"
        yield f"{now} ({differing})" if differing else now


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


if __name__ == "__main__":
    main()
