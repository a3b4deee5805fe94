"""The parts of a calibration: how shipped entries are made, and which parts anybody's tables can be fitted to."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from sightline.calibration.manifest import Read, Stated, manifest, samples
from sightline.calibration.parts import collective_entries, elementwise, grouped, matmul
from sightline.calibration.parts.attention import attention_entries, linear_entries, sparse_entries
from sightline.calibration.parts.part import Entry, Part
from sightline.calibration.parts.serving_attention import DECODE, LATENT, PREFILL, serving_entries, serving_part
from sightline.errors import InputError, nearest

PARTS: Mapping[str, Part] = {
    "matmul": matmul.MATMUL,
    PREFILL: serving_part(PREFILL, least=24),
    DECODE: serving_part(DECODE, least=24),
    LATENT: serving_part(LATENT, least=16),
    "elementwise": elementwise.ELEMENTWISE,
    "collectives": collective_entries.COLLECTIVES,
    "grouped": grouped.GROUPED,
}
"""By name, one line per part that tables can be fitted to."""

SHIPPED: Mapping[str, Callable[[Stated, Read], dict[str, Entry]]] = {
    "matmul": matmul.matmul_entries,
    "attention": attention_entries,
    **{part: partial(serving_entries, part) for part in (PREFILL, DECODE, LATENT)},
    "grouped": grouped.grouped_entries,
    "elementwise": elementwise.elementwise_entries,
    "linear": linear_entries,
    "sparse": sparse_entries,
    "collectives": collective_entries.collective_entries,
}
"""By name of a part, what makes its shipped entries from a manifest and the samples of the tables that it names."""


def shipped_entries(part: str, data: Path) -> dict[str, Entry]:
    """Return a part's shipped calibrations by family, made again from the tables under ``data``.

    Raises:
        InputError: a table is not there.
    """
    return SHIPPED[part](manifest(part), partial(samples, data, part))


ATTENTION = "attention"
"""Stands for the parts of serving engines' attention together."""


def parts_named(name: str | None) -> tuple[str, ...]:
    """Return the parts that a request names: all without a name.

    Raises `InputError` for one that nothing is fitted to.
    """
    if name is None:
        return tuple(PARTS)
    named = tuple(part for part in PARTS if name == part or (name == ATTENTION and part.endswith(ATTENTION)))
    if not named:
        known = [ATTENTION, *PARTS]
        raise InputError(f"unknown part '{name}'{nearest(name, known)}; allowed: {', '.join(known)}")
    return named
