"""A scenario of ``task: operator`` into an `OperatorScenario`, or every mistake in it.

A ``model`` is not looked at, and of a ``plan`` only the dtype and the attention kernel matter.
"""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from sightline.errors import InputError, nearest
from sightline.loading.input.checks import Complaints, Keys, Needed, check, choice, each, flag, quantity, text, whole
from sightline.loading.operator_checks import (
    attention_mistakes,
    collective_mistakes,
    elementwise_mistakes,
    grouped_mistakes,
    matmul_mistakes,
)
from sightline.loading.parts import CLUSTER, read_parts
from sightline.loading.plan import GENERATION_ONLY, PLAN, dtype_problem, note_useless
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
from sightline.scenario.operation import COLLECTIVES, DTYPE_FORMATS, ELEMENTWISE, PLAIN_DTYPES
from sightline.scenario.rules import broken_rules, techniques

_SIZE = Needed(whole(), "a whole number of 1 or more")
_WITH_PRODUCTS = (MatmulOperation, GroupedMatmulOperation, AttentionOperation)
HEAD = each(text, "task operator")
"""Keys of every operator."""
_TYPED = each(text, "dtype format")
Values = dict[str, Any]


class _Asked(NamedTuple):
    """What a kind of operator is asked by, and how it is read."""

    keys: Keys
    mistakes: Callable[[Mapping[str, Any], frozenset[str]], Iterator[str]]
    build: Callable[[Values], Operation]


def operation_from_mapping(mapping: Mapping[str, Any]) -> OperatorScenario:
    """Return the scenario of a mapping whose workload is an operator; raise `InputError` with every mistake in it."""
    complaints = Complaints()
    parts = read_parts(mapping, CLUSTER, None, complaints)
    dtype = _plan_dtype(parts.plan, mapping["workload"].get("operator"), complaints)
    operation = _operation(mapping["workload"], dtype, complaints)
    if parts.cluster is not None and isinstance(operation, _WITH_PRODUCTS):
        complaints.add(*_dtype_mistakes(parts.cluster, operation.dtype, mapping))
    if complaints.problems or parts.cluster is None or operation is None:
        raise InputError(complaints.problems)
    return OperatorScenario(name=parts.name, cluster=parts.cluster, workload=operation, measured=parts.measured)


def _plan_dtype(plan: object, operator: object, complaints: Complaints) -> str:
    """The plan's dtype, mistakes of the plan noted."""
    stated = check(PLAN, plan, "plan", complaints).values
    note_useless(stated, GENERATION_ONLY, "generation, an operator", complaints)
    if operator == "attention" and stated.get("attention") == "eager":
        complaints.add("plan.attention is 'eager'; a single operator is only flash, the rest are matmuls and softmax")
    dtype: str = stated.get("dtype", "bf16")
    allowed = tuple(DTYPE_FORMATS) if operator in ("matmul", "grouped_matmul") else PLAIN_DTYPES
    if dtype in allowed:
        return dtype
    complaints.add(f"plan.dtype is {dtype_problem(dtype, allowed)}")
    return "bf16"


def _operation(workload: Mapping[str, Any], dtype: str, complaints: Complaints) -> Operation | None:
    """The operation where all of it is right, mistakes noted."""
    name = workload.get("operator")
    if not isinstance(name, str) or name not in OPERATORS:
        said = "is missing; needed: one of" if name is None else f"is {show(name)}; allowed:"
        complaints.add(f"workload.operator {said} {', '.join(OPERATORS)}{nearest(name, list(OPERATORS))}")
        return None
    asked = OPERATORS[name]
    before = len(complaints.problems)
    checked = check(HEAD | dict(asked.keys), workload, "workload", complaints)
    values = {"dtype": dtype} | checked.values
    complaints.add(*asked.mistakes(values, checked.wrong))
    return asked.build(_without(values, "task")) if len(complaints.problems) == before else None


def _matmul(values: Values) -> Operation:
    return MatmulOperation(**_without(values, "operator"))


def _grouped_matmul(values: Values) -> Operation:
    fields = _without(values, "operator", "tokens")
    rows = {"rows": values["tokens"] * values["per_token"]} if "tokens" in values else {}
    return GroupedMatmulOperation(**fields, **rows)


def _attention(values: Values) -> Operation:
    own_cache = values.get("kv_dtype") != values["dtype"]
    fields = _without(values, "operator", *(() if own_cache else ("kv_dtype",)))
    kv_heads = 1 if fields.get("latent") else fields["heads"]
    return AttentionOperation(**{"kv_heads": kv_heads, "context_tokens": fields["query_tokens"]} | fields)


def _collective(values: Values) -> Operation:
    return CollectiveOperation(**_without(values, "dtype"))


def _elementwise(values: Values) -> Operation:
    elements = values.get("elements") or prod(values[key] for key in ("tokens", "width"))
    return ElementwiseOperation(operator=values["operator"], elements=elements, dtype=values["dtype"])


def _without(values: Values, *keys: str) -> Values:
    return {key: value for key, value in values.items() if key not in keys}


OPERATORS: Mapping[str, _Asked] = {
    "matmul": _Asked(each(_SIZE, "m n k") | {"batch": whole()} | _TYPED, matmul_mistakes, _matmul),
    "grouped_matmul": _Asked(
        each(whole(), "tokens rows per_token")
        | each(_SIZE, "experts n k")
        | {"layout": choice("masked", "contiguous")}
        | _TYPED,
        grouped_mistakes,
        _grouped_matmul,
    ),
    "attention": _Asked(
        each(_SIZE, "heads query_tokens")
        | {"head_dim": Needed(whole(1, 10**6), _SIZE.what), "value_dim": whole(1, 10**6)}
        | each(whole(), "batch kv_heads context_tokens window")
        | each(flag, "causal latent")
        | each(text, "dtype kv_dtype"),
        attention_mistakes,
        _attention,
    ),
    **dict.fromkeys(
        COLLECTIVES,
        _Asked(
            {"bytes": Needed(quantity(BYTES), "bytes, such as '64 MiB'")} | each(text, "library version"),
            collective_mistakes,
            _collective,
        ),
    ),
    **dict.fromkeys(
        ELEMENTWISE,
        _Asked(
            {"elements": whole(1, 10**15)} | each(whole(), "tokens width") | {"dtype": text},
            elementwise_mistakes,
            _elementwise,
        ),
    ),
}
"""What each operator is asked by, and how it is read."""


def _dtype_mistakes(cluster: Cluster, dtype: str, mapping: Mapping[str, Any]) -> Iterator[str]:
    own = "dtype" in mapping["workload"]
    plan = mapping.get("plan")
    stated = own or (isinstance(plan, Mapping) and "dtype" in plan)
    facts = {"device": cluster.device, "dtype": dtype, "dtype_is_stated": stated}
    for sentence in broken_rules((techniques.dtype,), facts):
        yield sentence.replace("plan.", "workload.", 1) if own else sentence
