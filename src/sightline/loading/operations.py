"""A scenario of ``task: operator`` into an `OperatorScenario`, or every mistake in it.

A ``model`` is not looked at, and of a ``plan`` only the dtype and the attention kernel matter.
"""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from sightline.errors import InputError, nearest
from sightline.loading.input.complaints import Complaints, check, require
from sightline.loading.input.kinds import Keys, choice, each, flag, quantity, text, whole
from sightline.loading.operator_checks import (
    attention_mistakes,
    collective_mistakes,
    elementwise_mistakes,
    grouped_mistakes,
    matmul_mistakes,
)
from sightline.loading.parts import CLUSTER, read_measured, read_parts
from sightline.loading.plans.plan import PLAN, unpredicted
from sightline.quantities import BYTES, show
from sightline.scenario import (
    AttentionOperation,
    Cluster,
    CollectiveOperation,
    ElementwiseOperation,
    GroupedMatmulOperation,
    MatmulOperation,
    Operation,
    OperatorScenario,
)
from sightline.scenario.low_precision import LOW_PRECISION
from sightline.scenario.operation import COLLECTIVES, DTYPE_FORMATS, ELEMENTWISE, PLAIN_DTYPES
from sightline.scenario.rules import broken_rules, techniques

OPERATORS = ("matmul", "grouped_matmul", "attention", *COLLECTIVES, *ELEMENTWISE)
_SIZE = "a whole number of 1 or more"
_WITH_PRODUCTS = (MatmulOperation, GroupedMatmulOperation, AttentionOperation)
_HEAD = each(text, "task operator")
_TYPED = each(text, "dtype format")


class _Asked(NamedTuple):
    """What a kind of operator is asked by, and how it is read."""

    keys: Keys
    needed: tuple[str, ...]
    mistakes: Callable[[Mapping[str, Any], frozenset[str]], Iterator[str]]
    build: Callable[[dict[str, Any]], Operation]


def is_operation(mapping: object) -> bool:
    """Whether a scenario's mapping asks for a single operator."""
    workload = mapping.get("workload") if isinstance(mapping, Mapping) else None
    return isinstance(workload, Mapping) and workload.get("task") == "operator"


def operation_from_mapping(mapping: Mapping[str, Any]) -> OperatorScenario:
    """Return the scenario of a mapping whose workload is an operator; raise `InputError` with every mistake in it."""
    complaints = Complaints()
    parts = read_parts(mapping, CLUSTER, None, complaints)
    dtype = _plan_dtype(parts.plan, mapping["workload"].get("operator"), complaints)
    operation = _operation(mapping["workload"], dtype, complaints)
    if parts.cluster is not None and isinstance(operation, _WITH_PRODUCTS):
        complaints.add(*_dtype_mistakes(parts.cluster, operation.dtype, mapping))
    measured = read_measured(parts.measured, complaints)
    if complaints.problems or parts.cluster is None or operation is None:
        raise InputError(complaints.problems)
    return OperatorScenario(name=parts.name, cluster=parts.cluster, workload=operation, measured=measured)


def _plan_dtype(plan: object, operator: object, complaints: Complaints) -> str:
    """The plan's dtype, mistakes of the plan noted."""
    stated = check(PLAN, plan, "plan", complaints).values
    wrong = dict(unpredicted(stated))
    allowed = tuple(DTYPE_FORMATS) if operator in ("matmul", "grouped_matmul") else PLAIN_DTYPES
    if stated.get("dtype") in allowed:
        wrong.pop("dtype", None)
    elif stated.get("dtype") in LOW_PRECISION:
        wrong["dtype"] = f"plan.dtype is {show(stated['dtype'])}; this version predicts only {', '.join(allowed)}"
    complaints.add(*wrong.values())
    if operator == "attention" and stated.get("attention") == "eager":
        complaints.add("plan.attention is 'eager'; a single operator is only flash, the rest are matmuls and softmax")
    return "bf16" if "dtype" in wrong else stated.get("dtype", "bf16")


def _operation(workload: Mapping[str, Any], dtype: str, complaints: Complaints) -> Operation | None:
    """The operation where all of it is right, mistakes noted."""
    name = workload.get("operator")
    if name not in OPERATORS:
        said = "is missing; needed: one of" if name is None else f"is {show(name)}; allowed:"
        complaints.add(f"workload.operator {said} {', '.join(OPERATORS)}{nearest(name, OPERATORS) if name else ''}")
        return None
    asked = _asked(name)
    checked = check(asked.keys, workload, "workload", complaints)
    size = "bytes, such as '64 MiB'" if asked is _COLLECTIVE else _SIZE
    require(checked, dict.fromkeys(asked.needed, size), "workload", complaints)
    values = {"dtype": dtype} | {k: v for k, v in checked.values.items() if k != "task"}
    before = len(complaints.problems)
    complaints.add(*asked.mistakes(values, checked.wrong))
    if checked.wrong or len(complaints.problems) > before or any(k not in values for k in asked.needed):
        return None
    return asked.build(values)


def _asked(operator: str) -> _Asked:
    return _KINDS.get(operator, _COLLECTIVE if operator in COLLECTIVES else _ELEMENTWISE)


def keys_of(operator: str) -> Keys:
    """Return the keys of ``workload`` that ask for an operator."""
    return _asked(operator).keys


def _matmul(values: dict[str, Any]) -> Operation:
    return MatmulOperation(**_without(values, "operator"))


def _grouped_matmul(values: dict[str, Any]) -> Operation:
    fields = _without(values, "operator", "tokens")
    rows = {"rows": values["tokens"] * values["per_token"]} if "tokens" in values else {}
    return GroupedMatmulOperation(**fields, **rows)


def _attention(values: dict[str, Any]) -> Operation:
    own_cache = values.get("kv_dtype") != values["dtype"]
    fields = _without(values, "operator", *(() if own_cache else ("kv_dtype",)))
    kv_heads = 1 if fields.get("latent") else fields["heads"]
    return AttentionOperation(**{"kv_heads": kv_heads, "context_tokens": fields["query_tokens"]} | fields)


def _collective(values: dict[str, Any]) -> Operation:
    return CollectiveOperation(**_without(values, "dtype"))


def _elementwise(values: dict[str, Any]) -> Operation:
    elements = values.get("elements") or prod(values[key] for key in ("tokens", "width"))
    return ElementwiseOperation(operator=values["operator"], elements=elements, dtype=values["dtype"])


def _without(values: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


_KINDS: Mapping[str, _Asked] = {
    "matmul": _Asked(_HEAD | each(whole(), "m n k batch") | _TYPED, ("m", "n", "k"), matmul_mistakes, _matmul),
    "grouped_matmul": _Asked(
        _HEAD
        | each(whole(), "tokens rows per_token experts n k")
        | {"layout": choice("masked", "contiguous")}
        | _TYPED,
        ("experts", "n", "k"),
        grouped_mistakes,
        _grouped_matmul,
    ),
    "attention": _Asked(
        _HEAD
        | each(whole(), "batch heads kv_heads query_tokens context_tokens window")
        | each(whole(1, 10**6), "head_dim value_dim")
        | each(flag, "causal latent")
        | each(text, "dtype kv_dtype"),
        ("heads", "head_dim", "query_tokens"),
        attention_mistakes,
        _attention,
    ),
}
_COLLECTIVE = _Asked(
    _HEAD | {"bytes": quantity(BYTES)} | each(text, "library version"), ("bytes",), collective_mistakes, _collective
)
_ELEMENTWISE = _Asked(
    _HEAD | {"elements": whole(1, 10**15)} | each(whole(), "tokens width") | {"dtype": text},
    (),
    elementwise_mistakes,
    _elementwise,
)


def _dtype_mistakes(cluster: Cluster, dtype: str, mapping: Mapping[str, Any]) -> Iterator[str]:
    own = "dtype" in mapping["workload"]
    plan = mapping.get("plan")
    stated = own or (isinstance(plan, Mapping) and "dtype" in plan)
    facts = {"device": cluster.device, "dtype": dtype, "dtype_is_stated": stated}
    for sentence in broken_rules((techniques.dtype,), facts):
        yield sentence.replace("plan.", "workload.", 1) if own else sentence
