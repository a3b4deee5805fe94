"""What a plan says about offloading, recomputation, quantized frozen weights and adapters, each as the description holds it."""

from collections.abc import Mapping
from typing import Annotated, Any

from sightline.loading.complaints import Complaints, check
from sightline.loading.fields import choice, fraction, quantity, whole
from sightline.loading.recomputation import read_recompute
from sightline.loading.schema import Section
from sightline.loading.word_lists import words_of
from sightline.quantities import COUNT, show
from sightline.scenario.adapter import ALL_LINEAR, JOINED, MODULE_NAMES, PROJECTIONS, Adapter
from sightline.scenario.plan import OFFLOADABLE, TRAINING_QUANTIZATIONS

SAME_QUANTIZATION: Mapping[str, str] = {"w8a16": "int8", "w4a16": "int4"}
"""Words of generation for what training calls by the other."""

QLORA_FORMAT = "nf4"
"""Format of the frozen weights that ``qlora`` implies (arXiv 2305.14314)."""

TARGETS = (*PROJECTIONS, JOINED)
ALSO_TRAINED = ("embedding", "head")


class AdapterKeys(Section):
    """``plan.adapter``."""

    kind: Annotated[str | None, choice("lora", "qlora", "none")] = None
    rank: Annotated[int | None, whole(1, 10**5)] = None
    alpha: Annotated[float | None, quantity(COUNT)] = None
    dropout: Annotated[float | None, fraction()] = None
    targets: Any = None
    also_trained: Any = None


def read_techniques(stated: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """Return the fields of `Plan` that the stated offload, recomputation, quantization and adapter mean; mistakes are noted.

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
    checked = check(AdapterKeys, {"kind": value} if isinstance(value, str) else value, "plan.adapter", complaints)
    values = dict(checked.values)
    if "kind" not in values and "kind" not in checked.wrong:
        complaints.add("plan.adapter.kind is missing; needed: lora, qlora")
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
