"""A scenario of ``task: operator`` into an `OperatorScenario`, or every mistake in it.

A ``model`` is not looked at, and of a ``plan`` only the dtype and the attention kernel matter.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from pydantic import BaseModel

from sightline.errors import InputError, nearest
from sightline.loading.checks import device_computes_in_dtype
from sightline.loading.clusters import cluster_of
from sightline.loading.complaints import Complaints, check, require
from sightline.loading.measured import read_measured
from sightline.loading.not_yet import DTYPES, PREDICTED, unpredicted
from sightline.loading.schema import AttentionKeys, CollectiveKeys, ElementwiseKeys, MatmulKeys, PlanKeys, ScenarioKeys
from sightline.quantities import show
from sightline.scenario import (
    AttentionOperation,
    Cluster,
    CollectiveOperation,
    ElementwiseOperation,
    MatmulOperation,
    Operation,
    OperatorScenario,
)
from sightline.scenario.operation import COLLECTIVES, ELEMENTWISE

OPERATORS = ("matmul", "attention", *COLLECTIVES, *ELEMENTWISE)
_SIZE = "a whole number of 1 or more"
_NEEDED: Mapping[type[BaseModel], tuple[str, ...]] = {
    MatmulKeys: ("m", "n", "k"),
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
    top = check(ScenarioKeys, mapping, "", complaints)
    require(top, {"cluster": "'<count>x <device>', a name of the catalog or a mapping"}, "", complaints)
    cluster = cluster_of(top, complaints)
    dtype = _plan_dtype(top.values.get("plan"), mapping["workload"].get("operator"), complaints)
    operation = _operation(mapping["workload"], dtype, complaints)
    if cluster is not None and isinstance(operation, MatmulOperation | AttentionOperation):
        complaints.add(*_dtype_mistakes(cluster, operation.dtype, mapping))
    measured = read_measured(top.values.get("measured"), complaints)
    if complaints.problems or cluster is None or operation is None:
        raise InputError(complaints.problems)
    return OperatorScenario(name=top.values.get("name", ""), cluster=cluster, workload=operation, measured=measured)


def _plan_dtype(plan: object, operator: object, complaints: Complaints) -> str:
    """The plan's dtype, mistakes of the plan noted."""
    stated = check(PlanKeys, plan, "plan", complaints).values
    wrong = dict(unpredicted(stated))
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
    special: dict[str, type[BaseModel]] = {"matmul": MatmulKeys, "attention": AttentionKeys}
    return special.get(operator, CollectiveKeys if operator in COLLECTIVES else ElementwiseKeys)


def _mistakes(values: Mapping[str, Any], wrong: frozenset[str], keys: type[BaseModel]) -> Iterator[str]:
    """Yield what makes no sense together, as far as the values are good."""
    dtype = values["dtype"]
    if dtype not in PREDICTED["dtype"]:
        known = dtype in DTYPES
        said = f"this version predicts only {', '.join(map(str, PREDICTED['dtype']))}"
        yield f"workload.dtype is {show(dtype)}; " + (
            said if known else f"allowed: {', '.join(DTYPES)}{nearest(dtype, DTYPES)}"
        )
    if keys is AttentionKeys:
        yield from _attention_mistakes(values)
    if keys is ElementwiseKeys and not wrong:
        given = {"elements", "tokens", "width"} & values.keys()
        if given not in ({"elements"}, {"tokens", "width"}):
            listed = " and ".join(sorted(given)) or "nothing"
            yield f"workload gives {listed} as the size; needed: elements, or tokens and width"


def _attention_mistakes(values: Mapping[str, Any]) -> Iterator[str]:
    heads, kv_heads = values.get("heads"), values.get("kv_heads")
    if heads and kv_heads and heads % kv_heads:
        yield f"workload.kv_heads is {kv_heads}; allowed: a divisor of the {heads} heads"
    query, context = values.get("query_tokens"), values.get("context_tokens")
    if query and context and context < query and values.get("causal", True):
        yield (
            f"workload.context_tokens is {context}; allowed with causal: the {query} query tokens or more, "
            "which the context includes"
        )
    if values.get("kv_dtype", values["dtype"]) != values["dtype"]:
        yield f"workload.kv_dtype is {show(values['kv_dtype'])}; this version predicts only the dtype, {values['dtype']}"


def _built(values: dict[str, Any], keys: type[BaseModel]) -> Operation:
    if keys is CollectiveKeys:
        return CollectiveOperation(operator=values["operator"], bytes=values["bytes"])
    if keys is ElementwiseKeys:
        elements = values.get("elements") or prod(values[key] for key in ("tokens", "width"))
        return ElementwiseOperation(operator=values["operator"], elements=elements, dtype=values["dtype"])
    fields = {k: v for k, v in values.items() if k not in ("operator", "kv_dtype")}
    if keys is MatmulKeys:
        return MatmulOperation(**fields)
    return AttentionOperation(**{"kv_heads": fields["heads"], "context_tokens": fields["query_tokens"]} | fields)


def _dtype_mistakes(cluster: Cluster, dtype: str, mapping: Mapping[str, Any]) -> Iterator[str]:
    own = "dtype" in mapping["workload"]
    plan = mapping.get("plan")
    stated = own or (isinstance(plan, Mapping) and "dtype" in plan)
    for sentence in device_computes_in_dtype(cluster.device, dtype, stated):
        yield sentence.replace("plan.", "workload.", 1) if own else sentence
