"""The gain from A100 to B200 (B4), and logic nodes from 12 nm to 1 nm (B5, B6)."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import isclose, prod

from sightline.exploration.nodes.binding import PUBLISHED_ORDER
from sightline.exploration.nodes.gains import SATURATED
from sightline.exploration.studies.a100_to_b200 import OF_2021
from sightline.quantities import percent
from sightline.reproduction.answer import ReproducedTable
from sightline.reproduction.arxiv_2407_14645.open_settings import PLAN, SCALING, VIEW
from sightline.reproduction.asking import Ask, Findings, Tables
from sightline.reproduction.open_settings import Choice, taken
from sightline.reproduction.outcome import Interpretation
from sightline.reproduction.statements import judged

LARGEST_FIRST: Mapping[str, tuple[str, ...]] = {
    "arithmetic": ("compute", "precision"),
    "memory": ("memory_bandwidth", "recomputation", "memory_capacity"),
    "links": ("interconnect", "domain"),
}
"""What the source explains the gain by, in its order, and the factors that belong to it."""
ROUNDING = 1e-9
Case = tuple[Choice[str], Choice[str], Choice[str]]
"""View, plan and scaling of the study of nodes."""


def b4(ask: Ask) -> list[Interpretation]:
    """Return whether the gain is one in both views, its factors multiply to it, and which of them are the largest."""
    told = ask.study("a100-to-b200").summary
    statements, said = {}, []
    for view, factors in told["factors_by_view"].items():
        gain = told["gains"][view][OF_2021]
        groups = {name: prod(factors[one] for one in of) for name, of in LARGEST_FIRST.items()}
        ranked = sorted(groups, key=lambda name: -groups[name])
        statements[f"there is a gain in the {view} view"] = gain > 1
        statements[f"factors multiply to it in the {view} view"] = isclose(prod(factors.values()), gain, rel_tol=1e-6)
        statements[f"none of them loses in the {view} view"] = min(factors.values()) > 1 - ROUNDING
        statements[f"{', then '.join(groups)} gain most in the {view} view"] = ranked == list(groups)
        parts = " x ".join(f"{name} {factor:.2f}" for name, factor in [("plan", factors["plan"]), *groups.items()])
        said.append(f"{view} view {gain:.1f} = {parts}")
    sentence = f"Over A100s under a plan of 2021: {'; '.join(said)}. Model, baseline and plan are ours."
    return [judged(statements, sentence)]


def b5(ask: Ask) -> list[Interpretation]:
    """Return whether logic alone saturates, and whether HBM4 and faster links bring half of its gain back."""
    return [_saturation(ask, case) for case in product(VIEW, PLAN, SCALING)]


def _saturation(ask: Ask, case: Case) -> Interpretation:
    view, task, scaling = (choice.value for choice in case)
    told = ask.study("technology-nodes").summary
    early, late, ratio = (
        told[key][view][scaling][task]
        for key in ("gain_per_node_before_3nm", "gain_per_node_after_3nm", "after_over_before")
    )
    slow, *_, fast = early
    old, *_, new = early[slow]
    peak = told["peak_gain_per_node"][view][scaling]
    statements = {
        f"with {old} a node gains less than half after 3 nm": ratio[slow][old] < SATURATED,
        f"{new} and {fast} bring at least half back": ratio[fast][new] >= SATURATED,
    }
    alone, together, of_peak = (
        " and ".join(map(percent, of))
        for of in ((early[slow][old], late[slow][old]), (early[fast][new], late[fast][new]), peak)
    )
    sentence = (
        f"To 3 nm and after it a node gains {alone} with {old} and {slow}, {together} with {new} and {fast}; the peak "
        f"itself gains {of_peak}."
    )
    return judged(statements, sentence, taken(*case))


def b6(ask: Ask) -> list[Interpretation]:
    """Return how much of the order compute, memory, network is found from node to node."""
    return [_sequence(ask, case) for case in product(VIEW, PLAN, SCALING)]


def _sequence(ask: Ask, case: Case) -> Interpretation:
    view, task, scaling = (choice.value for choice in case)
    orders = ask.study("technology-nodes").summary["sequence"][view][scaling][task]
    slow, found = next(iter(orders.items()))
    sentence = (
        f"From 12 nm to 1 nm with HBM2, and then with HBM4, most of the time is bound by {', then '.join(found)}, with "
        f"{slow}."
    )
    return Interpretation(
        values=[in_order(found, PUBLISHED_ORDER) / len(PUBLISHED_ORDER)], sentence=sentence, choices=taken(*case)
    )


def in_order(found: Sequence[str], wanted: Sequence[str]) -> int:
    """Return how many of the wanted are found in their order."""
    best = 0
    for place, name in enumerate(wanted):
        if name in found:
            rest = found[list(found).index(name) + 1 :]
            best = max(best, 1 + in_order(rest, wanted[place + 1 :]))
    return best


def gain(ask: Ask) -> ReproducedTable:
    """Return the study of the gain from A100 to B200."""
    return ReproducedTable(id="a100-to-b200", answer=ask.study("a100-to-b200"))


def nodes(ask: Ask) -> ReproducedTable:
    """Return the study of logic nodes."""
    return ReproducedTable(id="technology-nodes", answer=ask.study("technology-nodes"))


FINDINGS: Findings = {"B4": b4, "B5": b5, "B6": b6}
TABLES: Tables = {"a100-to-b200": gain, "technology-nodes": nodes}
