"""Findings on fine-tuning with LoRA and QLoRA: what the techniques cost and save, and the largest model on 24 GB."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

from sightline.exploration.answer import Column, Figure
from sightline.profile import Profile
from sightline.quantities import GIB
from sightline.reproduction.answer import Interpretation, ReproducedTable, table
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    NAMES,
    RTX_3090,
    RTX_3090_NVLINK,
    RTX_4090,
    SEVEN,
    SEVENTY,
    THIRTEEN,
    rate,
    ratio,
    trained,
)
from sightline.reproduction.asking import Ask, Findings, Tables
from sightline.reproduction.statements import judged

EVERYWHERE: Mapping[str, Any] = {}
ADAPTERS: Mapping[str, Mapping[str, Any]] = {
    "adapters on all projections, as in the paper of QLoRA": EVERYWHERE,
    "adapters on queries and values, PEFT's default for Llama": {"targets": ["query", "value"]},
}
"""Interpretations of which projections have adapters: the study does not state it."""

COMBINED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "RTX 3090, the optimizer offloaded: 138 GB of weights do not fit its host": (RTX_3090, {"offload": "optimizer"}),
    "RTX 3090 with NVLink, the optimizer offloaded": (RTX_3090_NVLINK, {"offload": "optimizer"}),
    "RTX 4090, optimizer and parameters offloaded": (RTX_4090, {}),
}
"""Interpretations of which card it is and what is offloaded. The weights are bf16: releases of 2023 have no QLoRA under
ZeRO-3."""


def a18(ask: Ask) -> list[Interpretation]:
    """Return LoRA's throughput over QLoRA's."""
    return [_rates(ask, said, ("L", adapters), ("QL", adapters)) for said, adapters in ADAPTERS.items()]


def a19(ask: Ask) -> list[Interpretation]:
    """Return QLoRA's memory over LoRA's."""
    interpretations = []
    for said, adapters in ADAPTERS.items():
        gib = [_gib(_adapted(ask, A800, techniques, adapters)) for techniques in ("QL", "L")]
        sentence = f"QLoRA needs {gib[0]:.1f} GiB, LoRA {gib[1]:.1f} GiB."
        interpretations.append(Interpretation(words=said, values=[gib[0] / gib[1]], sentence=sentence))
    return interpretations


def a20(ask: Ask) -> list[Interpretation]:
    """Return what FlashAttention adds to LoRA's throughput, without ZeRO and with ZeRO-2."""
    return [
        _gain(ask, f"{said}{also}", (f"L+F{more}", adapters), (f"L{more}", adapters))
        for said, adapters in ADAPTERS.items()
        for also, more in (("", ""), ("; ZeRO-2", "+Z2"))
    ]


def a21(ask: Ask) -> list[Interpretation]:
    """Return what ZeRO-2 adds to LoRA's throughput."""
    return [_gain(ask, said, ("L+Z2", adapters), ("L", adapters)) for said, adapters in ADAPTERS.items()]


def a22(ask: Ask) -> list[Interpretation]:
    """Return how much slower 13B is than 7B, of LoRA and of QLoRA."""
    interpretations = []
    for said, adapters in ADAPTERS.items():
        losses = {}
        for techniques in ("L", "QL"):
            large, small = (rate(_adapted(ask, A800, techniques, adapters, model)) for model in (THIRTEEN, SEVEN))
            share = ratio(large, small)
            losses[techniques] = None if share is None else 1 - share
        told = ", ".join(f"{row} {'out of memory' if loss is None else f'{loss:.1%}'}" for row, loss in losses.items())
        interpretations.append(
            Interpretation(
                words=said,
                values=list(losses.values()),
                sentence=f"13B is slower than 7B by: {told}.",
            )
        )
    return interpretations


def a23(ask: Ask) -> list[Interpretation]:
    """Return tokens per second of 70B with LoRA, FlashAttention, recomputation, ZeRO-3 and offload on 24 GB cards."""
    interpretations = []
    for said, (card, plan) in COMBINED.items():
        profile = ask.profile(trained(card, "L+F+R+Z3+O", model=SEVENTY, **plan))
        usable = float(profile.usable_bytes) / GIB
        trains = "out of memory" if not profile.fits else f"{float(profile.tokens_per_s):,.0f} tokens/s"
        sentence = f"{NAMES[card]}: {_gib(profile):.1f} of {usable:.1f} GiB, {trains}."
        interpretations.append(Interpretation(words=said, values=[rate(profile)], sentence=sentence))
    return interpretations


def a24(ask: Ask) -> list[Interpretation]:
    """Return the share of the study's statements on techniques that hold."""
    found = {
        "ZeRO-2 saves memory at no cost in speed": _saves_for_nothing(ask),
        "ZeRO-3 pays off for larger models: it saves more of ZeRO-2's memory the larger they are, and 70B fits with "
        "ZeRO-3 alone": _pays_off(ask),
        "offload slows down": _slower(ask, (("L+Z2+O", "L+Z2"), ("L+Z3+O", "L+Z3"))),
        "recomputation trades speed for memory": _slower(ask, RECOMPUTED) and _smaller(ask, RECOMPUTED),
    }
    platforms = ", ".join(NAMES[one] for one in _platforms(ask))
    return [judged(found, f"{len(found)} statements on 7B with LoRA and QLoRA ({platforms}) and 70B (A800).")]


def adapters(ask: Ask) -> ReproducedTable:
    """Return what the number of adapters does to the findings' rows."""
    rows = []
    for (said, adapters), (model, size), row in product(ADAPTERS.items(), SIZES.items(), READ_WITH_BOTH):
        profile = _adapted(ask, A800, row, adapters, model)
        rows.append(
            {
                "adapters": said.removeprefix("adapters on ").partition(",")[0],
                "model": size,
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
            "model": Column(label="model"),
            "row": Column(label="techniques"),
            "tokens_per_s": Column(label="throughput", unit="tokens/s"),
            "memory_bytes": Column(label="memory", unit="B"),
            "host_share": Column(label="waits for the host", unit="share"),
        },
        figures=[
            Figure(
                kind="bars", title="Throughput, 7B", x="row", y="tokens_per_s", series="adapters", where={"model": "7B"}
            )
        ],
    )


SIZES: Mapping[str, str] = {SEVEN: "7B", THIRTEEN: "13B"}
READ_WITH_BOTH = ("L", "L+F", "L+Z2", "QL", "QL+F", "QL+Z2")
RECOMPUTED = (("L+R", "L"), ("L+F+R", "L+F"), ("QL+R", "QL"), ("QL+F+R", "QL+F"))
"""Rows with recomputation and the same without."""


def _platforms(ask: Ask) -> tuple[str, ...]:
    return (A800,) if ask.small else (A800, RTX_4090, RTX_3090)


def _saves_for_nothing(ask: Ask) -> bool:
    """Whether ZeRO-2 takes less memory and no more time than none."""
    pairs = (("L+Z2", "L"), ("QL+Z2", "QL"))
    return _smaller(ask, pairs) and not _slower(ask, pairs, of=any)


def _pays_off(ask: Ask) -> bool:
    """Whether ZeRO-3's share of ZeRO-2's memory falls with the model and 70B with LoRA fits in no other way."""
    shares = []
    for model in (SEVEN, THIRTEEN, SEVENTY):
        three, two = (_gib(_adapted(ask, A800, f"L+{stage}", EVERYWHERE, model)) for stage in ("Z3", "Z2"))
        shares.append(three / two)
    fits = {row: bool(_adapted(ask, A800, row, EVERYWHERE, SEVENTY).fits) for row in ("L", "L+F+R", "L+F+R+Z2", "L+Z3")}
    falls = all(after < before for before, after in pairwise(shares))
    return falls and [row for row, does in fits.items() if does] == ["L+Z3"]


def _slower(ask: Ask, pairs: Sequence[tuple[str, str]], *, of: Callable[[Sequence[bool]], bool] = all) -> bool:
    """Whether the first row of pairs takes longer than the second, on ``of`` the platforms and pairs."""
    return of([_step_s(ask, one, card) > _step_s(ask, other, card) for card in _platforms(ask) for one, other in pairs])


def _smaller(ask: Ask, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the first row of all pairs needs less memory than the second."""
    return all(
        _gib(_adapted(ask, card, one)) < _gib(_adapted(ask, card, other))
        for card in _platforms(ask)
        for one, other in pairs
    )


def _step_s(ask: Ask, techniques: str, platform: str) -> float:
    return float(_adapted(ask, platform, techniques).step_time_s)


def _adapted(
    ask: Ask, platform: str, techniques: str, adapters: Mapping[str, Any] = EVERYWHERE, model: str = SEVEN
) -> Profile:
    """The prediction of fine-tuning with adapters as they are read."""
    kind = "qlora" if "QL" in techniques.split("+") else "lora"
    return ask.profile(trained(platform, techniques, model=model, adapter={"kind": kind, **adapters}))


def _rates(
    ask: Ask, said: str, one: tuple[str, Mapping[str, Any]], other: tuple[str, Mapping[str, Any]]
) -> Interpretation:
    """The throughput of one row over another's, 7B on the A800."""
    rates = [rate(_adapted(ask, A800, *row)) for row in (one, other)]
    told = ", ".join(
        f"{row} {'out of memory' if value is None else f'{value:,.0f} tokens/s'}"
        for (row, _), value in zip((one, other), rates, strict=True)
    )
    return Interpretation(words=said, values=[ratio(rates[0], rates[1])], sentence=f"7B on 8 A800: {told}.")


def _gain(
    ask: Ask, said: str, one: tuple[str, Mapping[str, Any]], other: tuple[str, Mapping[str, Any]]
) -> Interpretation:
    """What one row gains over another."""
    found = _rates(ask, said, one, other)
    return replace(found, values=[None if value is None else value - 1 for value in found.values])


def _gib(profile: Profile) -> float:
    return float(profile.memory_bytes["total"]) / GIB


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
