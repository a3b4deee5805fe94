"""A scenario of ``task: operator`` into an `OperatorScenario`, or every mistake in it.

A ``model`` is not looked at, and of a ``plan`` only the dtype and the attention kernel matter.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from pydantic import BaseModel

from sightline.errors import InputError, nearest
from sightline.loading.complaints import Complaints, check, require
from sightline.loading.measured import read_measured
from sightline.loading.not_yet import unpredicted
from sightline.loading.operation_checks import (
    attention_mistakes,
    collective_mistakes,
    elementwise_mistakes,
    grouped_mistakes,
    matmul_mistakes,
)
from sightline.loading.scenarios import CLUSTER, read_parts
from sightline.loading.schema import (
    AttentionKeys,
    CollectiveKeys,
    ElementwiseKeys,
    GroupedMatmulKeys,
    MatmulKeys,
    PlanKeys,
)
from sightline.quantities import show
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
_NEEDED: Mapping[type[BaseModel], tuple[str, ...]] = {
    MatmulKeys: ("m", "n", "k"),
    GroupedMatmulKeys: ("experts", "n", "k"),
    AttentionKeys: ("heads", "head_dim", "query_tokens"),
    CollectiveKeys: ("bytes",),
    ElementwiseKeys: (),
}


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
    stated = check(PlanKeys, plan, "plan", complaints).values
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
    keys = _keys_of(name)
    checked = check(keys, workload, "workload", complaints)
    size = "bytes, such as '64 MiB'" if keys is CollectiveKeys else _SIZE
    require(checked, dict.fromkeys(_NEEDED[keys], size), "workload", complaints)
    values = {"dtype": dtype} | {k: v for k, v in checked.values.items() if k != "task"}
    before = len(complaints.problems)
    complaints.add(*_mistakes(values, checked.wrong, keys))
    if checked.wrong or len(complaints.problems) > before or any(k not in values for k in _NEEDED[keys]):
        return None
    return _built(values, keys)


def _keys_of(operator: str) -> type[BaseModel]:
    special: dict[str, type[BaseModel]] = {
        "matmul": MatmulKeys,
        "grouped_matmul": GroupedMatmulKeys,
        "attention": AttentionKeys,
    }
    return special.get(operator, CollectiveKeys if operator in COLLECTIVES else ElementwiseKeys)


def _mistakes(values: Mapping[str, Any], wrong: frozenset[str], keys: type[BaseModel]) -> Iterator[str]:
    """Yield what makes no sense together, as far as the values are good."""
    if keys is MatmulKeys:
        yield from matmul_mistakes(values)
    elif keys is GroupedMatmulKeys:
        yield from grouped_mistakes(values, wrong)
    elif keys is AttentionKeys:
        yield from attention_mistakes(values)
    elif keys is CollectiveKeys:
        yield from collective_mistakes(values)
    else:
        yield from elementwise_mistakes(values, wrong)


def _built(values: dict[str, Any], keys: type[BaseModel]) -> Operation:
    fields = {k: v for k, v in values.items() if k != "operator"}
    if keys is CollectiveKeys:
        del fields["dtype"]
        return CollectiveOperation(operator=values["operator"], **fields)
    if keys is ElementwiseKeys:
        elements = values.get("elements") or prod(values[key] for key in ("tokens", "width"))
        return ElementwiseOperation(operator=values["operator"], elements=elements, dtype=values["dtype"])
    if keys is MatmulKeys:
        return MatmulOperation(**fields)
    if keys is GroupedMatmulKeys:
        tokens = fields.pop("tokens", None)
        return GroupedMatmulOperation(**fields if tokens is None else fields | {"rows": tokens * fields["per_token"]})
    if fields.get("kv_dtype") == fields["dtype"]:
        del fields["kv_dtype"]
    kv_heads = 1 if fields.get("latent") else fields["heads"]
    return AttentionOperation(**{"kv_heads": kv_heads, "context_tokens": fields["query_tokens"]} | fields)


def _dtype_mistakes(cluster: Cluster, dtype: str, mapping: Mapping[str, Any]) -> Iterator[str]:
    own = "dtype" in mapping["workload"]
    plan = mapping.get("plan")
    stated = own or (isinstance(plan, Mapping) and "dtype" in plan)
    facts = {"device": cluster.device, "dtype": dtype, "dtype_is_stated": stated}
    for sentence in broken_rules((techniques.dtype,), facts):
        yield sentence.replace("plan.", "workload.", 1) if own else sentence
