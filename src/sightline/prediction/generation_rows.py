"""The table of a generation: a row per operator address, over the whole batch, on one device."""

from sightline.prediction.generation_pricing import Phase, Priced
from sightline.profile import Row
from sightline.program import Collective, Operator


def generation_rows(prefilling: Priced, decoding: Priced) -> list[Row]:
    """Return the rows of a scalar prediction; device time of one device with all layers, so the host's is not in it."""
    return [*_phase_rows("prefill", prefilling, prefilling.prefill), *_phase_rows("decode", decoding, decoding.decode)]


def _phase_rows(name: str, priced: Priced, phase: Phase) -> list[Row]:
    return [
        _row(name, block.name, op, float(phase.count * block.count * op.count), priced)
        for block in phase.of.blocks
        for op in block.operators
        if op.count > 0 and phase.count > 0
    ]


def _row(phase: str, block: str, op: Operator, count: float, priced: Priced) -> Row:
    price = priced.prices[id(op)]
    bound = "network" if isinstance(op, Collective) else "compute" if price.compute_s > price.memory_s else "memory"
    return Row(
        phase=phase,
        block=block,
        module=op.module,
        operator=op.name,
        count=count,
        flops=float(count * op.flops),
        bytes=float(count * op.bytes),
        network_bytes=float(count * op.network_bytes),
        time_s=float(count * price.time_s),
        bound=bound,
    )
