"""Price-performance of graphics cards and accelerators over the years, from the dated table of their launches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.exploration.base import StudyRequest
from sightline.exploration.growth import CONFIDENCE, Growth, fit_growth, records
from sightline.exploration.study_answer import Column, Figure, StudyAnswer, columns_of
from sightline.loading.checks import Complaints, check
from sightline.quantities import percent
from sightline.technology.launches import Launch, in_dollars_of, launches
from sightline.validators import Keys, whole

BASE = {"since": 2006, "until": 2100}
"""Years of the launches that are counted."""
YEARS: Keys = dict.fromkeys(BASE, whole(1990, 2100))
RECENT = 2016
"""Launches since then are a segment of their own: those that deep learning was trained on."""
BEST = "best of its date"
PUBLISHED = {
    "fp32_flops_per_s_per_usd": (2.46, 2.24, 2.72, "all, 470 cards of 2006 to 2021"),
    "fp16_flops_per_s_per_usd": (2.30, 1.69, 3.62, "91 cards with fp16"),
}
"""Doubling times in years, with 95 % intervals: Hobbhahn and Besiroglu, Trends in GPU Price-Performance, Epoch AI,
June 2022. Their fp16 is that of any unit, ours that of matrix units."""
LAST_PUBLISHED = 2021
"""The last year of their cards."""
OF_THE_DAY, CONSTANT = "dollars of the day", f"dollars of {LAST_PUBLISHED}"
"""What prices of the published years are in."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Something of a card that is followed over the years."""

    name: str
    """In words."""
    short: str
    """In words next to its unit."""
    unit: str
    per: str = ""
    of: Callable[[Launch], float | None]


def _over(
    top: Callable[[Launch], float | None], bottom: Callable[[Launch], float | None]
) -> Callable[[Launch], float | None]:
    """Return the ratio of two figures of a card; None where it lacks one."""

    def ratio(card: Launch) -> float | None:
        above, below = top(card), bottom(card)
        return None if above is None or below is None else above / below

    return ratio


def _figure(name: str) -> Callable[[Launch], float | None]:
    """Return what reads a figure of a card."""

    def read(card: Launch) -> float | None:
        value: float | None = getattr(card, name)
        return value

    return read


_FP32, _FP16, _BANDWIDTH, _MEMORY, _USD, _WATTS = map(
    _figure, ("fp32", "fp16", "memory_bandwidth", "memory_bytes", "price_usd", "tdp_w")
)
METRICS: Mapping[str, Metric] = {
    "fp32_flops_per_s_per_usd": Metric(
        name="fp32 FLOP/s per USD", short="fp32", unit="FLOP/s", per="per USD", of=_over(_FP32, _USD)
    ),
    "fp16_flops_per_s_per_usd": Metric(
        name="16-bit matrix FLOP/s per USD",
        short="16-bit matrices",
        unit="FLOP/s",
        per="per USD",
        of=_over(_FP16, _USD),
    ),
    "bandwidth_bytes_per_s_per_usd": Metric(
        name="memory bandwidth per USD", short="memory bandwidth", unit="B/s", per="per USD", of=_over(_BANDWIDTH, _USD)
    ),
    "memory_bytes_per_usd": Metric(
        name="memory per USD", short="memory", unit="B", per="per USD", of=_over(_MEMORY, _USD)
    ),
    "fp32_flops_per_s_per_w": Metric(
        name="fp32 FLOP/s per watt", short="fp32", unit="FLOP/s", per="per watt", of=_over(_FP32, _WATTS)
    ),
    "fp16_flops_per_s_per_w": Metric(
        name="16-bit matrix FLOP/s per watt",
        short="16-bit matrices",
        unit="FLOP/s",
        per="per watt",
        of=_over(_FP16, _WATTS),
    ),
    "fp32_flops_per_s": Metric(name="fp32 FLOP/s", short="fp32", unit="FLOP/s", of=_FP32),
    "fp16_flops_per_s": Metric(name="16-bit matrix FLOP/s", short="16-bit matrices", unit="FLOP/s", of=_FP16),
    "bandwidth_bytes_per_s": Metric(name="memory bandwidth", short="memory bandwidth", unit="B/s", of=_BANDWIDTH),
    "memory_bytes": Metric(name="memory", short="memory", unit="B", of=_MEMORY),
    "fp32_flops_per_byte": Metric(
        name="fp32 FLOPs per byte", short="fp32", unit="FLOP", per="per byte", of=_over(_FP32, _BANDWIDTH)
    ),
    "fp16_flops_per_byte": Metric(
        name="16-bit matrix FLOPs per byte",
        short="16-bit matrices",
        unit="FLOP",
        per="per byte",
        of=_over(_FP16, _BANDWIDTH),
    ),
}
"""What is followed, by the key of its column."""
ABOUT: Mapping[str, Column] = {
    **{key: Column(label=one.short, unit=one.unit, per=one.per) for key, one in METRICS.items()},
    "name": Column(label="figure"),
    "year": Column(label="launched", unit="year"),
    "low_years": Column(label="at least"),
    "high_years": Column(label="at most"),
    "explained_share": Column(label="explained by the fit", unit="share"),
}
SEGMENTS: Mapping[str, Callable[[Launch], bool]] = {
    "all": lambda _: True,
    "gaming": lambda card: card.market == "gaming",
    "workstation": lambda card: card.market == "workstation",
    "datacenter": lambda card: card.market == "datacenter",
    f"since {RECENT}": lambda card: card.years >= RECENT,
}


def study(request: StudyRequest) -> StudyAnswer:
    """Return how fast each figure doubles in each segment; views of devices are not asked for."""
    complaints = Complaints()
    years = BASE | check(YEARS, request.overrides, "", complaints).values
    complaints.raise_any()
    since, until = years["since"], years["until"]
    cards = [card for card in launches() if since <= int(card.years) <= until]
    fits = {
        (metric, segment): growth
        for metric in METRICS
        for segment, growth in _fits(metric, cards)
        if growth is not None
    }
    if not fits:
        raise InputError(f"since {since} until {until} has only {len(cards)} launches; choose a longer range")
    rows = [_row(metric, segment, growth) for (metric, segment), growth in fits.items()]
    return StudyAnswer(
        study="trends",
        title="Price-performance of graphics cards and accelerators",
        axes={"metric": list(METRICS), "segment": list(dict.fromkeys(segment for _, segment in fits))},
        columns=columns_of(rows),
        about=ABOUT,
        summary=_summary(fits, cards),
        assumptions=_assumptions(cards),
        reading=tuple(_reading(fits, cards)),
        figures=_figures(cards),
        shown=("name", "segment", "doubling_years", "low_years", "high_years", "factor_of_a_year", "launches"),
    )


def _fits(metric: str, cards: Sequence[Launch]) -> Iterator[tuple[str, Growth | None]]:
    """The growth of a figure in every segment, and of the cards that were the best of their date."""
    having = _having(metric, cards)
    for segment, belongs in SEGMENTS.items():
        those = [card for card in having if belongs(card)]
        yield segment, fit_growth(*_values(metric, those), groups=[card.market for card in those])
    years, values = _values(metric, having)
    best = records(years, values)
    yield BEST, fit_growth(years[best], values[best])


def _values(metric: str, cards: Sequence[Launch]) -> tuple[np.ndarray, np.ndarray]:
    """Years and values of cards that have the figure."""
    years, values = (
        np.array(of, dtype=float) for of in ([c.years for c in cards], [METRICS[metric].of(c) for c in cards])
    )
    return years, values


def _having(metric: str, cards: Sequence[Launch]) -> list[Launch]:
    """The cards that have a figure."""
    return [card for card in cards if METRICS[metric].of(card) is not None]


def _row(metric: str, segment: str, growth: Growth) -> Row:
    low, high = growth.interval_years
    return {
        "metric": metric,
        "name": METRICS[metric].name,
        "segment": segment,
        "doubling_years": growth.doubling_years,
        "low_years": low,
        "high_years": high,
        "factor_of_a_year": growth.yearly,
        "explained_share": growth.explained,
        "launches": growth.count,
    }


def _of_published_years(cards: Sequence[Launch]) -> dict[str, Growth]:
    """How fp32 per dollar grows over the launches of the published years, by what their prices are in."""
    priced = [card for card in _having("fp32_flops_per_s_per_usd", cards) if card.years < LAST_PUBLISHED + 1]
    years, values = _values("fp32_flops_per_s_per_usd", priced)
    constant = [in_dollars_of(LAST_PUBLISHED, 1.0, int(card.years)) for card in priced]
    worth = {OF_THE_DAY: np.ones(len(priced)), CONSTANT: np.array(constant, dtype=float)}
    groups = [card.market for card in priced]
    fits = {name: fit_growth(years, values / dollars, groups) for name, dollars in worth.items()}
    return {name: growth for name, growth in fits.items() if growth is not None}


def _summary(fits: Mapping[tuple[str, str], Growth], cards: Sequence[Launch]) -> dict[str, Any]:
    doubling: dict[str, dict[str, Any]] = {}
    for (metric, segment), growth in fits.items():
        doubling.setdefault(metric, {})[segment] = growth.to_dict()
    best = {
        metric: [card.name for card, is_best in zip(*_best(metric, cards), strict=True) if is_best]
        for metric in METRICS
    }
    return {
        "launches": len(cards),
        "doubling_years": doubling,
        "best_of_its_date": best,
        "doubling_years_of_published_years": {
            name: growth.to_dict() for name, growth in _of_published_years(cards).items()
        },
        "published": {metric: {"years": of[0], "interval": [of[1], of[2]]} for metric, of in PUBLISHED.items()},
    }


def _best(metric: str, cards: Sequence[Launch]) -> tuple[list[Launch], np.ndarray]:
    """Cards that have a figure, and which of them were the best of their date."""
    having = _having(metric, cards)
    return having, records(*_values(metric, having))


def _assumptions(cards: Sequence[Launch]) -> tuple[str, ...]:
    priced = [card for card in cards if card.price_usd is not None]
    of_launches = (
        f"{len(cards)} launches from the catalog (`sightline catalog launches`), {len(priced)} with a launch "
        "price: the suggested price, quotes for data center cards, and the street price of 2026 for H200 and "
        "B200."
    )
    of_lines = (
        f"Lines are least-squares fits of the logarithm. {percent(CONFIDENCE)} intervals assume independent "
        "launches, which launches of one generation are not. With several markets, each has its own level and "
        "all share one growth rate."
    )
    return (
        "Devices use vendor specifications, not measured kernel efficiency.",
        of_launches,
        (
            f"Prices are nominal dollars; {CONSTANT} are adjusted by the U.S. consumer price index (CPI-U, "
            "yearly means)."
        ),
        "16-bit matrix FLOP/s are dense matrix-unit rates with fp32 accumulation; fp32 is the vector-unit rate.",
        of_lines,
        "A card is the best of its date if it exceeds all earlier ones; few cards give a wide interval.",
    )


def _reading(fits: Mapping[tuple[str, str], Growth], cards: Sequence[Launch]) -> Iterator[str]:
    for metric in ("fp32_flops_per_s_per_usd", "fp16_flops_per_s_per_usd"):
        growth = fits.get((metric, "all"))
        if growth is None:
            continue
        years, low, high, of = PUBLISHED[metric]
        yield (
            f"{METRICS[metric].name} doubles every {growth.in_words(2)} over {growth.count} launches. Epoch AI "
            f"found {years} years ({low} to {high}) in 2022 ({of})."
        )
    yield from _of_the_same_years(cards)
    yield from _of_segments(fits)
    for metric, what in (("bandwidth_bytes_per_s_per_usd", "Memory bandwidth"), ("memory_bytes_per_usd", "Memory")):
        if (metric, "all") in fits:
            yield f"{what} per USD doubles every {fits[metric, 'all'].in_words(2)}."
    per_watt = [fits.get((metric, "all")) for metric in ("fp32_flops_per_s_per_w", "fp16_flops_per_s_per_w")]
    if all(per_watt):
        fp32, fp16 = (growth.in_words(2) for growth in per_watt if growth is not None)
        yield f"FLOP/s per watt doubles every {fp32} in fp32 and every {fp16} in 16-bit matrices."
    yield from _of_balance(fits, cards)


def _of_the_same_years(cards: Sequence[Launch]) -> Iterator[str]:
    """What the launches say of the years that the publication looked at."""
    found = _of_published_years(cards)
    if found:
        said = ", ".join(f"{growth.in_words(2)} in {name}" for name, growth in found.items())
        count = next(iter(found.values())).count
        yield f"Launches until {LAST_PUBLISHED} alone give {said} for fp32, over {count}."


def _of_segments(fits: Mapping[tuple[str, str], Growth]) -> Iterator[str]:
    """What price-performance does in each market, and of the best cards."""
    metric = "fp32_flops_per_s_per_usd"
    segments = [segment for segment in (*SEGMENTS, BEST) if segment != "all" and (metric, segment) in fits]
    if segments:
        said = ", ".join(f"{segment} {fits[metric, segment].doubling_years:.1f}" for segment in segments)
        yield f"Doubling time of fp32 FLOP/s per USD in years, by segment: {said}."


def _of_balance(fits: Mapping[tuple[str, str], Growth], cards: Sequence[Launch]) -> Iterator[str]:
    """How FLOPs and bytes grow apart on accelerators of data centers."""
    wanted = [
        ("fp16_flops_per_s", "datacenter"),
        ("bandwidth_bytes_per_s", "datacenter"),
        ("memory_bytes", "datacenter"),
    ]
    if not all(key in fits for key in wanted):
        return
    fp16, bandwidth, memory = (fits[key] for key in wanted)
    yield (
        f"For data center accelerators, 16-bit matrix FLOP/s doubles every {fp16.in_words(2)}, memory bandwidth "
        f"every {bandwidth.in_words(2)}, memory every {memory.in_words(2)}."
    )
    gaps = [fits.get((metric, "all")) for metric in ("fp32_flops_per_byte", "fp16_flops_per_byte")]
    if all(gaps):
        fp32_gap, fp16_gap = (growth.in_words(2) for growth in gaps if growth is not None)
        yield (
            f"FLOPs per byte of memory bandwidth double every {fp32_gap} in fp32 and every {fp16_gap} in 16-bit "
            "matrices, over all markets."
        )
    having = [card for card in _having("fp16_flops_per_byte", cards) if card.market == "datacenter"]
    balance = {card: float(card.fp16 or 0.0) / card.memory_bandwidth for card in having}
    marked = dict.fromkeys((having[0], max(having, key=balance.__getitem__), having[-1]))
    said = ", ".join(f"{balance[card]:.0f} on {card.product} ({card.date[:4]})" for card in marked)
    yield f"16-bit matrix FLOPs per byte from memory: {said}."


_DRAWN = (
    "fp32_flops_per_s_per_usd",
    "fp16_flops_per_s_per_usd",
    "bandwidth_bytes_per_s_per_usd",
    "memory_bytes_per_usd",
    "fp16_flops_per_s_per_w",
    "fp16_flops_per_byte",
)


def _figures(cards: Sequence[Launch]) -> tuple[Figure, ...]:
    """Cards over the years, with the line of each market."""
    return tuple(
        Figure(
            kind="points",
            title=METRICS[metric].name,
            x="year",
            y=metric,
            series="market",
            line="line",
            log=frozenset(("y",)),
            columns=_points(metric, cards),
        )
        for metric in _DRAWN
    )


def _points(metric: str, cards: Sequence[Launch]) -> dict[str, list[Any]]:
    markets = list(SEGMENTS)
    having = sorted(_having(metric, cards), key=lambda card: markets.index(card.market))
    lines = {
        market: fit_growth(*_values(metric, [card for card in having if card.market == market])) for market in SEGMENTS
    }
    return {
        "product": [card.product for card in having],
        "market": [card.market for card in having],
        "year": [card.years for card in having],
        metric: [METRICS[metric].of(card) for card in having],
        "line": [
            float("nan") if (line := lines[card.market]) is None else float(line.at(card.years)) for card in having
        ],
    }
