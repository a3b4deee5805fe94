"""The table of a generation: a row per operator address, over the whole batch, on one device."""

from collections.abc import Iterator, Sequence

from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.phases import Phase
from sightline.prediction.generation.worker import PricedPass
from sightline.prediction.rows import operator_row
from sightline.profile import Row
from sightline.profile.rows import exposed
from sightline.program import Collective
from sightline.quantities import Number


def generation_rows(
    prefill: PricedPass,
    decode: PricedPass,
    parts: Sequence[tuple[Number, Phase]],
    moved_s: Number,
    constants: InferenceConstants,
) -> list[Row]:
    """Return the rows of a scalar prediction, as if one device with its tensor-parallel peers held all layers.

    By phase their exposed seconds sum to the latency's phases: filling a pipeline, drafting and waiting for workers
    lengthen all operators of a phase alike.
    """
    passes = (
        ("prefill", prefill, *parts[0]),
        ("decode", decode, *parts[1]),
    )
    rows = [row for each in passes for row in _of_phase(*each, constants)]
    sent = ((name, "pipeline", "activations", count * phase.transfer_s) for name, _, count, phase in passes)
    rows += [
        _batch_row("transfer", module, f"{operator} in {name}", time_s, "network")
        for name, module, operator, time_s in (*sent, ("prefill", "workers", "keys and values", moved_s))
        if time_s > 0
    ]
    waits = [(name, count * phase.host_s) for name, _, count, phase in passes]
    return rows + [_batch_row("host", "host", f"host in {name}", s, "host") for name, s in waits if s > 0]


def _of_phase(name: str, of: PricedPass, count: Number, phase: Phase, constants: InferenceConstants) -> Iterator[Row]:
    """Rows of all passes of a phase: its work, then its collectives."""
    prices = of.in_engine(constants)
    ops = [(block, op) for block in of.program.blocks for op in block.operators if count * op.count > 0]
    for sends, whole_s in ((False, phase.times.compute_s + phase.times.memory_s), (True, phase.times.collective_s)):
        yield from exposed(
            (
                operator_row(
                    op,
                    prices[id(op)],
                    phase=name,
                    communication="communication",
                    block=block.name,
                    count=count * block.count * op.count,
                    time_s=prices[id(op)].time_s,
                )
                for block, op in ops
                if isinstance(op, Collective) == sends
            ),
            count * whole_s,
        )


def _batch_row(phase: str, module: str, operator: str, time_s: Number, bound: str) -> Row:
    """The row of something outside of blocks, over the whole batch."""
    s = float(time_s)
    return Row(phase=phase, block="batch", module=module, operator=operator, time_s=s, exposed_s=s, bound=bound)
