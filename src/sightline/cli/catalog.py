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
    from sightline.profile.results import stamped

    if kind is None:
        listing = {k: list(names(k)) for k in KINDS}
        output.show(lambda: listing, lambda: [_report().kinds_table(listing)], json=as_json)
        return
    of = _kind(kind, KINDS)
    if name is not None:
        one = dict(entry(of, name))
        table = lambda: [_report().entry_table(name, one, _meaning(of, name))]  # noqa: E731 - a form like the others
        output.show(lambda: stamped({"kind": of, "name": name, **one}), table, json=as_json)
    else:
        several = {n: dict(entry(of, n)) for n in names(of)}
        documents = lambda: [stamped({"name": n, **fields}) for n, fields in several.items()]  # noqa: E731 - as above
        output.show(documents, lambda: [_report().entries_table(of, several)], json=as_json)


def _report() -> Any:
    from sightline.report.terminal import catalog

    return catalog


def _kind(kind: str, kinds: tuple[str, ...]) -> str:
    """Return the kind, which may be asked for in the singular."""
    for spelling in (kind.lower(), f"{kind.lower()}s"):
        if spelling in kinds:
            return spelling
    raise InputError(f"unknown kind '{kind}'{nearest(kind, kinds)}; kinds are {', '.join(kinds)}")


def _meaning(kind: str, name: str) -> list[tuple[str, str]]:
    """What an entry is read as, where its own keys say it only to those who know the family."""
    if kind != "models":
        return []
    from pathlib import Path

    from sightline.loading.models import resolve_model
    from sightline.report.terminal.catalog import model_rows

    return list(model_rows(resolve_model(name, Path()).model))
