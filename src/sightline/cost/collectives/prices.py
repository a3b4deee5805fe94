"""Prices of collectives between the ranks of a plan."""

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.groups import Group
from sightline.cost.operator_cost import Alike, OperatorCost
from sightline.cost.ranks import Ranks
from sightline.program.routing import distinct_ranks
from sightline.quantities import Number, identity


def price_collectives(alike: Alike, on: Ranks) -> OperatorCost:
    """Collectives of one kind and group mostly carry the same buffer, so that each distinct one is priced once."""
    first, found, times = alike.first, {}, []
    group = on.group(first.ranks)
    for op in alike.operators:
        key = (op.choices, identity(op.buffer_bytes))
        if key not in found:
            found[key] = collective_time(
                first.kind,
                op.buffer_bytes,
                group=group,
                cluster=on.cluster,
                constants=on.library,
                across=_across(op.choices, group),
            )
        times.append(found[key])
    nothing = [0.0 * time_s for time_s in times]
    return OperatorCost(times, nothing, nothing)  # type: ignore[arg-type]


def _across(choices: tuple[float, float, float] | None, group: Group) -> Number:
    """Copies that cross the network of those for each rank, where a node's ranks share one."""
    if choices is None:
        return 1.0
    chosen, of, share = choices
    nodes = -(-group.size // group.ranks_per_node)
    reached = distinct_ranks(of, chosen, group.size, group_share=share)
    return distinct_ranks(of, chosen, nodes, group_share=share) / reached
