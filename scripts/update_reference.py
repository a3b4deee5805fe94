"""Write what the documentation takes from the code: the commands page and the lists of the catalog page."""

from pathlib import Path
from typing import Any

import typer.main
from generated import markdown_table, replace_part

from sightline.catalog import KINDS, entry, names
from sightline.cli.app import command_line

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Rewrite the generated parts."""
    replace_part(DOCS / "commands.md", "commands", commands())
    replace_part(DOCS / "catalog.md", "entries", entries())
    replace_part(DOCS / "scenario.md", "frameworks", frameworks())
    replace_part(DOCS / "scenario.md", "engines", engines())


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


def _offers(kind: str, heading: str) -> str:
    rows = []
    for name in names(kind):
        fields = entry(kind, name)
        offers = "; ".join(
            f"`{key}`: {', '.join(map(str, values)) or 'none'}" for key, values in fields.get("offers", {}).items()
        )
        defaults = ", ".join(f"`{key}: {value}`" for key, value in fields.get("defaults", {}).items())
        versions = ", ".join(f"`{version}`" for version in fields.get("versions", {}))
        rows.append([f"`{name}`", versions or "-", offers or "everything", defaults or "-"])
    return markdown_table([heading, "versions", "offers", "defaults"], rows)


if __name__ == "__main__":
    main()
