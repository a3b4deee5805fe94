"""``sightline catalog``: what is known, with sources."""

from typing import Annotated, Any

import typer

from sightline.cli import completion, output
from sightline.cli.next_step import try_next
from sightline.cli.options import AsJson, RunStore
from sightline.errors import InputError

ANCHORS = "anchors"
"""The kind of entries that users make."""

_Kind = Annotated[
    str | None,
    typer.Argument(metavar="[KIND]", help="Category to list.", show_default=False, autocompletion=completion.kinds),
]
_Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Entry to show.", show_default=False, autocompletion=completion.names),
]


def catalog(
    kind: _Kind = None,
    name: _Name = None,
    as_json: AsJson = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the anchor NAME.")] = False,
    store: RunStore = None,
) -> None:
    """List models, devices, prices, technologies, frameworks, calibrations and published results, with sources.

    `sightline catalog anchors` lists the anchors saved with --save-anchor and their corrections.

    \b
    Examples:
      sightline catalog
      sightline catalog devices
      sightline catalog devices a100-sxm-80gb
      sightline catalog models --json
      sightline catalog memories hbm3e
      sightline catalog anchors our-cluster
      sightline catalog anchors our-cluster --delete
    """
    if kind is not None and kind.lower() in (ANCHORS, ANCHORS.removesuffix("s")):
        _anchors(name, store, as_json=as_json, delete=delete)
        return
    if delete or store is not None:
        raise InputError("--delete and --store apply only to anchors; try `sightline catalog anchors NAME --delete`")
    from sightline.catalog import KINDS, entry, kind_of, name_of, names, said_of
    from sightline.profile.results import stamped

    if kind is None:
        listing = {k: list(names(k)) for k in KINDS}
        output.show(lambda: listing, lambda: [_answers().kinds_outline(listing)], json=as_json)
        _go_on(as_json, "catalog", "devices")
        return
    of = kind_of(kind, (ANCHORS,))
    if name is not None:
        if remark := said_of(of, name):
            output.print_remark(remark)
        name = name_of(of, name)
        one = dict(entry(of, name))
        document = stamped({"kind": of, "name": name, **one})
        output.show(lambda: document, lambda: [_answers().entry_outline(of, name, one)], json=as_json)
        _go_on(as_json, *_use(of, name))
    else:
        several = {n: dict(entry(of, n)) for n in names(of)}
        documents = lambda: [stamped({"name": n, **fields}) for n, fields in several.items()]  # noqa: E731 - as above
        output.show(documents, lambda: [_answers().entries_outline(of, several)], json=as_json)
        _go_on(as_json, "catalog", of, next(iter(several)))


def _go_on(as_json: bool, *words: str) -> None:
    if not as_json:
        try_next(*words)


def _use(kind: str, name: str) -> list[str]:
    """Words of a command that uses an entry."""
    use = {"devices": f"cluster=8x {name}", "models": f"model={name}", "clusters": f"cluster={name}"}
    return ["predict", "SCENARIO.yaml", "--set", use[kind]] if kind in use else []


def _anchors(name: str | None, store: str | None, *, as_json: bool, delete: bool) -> None:
    """Show all saved anchors, or show or delete one."""
    from sightline.anchors import listing
    from sightline.anchors.files import delete_anchor, read_anchor
    from sightline.answers.catalog import anchor_outline, anchors_outline
    from sightline.runs import open_store

    opened = open_store(store)
    if delete:
        if name is None:
            raise InputError("--delete requires an anchor name; list them with `sightline catalog anchors`")
        delete_anchor(opened, name)
        output.show(lambda: {"deleted": name}, lambda: [f"deleted anchor '{name}'"], json=as_json)
    elif name is not None:
        one = read_anchor(opened, name)
        output.show(lambda: one, lambda: [anchor_outline(one)], json=as_json)
    else:
        found = listing(store)
        none = f"no anchors in {opened.place}; save one with `sightline predict FILE --anchor RUN --save-anchor NAME`"
        output.show(lambda: found, lambda: [anchors_outline(found) if found else none], json=as_json)


def _answers() -> Any:
    from sightline.answers import catalog

    return catalog
