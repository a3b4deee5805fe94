"""Seconds of a batch's latency by the level of the machine that binds them: compute, dram, l2, network or host."""

from typing import NamedTuple

from sightline.cost.l2 import l2_s
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.phases import Phase, PricedGeneration
from sightline.prediction.generation.policies import Workers
from sightline.prediction.generation.worker import PricedPass
from sightline.prediction.levels import bound_of
from sightline.program import Collective
from sightline.quantities import Number, larger


def levels_by_phase(
    workers: Workers, prefill: Phase, decode: Phase, constants: InferenceConstants
) -> dict[str, dict[str, Number]]:
    """Return the seconds of ``prefill`` and of ``decode`` by level (``LEVELS``); together they sum to the latency.

    Those of prefill are bound as the time to first token is, and hold the transfer of keys and values to workers that
    decode; those of decode are bound as the time per further token is. ``prefill`` and ``decode`` hold the seconds of
    all their passes.
    """
    prefilling, decoding = workers.prefilling, workers.decoding
    own = workers.prefill_constants or constants
    first = _levels(prefill, _beyond_l2(prefilling, prefilling.prefill, own))
    first["network"] = first["network"] + workers.moved_s
    return {"prefill": first, "decode": _levels(decode, _beyond_l2(decoding, decoding.decode, constants))}


class _Shares(NamedTuple):
    """Shares of the work of operators that L2 binds."""

    of_compute: Number
    """Of those whose arithmetic outlasts their memory traffic."""
    of_memory: Number
    """Of the others."""


def _levels(phase: Phase, l2: _Shares) -> dict[str, Number]:
    """A phase's drafts and lost time between kernels are bound as its operators are."""
    compute_s, memory_s = phase.times.compute_s, phase.times.memory_s
    return {
        "compute": compute_s * (1.0 - l2.of_compute),
        "dram": memory_s * (1.0 - l2.of_memory),
        "l2": compute_s * l2.of_compute + memory_s * l2.of_memory,
        "network": phase.times.collective_s + phase.transfer_s,
        "host": phase.host_s,
    }


def _beyond_l2(priced: PricedGeneration, of: PricedPass, constants: InferenceConstants) -> _Shares:
    """Which share of a pass's work L2 binds, of each plan."""
    prices = of.in_engine(constants)
    whole: list[Number] = [0.0, 0.0]
    beyond: list[Number] = [0.0, 0.0]
    for block in of.program.blocks:
        for op in block.operators:
            if isinstance(op, Collective):
                continue
            price = prices[id(op)]
            time_s = block.count * op.count * price.time_s
            by_l2, by_compute = bound_of(price, l2_s(op, of.device_model)).l2, price.compute_s >= price.memory_s
            for place, among in enumerate((1.0 * by_compute, 1.0 - by_compute)):
                whole[place] = whole[place] + time_s * among
                beyond[place] = beyond[place] + time_s * among * by_l2
    return _Shares(*(priced.of_each(part / larger(of_all, 1e-30)) for part, of_all in zip(beyond, whole, strict=True)))
