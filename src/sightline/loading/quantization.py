"""``plan.quantization``: the formats of weights and cache, and in what a router in fp32 is multiplied."""

from sightline.errors import nearest
from sightline.loading.complaints import Complaints
from sightline.quantities import show
from sightline.scenario.quantization import CACHE_BYTES, QUANTIZATIONS, ROUTER_DTYPES


def read_quantization(value: object, key: str, complaints: Complaints) -> tuple[str, ...] | None:
    """Return the formats that a plan lists: none stated is None, ``none`` is the empty tuple; mistakes are noted."""
    if value is None:
        return None
    words = list(value) if isinstance(value, list | tuple) else [value]
    if words == ["none"]:
        return ()
    wrong = [w for w in words if w not in QUANTIZATIONS]
    for word in wrong:
        near = nearest(word, QUANTIZATIONS) if isinstance(word, str) else ""
        complaints.add(f"{key} is {show(word)}; allowed: none, {', '.join(QUANTIZATIONS)}{near}")
    known = [str(w) for w in words if w not in wrong]
    cache = [w for w in known if w in CACHE_BYTES]
    router = [w for w in known if w in ROUTER_DTYPES]
    if len(cache) > 1 or len(router) > 1 or len(known) - len(cache) - len(router) > 1:
        allowed = "one format of the weights, beside one of the cache and one of the router"
        complaints.add(f"{key} lists {', '.join(known)}; allowed: {allowed}")
    return tuple(known)
