"""``sightline catalog``: what is known, with sources."""

from typing import Annotated, Any

import typer

from sightline.cli import output
from sightline.cli.options import AsJson
from sightline.errors import InputError, nearest


def catalog(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="Kind of entries.", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One entry.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the models, devices, links, frameworks, calibrations and published results of the catalog.

    \b
    Examples:
      sightline catalog
      sightline catalog devices
      sightline catalog devices a100-sxm-80gb
      sightline catalog models --json
    """
    from sightline.catalog import KINDS, entry, names

    if kind is None:
        _show_kinds({k: names(k) for k in KINDS}, as_json)
        return
    known_kind = _kind(kind, KINDS)
    if name is not None:
        _show_entry(known_kind, name, dict(entry(known_kind, name)), as_json)
    else:
        _show_list(known_kind, {n: dict(entry(known_kind, n)) for n in names(known_kind)}, as_json)


def _kind(kind: str, kinds: tuple[str, ...]) -> str:
    """Return the kind, which may be asked for in the singular."""
    for spelling in (kind.lower(), f"{kind.lower()}s"):
        if spelling in kinds:
            return spelling
    raise InputError(f"unknown kind '{kind}'{nearest(kind, kinds)}; kinds are {', '.join(kinds)}")


def _show_kinds(listing: dict[str, tuple[str, ...]], as_json: bool) -> None:
    if as_json:
        output.print_json({kind: list(entries) for kind, entries in listing.items()})
        return
    from sightline.report.terminal.catalog import kinds_table

    output.print_table(kinds_table(listing))


def _show_list(kind: str, entries: dict[str, dict[str, Any]], as_json: bool) -> None:
    if as_json:
        from sightline.profile.results import plain

        output.print_json([{"name": name, **plain(fields)} for name, fields in entries.items()])
        return
    from sightline.report.terminal.catalog import entries_table

    output.print_table(entries_table(kind, entries))


def _show_entry(kind: str, name: str, fields: dict[str, Any], as_json: bool) -> None:
    if as_json:
        from sightline.profile.results import plain

        output.print_json({"kind": kind, "name": name, **plain(fields)})
        return
    from sightline.report.terminal.catalog import entry_table

    output.print_table(entry_table(name, fields, _meaning(kind, name)))


def _meaning(kind: str, name: str) -> list[tuple[str, str]]:
    """What an entry is read as, where its own keys say it only to those who know the family."""
    if kind != "models":
        return []
    from pathlib import Path

    from sightline.loading.models import resolve_model
    from sightline.report.terminal.catalog import model_rows

    return list(model_rows(resolve_model(name, Path()).model))
