"""The table of a generation: a row per operator address, over the whole batch, on one device."""

from collections.abc import Sequence

from sightline.cost.inference_constants import InferenceConstants
from sightline.cost.pricing import Prices
from sightline.prediction.generation_phases import Phase
from sightline.prediction.generation_pricing import PricedGeneration
from sightline.prediction.inference_pass import engine_time
from sightline.profile import Row
from sightline.program import Collective, Operator
from sightline.program.inference import Pass
from sightline.quantities import Number


def generation_rows(
    prefilling: PricedGeneration,
    decoding: PricedGeneration,
    parts: Sequence[tuple[Number, Phase]],
    constants: InferenceConstants,
) -> list[Row]:
    """Return the rows of a scalar prediction; device time of one device with all layers, so the host's is not in it."""
    (prefills, _), (steps, _) = parts
    prefill = _rows("prefill", prefilling.prefill, prefilling.prices, float(prefills), constants)
    return prefill + _rows("decode", decoding.decode, decoding.prices, float(steps), constants)


def _rows(phase: str, of: Pass, prices: Prices, passes: float, constants: InferenceConstants) -> list[Row]:
    return [
        _row(phase, block.name, op, passes * block.count * float(op.count), prices, constants)
        for block in of.blocks
        for op in block.operators
        if passes * op.count > 0
    ]


def _row(phase: str, block: str, op: Operator, count: float, prices: Prices, constants: InferenceConstants) -> Row:
    price = prices[id(op)]
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
        time_s=float(count * engine_time(op, price, constants)),
        bound=bound,
    )
