"""What a step loses to matrix products that are too small for its device, and how to make them larger."""

import re
from typing import NamedTuple

from sightline.explanation.traced.fault import part
from sightline.explanation.traced.figures import Figures
from sightline.prediction.changes import seconds
from sightline.quantities import FLOPS, format_quantity
from sightline.traces.findings import SmallProducts

_SHARED = 0.2
"""Share of products that read the input of the one before from which on fusing them is advised."""
_GAPS = 0.05
"""Share of the step that waits for launches from which on CUDA graphs are."""
_FILLED = 0.5
"""Share of the rate of large products from which on small ones fill the device well enough."""
_LARGE = 8192
"""Rows, columns and depth of a product that reaches what a device gives."""
_STATED = re.compile(r"(\d+) ?GB", re.IGNORECASE)


class Lost(NamedTuple):
    """What larger products would save at best."""

    gain_s: float
    sentence: str


def lost(figures: Figures, small: SmallProducts) -> Lost | None:
    """Return what small products lose; None where they run at about the rate of large ones.

    At best their arithmetic takes as long as at the rate that large products of the same format reach in the same
    trace, or where it has none, at that predicted for the device. Without FLOPs, only what products of twice the size
    would save is told: half of the kernels, each of which takes at least as long as the shortest.
    """
    rates = {name: rate for name in small.flops if (rate := _rate(figures, small, name)) > 0}
    if not rates or set(rates) != set(small.flops):
        gain = 0.5 * small.count * small.shortest_s
        why = "their FLOPs are not known (record_shapes=True tells them); half as many, of twice the size, would save"
        return Lost(gain, _sentence(figures, small, f"{why} {seconds(gain)} at best"))
    best_s = sum(small.flops[name] / rate for name, rate in rates.items())
    if best_s > _FILLED * small.known_s:
        return None
    fastest = max(rates.values())
    own = sum(small.flops.values()) / small.known_s
    why = (
        f"they reach {format_quantity(own, FLOPS)}, large ones reach {format_quantity(fastest, FLOPS)} on this device; "
        f"at that rate they would take {seconds(best_s)}, which is the best case"
    )
    return Lost(small.known_s - best_s, _sentence(figures, small, why))


def _sentence(figures: Figures, small: SmallProducts, why: str) -> str:
    each = seconds(small.exposed_s / small.count)
    return (
        f"Make the matrix products larger. {small.count:,.0f} of them a step take {each} each, "
        f"{part(figures, small.exposed_s)}, too short to fill the device: {why}. "
        f"{'; '.join(_remedies(figures, small))}."
    )


def _remedies(figures: Figures, small: SmallProducts) -> list[str]:
    rows = f" (a product has {small.rows:,} rows now)" if small.rows >= 0 else ""
    more = (
        "Raise the micro-batch, with as many fewer accumulation steps where the batch has to stay"
        if figures.trains
        else "Raise the batch"
    )
    found = [f"{more}{rows}"]
    if small.shared_input >= _SHARED:
        found.append("fuse the products that read the same input, as queries, keys and values, or gate and up, do")
    if figures.limits.get("launches", 0.0) > _GAPS * figures.whole_s:
        found.append("CUDA graphs remove the waits for launches between them")
    return found


def _rate(figures: Figures, small: SmallProducts, dtype: str) -> float:
    """FLOP/s of large products of a format; 0 where neither the trace nor the catalog tells."""
    return small.large_flops_per_s.get(dtype) or (_predicted(figures, dtype) if dtype else 0.0)


def _predicted(figures: Figures, dtype: str) -> float:
    from sightline.errors import InputError
    from sightline.loading import operation_from_mapping
    from sightline.loading.clusters.cluster import catalog_name
    from sightline.prediction import predict

    stated = _STATED.search(figures.device)
    memory = figures.device_memory_bytes or (int(stated[1]) * 1e9 if stated else 0.0)
    if (device := catalog_name({"name": figures.device, "memory_bytes": memory})) is None:
        return 0.0
    sizes = dict.fromkeys(("m", "n", "k"), _LARGE)
    asked = {
        "cluster": f"1x {device}",
        "workload": {"task": "operator", "operator": "matmul", **sizes},
        "plan": {"dtype": dtype},
    }
    try:
        return 2.0 * _LARGE**3 / float(predict(operation_from_mapping(asked)).whole_s)
    except InputError:
        return 0.0
