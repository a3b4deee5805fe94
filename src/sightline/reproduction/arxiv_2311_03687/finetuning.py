"""Findings on fine-tuning with LoRA and QLoRA: what the techniques cost and save, and the largest model on 24 GB."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

from sightline.exploration.answer import Column, Figure
from sightline.profile import Profile
from sightline.quantities import GIB, percent
from sightline.reproduction.answer import Choice, Interpretation, ReproducedTable, judged, table, taken
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    ADAPTERS,
    CARDS,
    COMBINED,
    FLASH_ROWS,
    MEMORY,
    MODEL,
    MODELS,
    NAMES,
    OUT_OF_MEMORY,
    ROW,
    SEVEN,
    SEVENTY,
    THIRTEEN,
    THROUGHPUT,
    as_described,
    memory_gib,
    rate,
    rate_in_words,
    ratio,
    trained,
)
from sightline.reproduction.asking import Ask, Findings, Tables

Adapters = Choice[Mapping[str, Any]]


def a18(ask: Ask) -> list[Interpretation]:
    """Return LoRA's throughput over QLoRA's."""
    return [_rates(ask, (adapters,), ("L", adapters), ("QL", adapters)) for adapters in ADAPTERS]


def a19(ask: Ask) -> list[Interpretation]:
    """Return QLoRA's memory over LoRA's."""
    interpretations = []
    for adapters in ADAPTERS:
        gib = [memory_gib(_adapted(ask, A800, techniques, adapters)) for techniques in ("QL", "L")]
        sentence = f"QLoRA needs {gib[0]:.1f} GiB, LoRA {gib[1]:.1f} GiB."
        interpretations.append(Interpretation(choices=taken(adapters), values=[gib[0] / gib[1]], sentence=sentence))
    return interpretations


def a20(ask: Ask) -> list[Interpretation]:
    """Return what FlashAttention adds to LoRA's throughput."""
    return [
        _gain(ask, (adapters, rows), (f"L+F{rows.value}", adapters), (f"L{rows.value}", adapters))
        for adapters, rows in product(ADAPTERS, FLASH_ROWS)
    ]


def a21(ask: Ask) -> list[Interpretation]:
    """Return what ZeRO-2 adds to LoRA's throughput."""
    return [_gain(ask, (adapters,), ("L+Z2", adapters), ("L", adapters)) for adapters in ADAPTERS]


def a22(ask: Ask) -> list[Interpretation]:
    """Return how much slower 13B is than 7B, of LoRA and of QLoRA."""
    interpretations = []
    for adapters in ADAPTERS:
        losses = {}
        for techniques in ("L", "QL"):
            large, small = (rate(_adapted(ask, A800, techniques, adapters, model)) for model in (THIRTEEN, SEVEN))
            share = ratio(large, small)
            losses[techniques] = None if share is None else 1 - share
        told = ", ".join(f"{row} {OUT_OF_MEMORY if loss is None else percent(loss, 1)}" for row, loss in losses.items())
        interpretations.append(
            Interpretation(
                choices=taken(adapters),
                values=list(losses.values()),
                sentence=f"13B is slower than 7B by: {told}.",
            )
        )
    return interpretations


def a23(ask: Ask) -> list[Interpretation]:
    """Return tokens per second of 70B with LoRA, FlashAttention, recomputation, ZeRO-3 and offload on 24 GB cards."""
    interpretations = []
    for adapters, server in product(ADAPTERS, COMBINED):
        card, plan = server.value
        profile = _adapted(ask, card, "L+F+R+Z3+O", adapters, SEVENTY, **plan)
        usable = float(profile.usable_bytes) / GIB
        sentence = f"{NAMES[card]}: {memory_gib(profile):.1f} of {usable:.1f} GiB, {rate_in_words(rate(profile))}."
        choices = taken(server, adapters, *as_described(card))
        interpretations.append(Interpretation(choices=choices, values=[rate(profile)], sentence=sentence))
    return interpretations


def a24(ask: Ask) -> list[Interpretation]:
    """Return the share of the study's statements on techniques that hold."""
    return [_statements(ask, adapters) for adapters in ADAPTERS]


def _statements(ask: Ask, adapters: Adapters) -> Interpretation:
    found = {
        "ZeRO-2 saves memory at no cost in speed": _saves_for_nothing(ask, adapters),
        "ZeRO-3 pays off for larger models: it saves more of ZeRO-2's memory the larger they are, and 70B fits with "
        "ZeRO-3 alone": _pays_off(ask, adapters),
        "offload slows down": _slower(ask, adapters, (("L+Z2+O", "L+Z2"), ("L+Z3+O", "L+Z3"))),
        "recomputation trades speed for memory": _slower(ask, adapters, RECOMPUTED)
        and _smaller(ask, adapters, RECOMPUTED),
    }
    platforms = ", ".join(NAMES[one] for one in _platforms(ask))
    said = f"{len(found)} statements on 7B with LoRA and QLoRA ({platforms}) and 70B (A800)."
    return judged(found, said, taken(adapters, *as_described(*_platforms(ask))))


def adapters(ask: Ask) -> ReproducedTable:
    """Return what the number of adapters does to the findings' rows."""
    rows = []
    for adapters, model, row in product(ADAPTERS, SIZES, ROWS_WITH_BOTH):
        profile = _adapted(ask, A800, row, adapters, model)
        rows.append(
            {
                "adapters": adapters.name.removeprefix("adapters on ").partition(",")[0],
                "model": MODELS[model],
                "row": row,
                "tokens_per_s": rate(profile),
                "memory_bytes": float(profile.memory_bytes["total"]),
                "host_share": float(profile.phases["host"] / profile.step_time_s),
            }
        )
    return table(
        "adapters",
        "LoRA and QLoRA with DeepSpeed on 8 A800, by the projections that have adapters",
        rows,
        about={
            "adapters": Column(label="adapters on"),
            "model": MODEL,
            "row": ROW,
            "tokens_per_s": THROUGHPUT,
            "memory_bytes": MEMORY,
            "host_share": Column(label="waits for the host", unit="share"),
        },
        figures=[
            Figure(
                kind="bars", title="Throughput, 7B", x="row", y="tokens_per_s", series="adapters", where={"model": "7B"}
            )
        ],
    )


SIZES = (SEVEN, THIRTEEN)
ROWS_WITH_BOTH = ("L", "L+F", "L+Z2", "QL", "QL+F", "QL+Z2")
RECOMPUTED = (("L+R", "L"), ("L+F+R", "L+F"), ("QL+R", "QL"), ("QL+F+R", "QL+F"))
"""Rows with recomputation and the same without."""


def _platforms(ask: Ask) -> tuple[str, ...]:
    return (A800,) if ask.small else (A800, *CARDS)


def _saves_for_nothing(ask: Ask, adapters: Adapters) -> bool:
    """Whether ZeRO-2 takes less memory and no more time than none."""
    pairs = (("L+Z2", "L"), ("QL+Z2", "QL"))
    return _smaller(ask, adapters, pairs) and not _slower(ask, adapters, pairs, of=any)


def _pays_off(ask: Ask, adapters: Adapters) -> bool:
    """Whether ZeRO-3's share of ZeRO-2's memory falls with the model and 70B with LoRA fits in no other way."""
    shares = []
    for model in (SEVEN, THIRTEEN, SEVENTY):
        three, two = (memory_gib(_adapted(ask, A800, f"L+{stage}", adapters, model)) for stage in ("Z3", "Z2"))
        shares.append(three / two)
    fits = {row: bool(_adapted(ask, A800, row, adapters, SEVENTY).fits) for row in ("L", "L+F+R", "L+F+R+Z2", "L+Z3")}
    falls = all(after < before for before, after in pairwise(shares))
    return falls and [row for row, does in fits.items() if does] == ["L+Z3"]


def _slower(
    ask: Ask, adapters: Adapters, pairs: Sequence[tuple[str, str]], *, of: Callable[[Sequence[bool]], bool] = all
) -> bool:
    """Whether the first row of pairs takes longer than the second, on ``of`` the platforms and pairs."""
    steps = [
        [float(_adapted(ask, card, row, adapters).step_time_s) for row in pair]
        for card, pair in product(_platforms(ask), pairs)
    ]
    return of([one > other for one, other in steps])


def _smaller(ask: Ask, adapters: Adapters, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the first row of all pairs needs less memory than the second."""
    return all(
        memory_gib(_adapted(ask, card, one, adapters)) < memory_gib(_adapted(ask, card, other, adapters))
        for card, (one, other) in product(_platforms(ask), pairs)
    )


def _adapted(ask: Ask, platform: str, techniques: str, adapters: Adapters, model: str = SEVEN, **plan: Any) -> Profile:
    """The prediction of fine-tuning with adapters on the chosen projections."""
    adapter = {"kind": "qlora" if "QL" in techniques.split("+") else "lora", **adapters.value}
    return ask.profile(trained(platform, techniques, model=model, adapter=adapter, **plan))


def _rates(
    ask: Ask, choices: Sequence[Choice[Any]], one: tuple[str, Adapters], other: tuple[str, Adapters]
) -> Interpretation:
    """The throughput of one row over another's, 7B on the A800."""
    rates = [rate(_adapted(ask, A800, *row)) for row in (one, other)]
    told = ", ".join(f"{row} {rate_in_words(value)}" for (row, _), value in zip((one, other), rates, strict=True))
    return Interpretation(
        choices=taken(*choices), values=[ratio(rates[0], rates[1])], sentence=f"7B on 8 A800: {told}."
    )


def _gain(
    ask: Ask, choices: Sequence[Choice[Any]], one: tuple[str, Adapters], other: tuple[str, Adapters]
) -> Interpretation:
    """What one row gains over another."""
    found = _rates(ask, choices, one, other)
    return replace(found, values=[None if value is None else value - 1 for value in found.values])


FINDINGS: Findings = {
    "A18": a18,
    "A19": a19,
    "A20": a20,
    "A21": a21,
    "A22": a22,
    "A23": a23,
    "A24": a24,
}
TABLES: Tables = {"adapters": adapters}
