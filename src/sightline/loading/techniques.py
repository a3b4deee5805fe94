"""Offloading, recomputation, quantization and adapters of a plan, read into their descriptions."""

from collections.abc import Mapping
from typing import Any

from sightline.kinds import anything, choice, fraction, quantity, whole
from sightline.loading.input.checks import Complaints, Keys, Needed, check, each, words_of
from sightline.quantities import COUNT, show
from sightline.scenario.plan import OFFLOADABLE, TRAINING_QUANTIZATIONS
from sightline.scenario.precision import CACHE_BYTES, QUANTIZATIONS, ROUTER_DTYPES
from sightline.scenario.techniques import ALL_LINEAR, JOINED, MODULE_NAMES, MODULES, PROJECTIONS, Adapter, Recomputation

SAME_QUANTIZATION: Mapping[str, str] = {"w8a16": "int8", "w4a16": "int4"}
"""Words of generation for what training calls by the other."""

QLORA_FORMAT = "nf4"
"""Format of the frozen weights that ``qlora`` implies (arXiv 2305.14314)."""

TARGETS = (*PROJECTIONS, JOINED)
ALSO_TRAINED = ("embedding", "head")


_ADAPTER: Keys = {
    "kind": Needed(choice("lora", "qlora", "none"), "lora, qlora"),
    "rank": whole(1, 10**5),
    "alpha": quantity(COUNT),
    "dropout": fraction,
    **each(anything, "targets also_trained"),
}

_RECOMPUTE: Keys = {"modules": anything, **each(whole(1, 10**5), "every together"), "layers": whole(0, 10**5)}
_WHOLE_RECOMPUTE = ("selective", "full")
"""Words of ``recompute`` that stand alone."""


def read_techniques(stated: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """Return the fields of `Plan` that the stated offload, recomputation, quantization and adapter mean.

    Mistakes are noted.

    A technique with a mistake is left out of what is returned.
    """
    read: dict[str, Any] = {}
    before = len(complaints.problems)
    if "offload" in stated:
        read["offload"] = frozenset(words_of(stated["offload"], "plan.offload", OFFLOADABLE, {}, complaints))
    if "quantization" in stated:
        words = words_of(
            stated["quantization"], "plan.quantization", TRAINING_QUANTIZATIONS, SAME_QUANTIZATION, complaints
        )
        if len(words) > 1:
            complaints.add(f"plan.quantization is {show(list(words))}; allowed in training: one format of the weights")
        read["quantization"] = words[0] if words else "none"
    if "recompute" in stated:
        read["recompute"] = read_recompute(stated["recompute"], complaints)
    if "adapter" in stated:
        read |= _adapter(stated["adapter"], read.get("quantization"), complaints)
    return read if len(complaints.problems) == before else {}


def _adapter(value: object, quantization: str | None, complaints: Complaints) -> dict[str, Any]:
    if value == "none":
        return {"adapter": None}
    before = len(complaints.problems)
    checked = check(_ADAPTER, {"kind": value} if isinstance(value, str) else value, "plan.adapter", complaints)
    values = dict(checked.values)
    if values.get("kind") == "none":
        return {"adapter": None}
    if "targets" in values and values["targets"] != ALL_LINEAR:
        targets = words_of(values["targets"], "plan.adapter.targets", (ALL_LINEAR, *TARGETS), MODULE_NAMES, complaints)
        values["targets"] = ALL_LINEAR if ALL_LINEAR in targets else targets
        if not targets:
            complaints.add(f"plan.adapter.targets is none; allowed: {', '.join((ALL_LINEAR, *TARGETS))}")
    if "also_trained" in values:
        key = "plan.adapter.also_trained"
        values["also_trained"] = words_of(values["also_trained"], key, ALSO_TRAINED, {}, complaints)
    if len(complaints.problems) > before:
        return {}
    adapter = {"adapter": Adapter(**values)}
    return adapter if values["kind"] == "lora" else adapter | {"quantization": quantization or QLORA_FORMAT}


def read_recompute(value: object, complaints: Complaints) -> str | Recomputation | None:
    """Return what ``value`` asks for; None after a mistake, which is noted."""
    before = len(complaints.problems)
    checked = check(_RECOMPUTE, value, "plan.recompute", complaints) if isinstance(value, Mapping) else None
    stated: dict[str, Any] = {} if checked is None else dict(checked.values)
    modules = stated.pop("modules", "full" if checked is not None else value)
    key = "plan.recompute.modules" if checked is not None else "plan.recompute"
    words = words_of(modules, key, (*_WHOLE_RECOMPUTE, *MODULES), {}, complaints)
    if len(complaints.problems) > before:
        return None
    return _recomputation(words, stated, key, complaints)


def _recomputation(
    words: tuple[str, ...], stated: Mapping[str, Any], key: str, complaints: Complaints
) -> str | Recomputation | None:
    """Recomputation from its words and the further keys of its mapping."""
    if not words:
        return "none"
    scalars = [word for word in words if word in _WHOLE_RECOMPUTE]
    if scalars and len(words) == 1 and not stated:
        return scalars[0]
    if scalars and len(words) > 1:
        complaints.add(f"{key} lists {scalars[0]} together with modules; allowed: {scalars[0]} alone, or modules")
    elif scalars == ["selective"]:
        complaints.add(f"{key} is selective with {', '.join(stated)}; allowed with these: full, or a list of modules")
    elif not scalars and stated.get("together", 1) > 1:
        complaints.add(f"plan.recompute.together is {stated['together']} with modules; allowed: 1, or modules full")
    else:
        return Recomputation(modules=frozenset(() if scalars else words), **stated)
    return None


def read_quantization(value: object, key: str, complaints: Complaints) -> tuple[str, ...] | None:
    """Return the formats that a plan lists: none stated is None, ``none`` is the empty tuple; mistakes are noted."""
    if value is None:
        return None
    known = words_of(value, key, QUANTIZATIONS, {}, complaints)
    listed = [w for w in value if w in known] if isinstance(value, list | tuple) else known
    cache = [w for w in listed if w in CACHE_BYTES]
    router = [w for w in listed if w in ROUTER_DTYPES]
    if len(cache) > 1 or len(router) > 1 or len(listed) - len(cache) - len(router) > 1:
        allowed = "one format of the weights, one of the cache and one of the router"
        complaints.add(f"{key} lists {', '.join(listed)}; allowed: {allowed}")
    return known
