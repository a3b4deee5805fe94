"""Findings on pre-training: frameworks against each other, memory, and the platforms."""

from collections.abc import Callable, Mapping, Sequence

from sightline.reproduction.answer import Reading, ReproducedTable
from sightline.reproduction.arxiv_2311_03687.settings import A800, RTX_3090, RTX_4090, rate, ratio, trained
from sightline.reproduction.asking import Ask


def a8(ask: Ask) -> list[Reading]:
    """Return whether 7B without techniques is out of memory on both RTX cards."""
    needs = [ask.profile(trained(card, "N")) for card in (RTX_4090, RTX_3090)]
    agree = sum(not one.fits for one in needs) / len(needs)
    gib = " and ".join(f"{one.memory_bytes['total'] / 2**30:.0f} GiB" for one in needs)
    return [Reading(ours=agree, sentence=f"It needs {gib} on cards of 24 GiB.")]


def a10(ask: Ask) -> list[Reading]:
    """Return the throughput of RTX cards over the A800's, 4-bit weights."""
    a800, ada, ampere = (rate(ask.profile(trained(one, "Q"))) for one in (A800, RTX_4090, RTX_3090))
    shares = [ratio(ada, a800), ratio(ampere, a800)]
    known = [share for share in shares if share is not None]
    # Both have to be in the range: the one farther from its middle is judged.
    ours = max(known, key=lambda share: abs(share - 0.5)) if len(known) == len(shares) else None
    said = " and ".join("does not fit" if share is None else f"{share:.2f}" for share in shares)
    return [Reading(ours=ours, sentence=f"RTX 4090 and RTX 3090 reach {said} of the A800's throughput.")]


FINDINGS: Mapping[str, Callable[[Ask], Sequence[Reading]]] = {"A8": a8, "A10": a10}
TABLES: Mapping[str, Callable[[Ask], ReproducedTable]] = {}
