"""Findings on pre-training: frameworks against each other, memory, platforms, and batches."""

from collections.abc import Iterator
from itertools import pairwise, product

from sightline.reproduction.answer import Interpretation, taken
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    CARD,
    CARDS,
    COMPARED_BATCH,
    EQUAL_BATCH,
    EXPOSED,
    NAMES,
    OUT_OF_MEMORY,
    PRETRAINING,
    RTX_3090,
    RTX_4090,
    SEVEN,
    ZERO,
    as_described,
    memory_gib,
    rate,
    rate_in_words,
    ratio,
    trained,
)
from sightline.reproduction.asking import Ask, Findings

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Samples per GPU, or of Megatron-LM's only replica, that are tried."""


def a5(ask: Ask) -> list[Interpretation]:
    """Return Megatron-LM's throughput over DeepSpeed's with batch 1."""
    interpretations = []
    for zero, batch in product(ZERO, EQUAL_BATCH):
        deepspeed = rate(ask.profile(trained(A800, zero.value)))
        megatron = rate(ask.profile(trained(A800, framework="megatron", batch=batch.value)))
        interpretations.append(
            Interpretation(
                choices=taken(zero, batch),
                values=[ratio(megatron, deepspeed)],
                sentence=f"Megatron-LM: {rate_in_words(megatron)}, DeepSpeed: {rate_in_words(deepspeed)}.",
            )
        )
    return interpretations


def a6(ask: Ask) -> list[Interpretation]:
    """Return DeepSpeed's throughput over Megatron-LM's, each at its largest batch that fits."""
    split = largest(ask, A800, framework="megatron")
    megatron = rate(ask.profile(trained(A800, framework="megatron", batch=split)))
    interpretations = []
    for zero in ZERO:
        most = largest(ask, A800, zero.value)
        deepspeed = rate(ask.profile(trained(A800, zero.value, batch=most)))
        rates = [rate_in_words(one) for one in (deepspeed, megatron)]
        said = f"DeepSpeed: {rates[0]} at batch {most}, Megatron-LM: {rates[1]} at batch {split}."
        interpretations.append(Interpretation(choices=taken(zero), values=[ratio(deepspeed, megatron)], sentence=said))
    return interpretations


def a7(ask: Ask) -> list[Interpretation]:
    """Return DeepSpeed's memory over Megatron-LM's at the same batches."""
    interpretations = []
    for zero, equal in product(ZERO, EQUAL_BATCH):
        needs = {
            batch: (
                memory_gib(ask.profile(trained(A800, zero.value, batch=batch))),
                memory_gib(ask.profile(trained(A800, framework="megatron", batch=batch * equal.value))),
            )
            for batch in (1, 2, 4, 8)
        }
        said = [f"{one:.0f} and {other:.0f} GiB at batch {batch}" for batch, (one, other) in needs.items()]
        interpretations.append(
            Interpretation(
                choices=taken(zero, equal),
                values=[one / other for one, other in needs.values()],
                sentence=f"DeepSpeed and Megatron-LM need {', '.join(said)}.",
            )
        )
    return interpretations


def a8(ask: Ask) -> list[Interpretation]:
    """Return whether 7B without techniques is out of memory on both RTX cards."""
    needs = [ask.profile(trained(card)) for card in CARDS]
    agree = sum(not one.fits for one in needs) / len(needs)
    gib = " and ".join(f"{memory_gib(one):.0f} GiB" for one in needs)
    return [Interpretation(values=[agree], sentence=f"It needs {gib} on cards of 24 GiB.")]


def a9(ask: Ask) -> list[Interpretation]:
    """Return the A800's best throughput in full pre-training over the best of RTX cards, batch 1 and the largest."""
    interpretations = []
    for card, batch in product(CARD, COMPARED_BATCH):
        (row, a800), (other, reached) = (_best(ask, one, at_largest=batch.value) for one in (A800, card.value))
        said = f"The A800: {rate_in_words(a800)} with {row}, {card.name}: {rate_in_words(reached)} with {other}."
        choices = taken(card, batch, *as_described(card.value))
        interpretations.append(Interpretation(choices=choices, values=[ratio(a800, reached)], sentence=said))
    return interpretations


def _best(ask: Ask, platform: str, *, at_largest: bool) -> tuple[str, float | None]:
    """The fastest row of full pre-training that fits a platform, and its throughput."""
    rates: dict[str, float] = {}
    for row in PRETRAINING:
        batch = largest(ask, platform, row) if at_largest else 1
        value = rate(ask.profile(trained(platform, row, batch=batch))) if batch else None
        if value is not None and "Q" not in row.split("+"):
            rates[row] = value
    best = max(rates, key=lambda row: rates[row], default="nothing")
    return best, rates.get(best)


def a10(ask: Ask) -> list[Interpretation]:
    """Return the throughput of RTX cards over the A800's with 4-bit weights, at batch 1 and the largest of each."""
    interpretations = []
    for batch in COMPARED_BATCH:
        a800, *cards = (_quantized(ask, one, at_largest=batch.value) for one in (A800, *CARDS))
        shares = [ratio(card, a800) for card in cards]
        said = " and ".join(OUT_OF_MEMORY if share is None else f"{share:.2f}" for share in shares)
        interpretations.append(
            Interpretation(
                choices=taken(batch, *as_described(*CARDS)),
                values=shares,
                sentence=f"RTX 4090 and RTX 3090 reach {said} of the A800's throughput.",
            )
        )
    return interpretations


def a11(ask: Ask) -> list[Interpretation]:
    """Return the RTX 4090's throughput over the RTX 3090's with 4-bit weights, at batch 1 and the largest of each."""
    interpretations = []
    for batch in COMPARED_BATCH:
        ada, ampere = (_quantized(ask, card, at_largest=batch.value) for card in CARDS)
        interpretations.append(
            Interpretation(
                choices=taken(batch, *as_described(*CARDS)),
                values=[ratio(ada, ampere)],
                sentence=f"The RTX 4090: {rate_in_words(ada)}, the RTX 3090: {rate_in_words(ampere)}.",
            )
        )
    return interpretations


def _quantized(ask: Ask, platform: str, *, at_largest: bool) -> float | None:
    """The throughput of a platform with 4-bit weights."""
    batch = largest(ask, platform, "Q") if at_largest else 1
    return rate(ask.profile(trained(platform, "Q", batch=batch)))


def a12(ask: Ask) -> list[Interpretation]:
    """Return the optimizer's share of a step at batch 2, without and with the communication that nothing hides."""
    profile = ask.profile(trained(A800, batch=2))
    step, update = float(profile.step_time_s), float(profile.phases["optimizer"])
    interpretations = []
    for exposed in EXPOSED:
        whole = step if exposed.value else step - float(profile.phases["communication_exposed"])
        said = f"The update takes {update:.3f} s of {whole:.3f} s."
        interpretations.append(Interpretation(choices=taken(exposed), values=[update / whole], sentence=said))
    return interpretations


def a37(ask: Ask) -> list[Interpretation]:
    """Return the smallest gain from one batch to the next that fits: N on the A800, 4-bit weights on the RTX cards."""
    gains, said = [], []
    for platform, row in ((A800, "N"), (RTX_4090, "Q"), (RTX_3090, "Q")):
        rates = list(_rates(ask, platform, row))
        gains += [after / before for before, after in pairwise(rates)]
        said.append(f"{NAMES[platform]} {', '.join(f'{one:,.0f}' for one in rates)}")
    sentence = f"Tokens per second at batch 1, 2, 4, …: {'; '.join(said)}."
    return [Interpretation(choices=taken(*as_described(*CARDS)), values=gains, sentence=sentence)]


def largest(ask: Ask, platform: str, techniques: str = "N", *, framework: str = "deepspeed", model: str = SEVEN) -> int:
    """Return the largest of `BATCHES` that fits; 0 where none does."""
    most = 0
    for batch in BATCHES:
        if not ask.profile(trained(platform, techniques, batch=batch, framework=framework, model=model)).fits:
            break
        most = batch
    return most


def _rates(ask: Ask, platform: str, techniques: str) -> Iterator[float]:
    """Tokens per second by batch, up to the largest that fits."""
    for batch in BATCHES:
        value = rate(ask.profile(trained(platform, techniques, batch=batch)))
        if value is None:
            return
        yield value


FINDINGS: Findings = {
    "A5": a5,
    "A6": a6,
    "A7": a7,
    "A8": a8,
    "A9": a9,
    "A10": a10,
    "A11": a11,
    "A12": a12,
    "A37": a37,
}
