"""A row of a profile's table from an operator and its price."""

from sightline.cost.operator_cost import OperatorCost
from sightline.profile import Row
from sightline.program import Collective, Operator
from sightline.quantities import Number


def operator_row(
    op: Operator, price: OperatorCost, *, phase: str, communication: str, block: str, count: Number, time_s: Number
) -> Row:
    """Return the row of ``count`` executions of ``time_s`` seconds in ``phase``, all exposed.

    A collective counts as ``communication`` and says which phase it runs in.
    """
    sends = isinstance(op, Collective)
    bound = "network" if sends else "compute" if price.compute_s >= price.memory_s else "memory"
    return Row(
        phase=communication if sends else phase,
        block=block,
        module=op.module,
        operator=f"{op.name} in {phase}" if sends else op.name,
        count=float(count),
        flops=float(count * op.flops),
        bytes=float(count * op.bytes),
        network_bytes=float(count * op.network_bytes),
        time_s=float(count * time_s),
        exposed_s=float(count * time_s),
        bound=bound,
    )
