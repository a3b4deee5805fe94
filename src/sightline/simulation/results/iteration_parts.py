"""Where an iteration's time goes: prompts and decoding sequences in it, modules, communication and the host."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.iteration import drafted_tokens, iteration_of
from sightline.prediction.generation.worker import Worker
from sightline.program import Batch, Collective, decoding, prompts
from sightline.simulation.outcome import Iterations, Outcome
from sightline.simulation.times.tables import in_loop

PREFILL, DECODE, MIXED = "prefill", "decode", "prefill and decode"
HOST = "host"


def kinds_of(course: Iterations) -> "np.ndarray[tuple[int], np.dtype[np.str_]]":
    """Return of each iteration whether it has prompts, decoding sequences, or both."""
    has_prompts, decodes = course.prompt_tokens > 0, course.decodes > 0
    return np.where(has_prompts & decodes, MIXED, np.where(has_prompts, PREFILL, DECODE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an iteration's time."""

    part: str
    """``PREFILL``, ``DECODE``, or ``HOST``: what the device waits for."""
    module: str
    name: str
    """Of communication its operator, else the module."""
    share: float
    """Of the iteration's seconds."""
    is_communication: bool = False


def iteration_parts(
    worker: Worker,
    constants: InferenceConstants,
    outcome: Outcome,
    chosen: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    *,
    ahead: bool = False,
) -> list[Piece]:
    """Return the pieces of the mean of some iterations of one kind, in order; their shares sum to 1.

    Prompts and decoding sequences of an iteration run through most kernels together, whose time is split by their new
    tokens; each has its own attention. Left out: prompts behind a cached context, and what differs from the mean.
    """
    course, new_per_decode = outcome.iterations, 1.0 + float(drafted_tokens(worker.plan))
    new, decodes = float(course.prompt_tokens[chosen].mean()), float(course.decodes[chosen].mean())
    context = float((course.kv_tokens[chosen] / np.maximum(course.running[chosen], 1)).mean())
    groups = [prompts(1.0, new)] if new else []
    groups += [decoding(decodes, context, new_per_decode)] if decodes else []
    if not groups:
        return []
    weights = {PREFILL: new, DECODE: decodes * new_per_decode}
    parts = [name for name, tokens in weights.items() if tokens]
    own = {name: weights[name] / sum(weights.values()) for name in parts}
    return list(_pieces(worker, in_loop(constants, ahead=ahead), Batch.of(*groups), own, ahead=ahead))


def _pieces(
    worker: Worker, constants: InferenceConstants, batch: Batch, own: dict[str, float], *, ahead: bool
) -> Iterator[Piece]:
    (priced,) = worker.priced([batch])
    one = iteration_of(worker, priced, constants, ahead=ahead)
    prices, parts = priced.in_engine(constants), list(own)
    found: dict[tuple[str, str, str, bool], float] = defaultdict(float)
    for block in priced.program.blocks:
        for op in block.operators:
            sends = isinstance(op, Collective)
            seconds = float(block.count * op.count * prices[id(op)].time_s)
            for part, share in _belongs(op.group, parts, own):
                found[part, op.module, op.name if sends else op.module, sends] += share * seconds
    totals = {sends: sum(s for key, s in found.items() if key[3] == sends) for sends in (False, True)}
    whole = {False: float(one.times.work_s), True: float(one.times.collective_s)}
    outside = {"between stages": float(one.transfer_s), HOST: float(one.host_s)}
    whole_s = sum(whole.values()) + sum(outside.values())
    if outside[HOST] > 0.0:
        yield Piece(part=HOST, module=HOST, name=HOST, share=outside[HOST] / whole_s)
    for part in parts:
        for (of, module, name, sends), seconds in found.items():
            if of == part and seconds > 0.0:
                share = seconds / totals[sends] * whole[sends] / whole_s
                yield Piece(part=part, module=module, name=name, share=share, is_communication=sends)
        if outside["between stages"] > 0.0:
            share = own[part] * outside["between stages"] / whole_s
            yield Piece(part=part, module="pipeline", name="send-recv", share=share, is_communication=True)


def _belongs(group: int | None, parts: Sequence[str], own: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Which parts an operator's time belongs to, and how much of it."""
    if group is None:
        yield from own.items()
    else:
        yield parts[group], 1.0
