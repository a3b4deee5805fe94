"""The command that asks what was asked, to which suggestions are added as options."""

import shlex
from collections.abc import Mapping, Sequence
from os import PathLike

from sightline.loading.loader import Overrides, read_overrides
from sightline.loading.sources import as_options
from sightline.planning.requests.spaces import cluster_of


def plan_command(
    source: object,
    overrides: Overrides,
    devices: Sequence[str],
    prices: Mapping[str, float],
    options: Mapping[str, object],
) -> str:
    """Return the command of a source with its options; devices are a setting, which a later one replaces.

    An option that is None or False is left out, one that is True has no value.
    """
    named = isinstance(source, PathLike) or (isinstance(source, str) and "\n" not in source and source != "-")
    file = shlex.quote(str(source)) if named else "FILE"
    words = ["sightline plan", file, *as_options({**read_overrides(overrides), **cluster_of(devices)})]
    stated = {f"--{name}": value for name, value in options.items() if value is not None and value is not False}
    words += [name if value is True else f"{name} {shlex.quote(str(value))}" for name, value in stated.items()]
    words += [f"--price {shlex.quote(f'{name}={price:g}')}" for name, price in prices.items()]
    return " ".join(words)
