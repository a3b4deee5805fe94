"""A scenario of ``task: operator`` into an `OperatorScenario`, or every mistake in it.

A ``model`` is not looked at, and of a ``plan`` only the dtype and the attention kernel matter.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from sightline.catalog import entry, names
from sightline.errors import InputError, nearest
from sightline.loading.checks import Complaints, check, each, not_among
from sightline.loading.parts import CLUSTER, read_parts
from sightline.loading.plans import dtype_problem, note_generation_only, read_keys
from sightline.quantities import show
from sightline.scenario import (
    AttentionOperation,
    Cluster,
    CollectiveOperation,
    ElementwiseOperation,
    GroupedMatmulOperation,
    HostCopyOperation,
    MatmulOperation,
    Operation,
    OperatorScenario,
)
from sightline.scenario.cluster import COLLECTIVES
from sightline.scenario.operation import (
    CACHE_DTYPES,
    COPY_DIRECTIONS,
    DTYPE_FORMATS,
    ELEMENTWISE,
    FORMATS,
    MODEL_DTYPES,
    PLAIN_DTYPES,
)
from sightline.scenario.rules import techniques
from sightline.scenario.rules.rulebook import Broken, broken_rules
from sightline.validators import Keys, keys_of, text, whole

_WITH_PRODUCTS = (MatmulOperation, GroupedMatmulOperation, AttentionOperation)
HEAD = each(text, "task operator")
"""Keys of every operator."""
_LIBRARIES = ("nccl", "custom")
_RELEASE = re.compile(r"\d+(\.\w+)*")
Values = dict[str, Any]
"""The good values of a workload, the dtype among them."""


class _Asked(NamedTuple):
    """What a kind of operator is asked by, and how it is read."""

    keys: Keys
    mistakes: Callable[[Values, frozenset[str]], Iterator[str]]
    """What makes no sense though every value alone is right, told which keys are wrong: a sentence for each."""
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
    return OperatorScenario(
        name=parts.name, cluster=parts.cluster, workload=operation, measured=parts.measured, warnings=parts.remarks
    )


def _plan_dtype(plan: object, operator: object, complaints: Complaints) -> str:
    """The plan's dtype, mistakes of the plan noted."""
    stated = read_keys(plan, complaints).values
    note_generation_only(stated, "an operator", complaints)
    if operator == "attention" and stated.get("attention") == "eager":
        complaints.add(
            "plan.attention is 'eager'; allowed for a single operator: flash (eager attention is matmuls and a softmax)"
        )
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
    checked = check({**asked.keys, **HEAD}, workload, "workload", complaints)
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
    if values.get("direction", WITHIN_A_DEVICE) != WITHIN_A_DEVICE:
        stated = {key: values[key] for key in ("direction", "host_memory") if key in values}
        return HostCopyOperation(elements=elements, dtype=values["dtype"], **stated)
    return ElementwiseOperation(operator=values["operator"], elements=elements, dtype=values["dtype"])


def _without(values: Values, *keys: str) -> Values:
    return {key: value for key, value in values.items() if key not in keys}


def _matmul_mistakes(values: Values, _: frozenset[str]) -> Iterator[str]:
    """What is wrong with the dtype and the format of a matmul."""
    dtype, chosen = values["dtype"], values.get("format")
    if dtype in FORMATS and dtype not in DTYPE_FORMATS:
        yield f"workload.dtype is {show(dtype)}; use workload.format for formats"
    elif dtype not in DTYPE_FORMATS:
        yield f"workload.dtype is {dtype_problem(dtype, list(DTYPE_FORMATS))}"
    if chosen is None:
        return
    if chosen not in FORMATS:
        yield not_among("workload.format", chosen, FORMATS)
    elif dtype in DTYPE_FORMATS and dtype not in MODEL_DTYPES and not _is_own(chosen, dtype):
        yield (
            f"workload.format is {show(chosen)} with dtype {dtype}; allowed with a format: "
            f"{', '.join(MODEL_DTYPES)}, the type of its inputs and outputs"
        )


def _is_own(chosen: str, dtype: str) -> bool:
    """Whether the dtype is the one that products in the format are computed in."""
    return chosen == DTYPE_FORMATS[dtype] or (chosen, dtype) == ("fp8-block", "fp8")


def _grouped_mistakes(values: Values, wrong: frozenset[str]) -> Iterator[str]:
    """What is wrong with a grouped matmul."""
    yield from _matmul_mistakes(values, wrong)
    given = {"tokens", "rows"} & values.keys()
    if len(given) != 1 and not {"tokens", "rows"} & wrong:
        listed = " and ".join(sorted(given)) or "neither"
        yield f"workload has {listed} of tokens and rows; needed: rows, or tokens and per_token"
    if "tokens" in given and "per_token" not in values and "per_token" not in wrong:
        yield "workload.per_token is missing; needed with tokens: experts per token"
    experts, per_token = values.get("experts"), values.get("per_token")
    if experts and per_token and per_token > experts:
        yield f"workload.per_token is {per_token}; allowed: up to the {experts} experts"
    if "rows" in given and per_token and values["rows"] % per_token:
        yield f"workload.rows is {values['rows']}; allowed: a multiple of per_token, {per_token}"


def _attention_mistakes(values: Values, _: frozenset[str]) -> Iterator[str]:
    """What is wrong with an attention."""
    yield from _plain_dtype_mistakes(values)
    latent, causal = values.get("latent", False), values.get("causal", True)
    heads, kv_heads = values.get("heads"), values.get("kv_heads")
    if latent and kv_heads not in (None, 1):
        yield f"workload.kv_heads is {kv_heads}; allowed with latent: 1, the latent shared by all heads"
    elif heads and kv_heads and heads % kv_heads:
        yield f"workload.kv_heads is {kv_heads}; allowed: a divisor of the {heads} heads"
    query, context = values.get("query_tokens"), values.get("context_tokens")
    if query and context and context < query and causal:
        yield (
            f"workload.context_tokens is {context}; allowed with causal: at least the {query} query tokens, "
            "which the context includes"
        )
    if "window" in values and not causal:
        yield f"workload.window is {values['window']}; allowed only with causal"
    head_dim, value_dim = values.get("head_dim"), values.get("value_dim")
    if latent and head_dim and value_dim and value_dim > head_dim:
        yield f"workload.value_dim is {value_dim}; allowed with latent: up to head_dim {head_dim}"
    cached, allowed = values.get("kv_dtype"), (values["dtype"], *CACHE_DTYPES)
    if cached is not None and cached not in allowed:
        near = nearest(cached, allowed)
        yield f"workload.kv_dtype is {show(cached)}; allowed: {allowed[0]} (the dtype), {', '.join(CACHE_DTYPES)}{near}"


def _collective_mistakes(values: Values, _: frozenset[str]) -> Iterator[str]:
    """What is wrong with the library of a collective."""
    library, version = values.get("library", "nccl"), values.get("version")
    if library == "nccl":
        return
    known = (*_LIBRARIES, *_engines())
    if library not in known:
        yield not_among("workload.library", library, known)
    elif values["operator"] != "all_reduce":
        alone = "allowed: nccl; engines have custom kernels only for all_reduce"
        yield f"workload.library is {show(library)}; {alone}"
    elif version is not None and library == "custom":
        newest = (
            f"workload.version is {show(version)} with workload.library custom, the newest release of the "
            "typical engine"
        )
        yield f"{newest}; to choose a version, set workload.library to {', '.join(_engines())}"
    elif version is not None and not _RELEASE.fullmatch(version):
        yield f"workload.version is {show(version)}; allowed: a release of {library}, such as 1.2.0"


def _engines() -> tuple[str, ...]:
    """The engines whose all-reduce some family was measured with."""
    parts = [name for name in names("calibrations") if name.endswith("/collectives")]
    return tuple(dict.fromkeys(engine for part in parts for engine in entry("calibrations", part).get("custom", {})))


WITHIN_A_DEVICE = COPY_DIRECTIONS[0]


def _copy_mistakes(values: Values, wrong: frozenset[str]) -> Iterator[str]:
    """What is wrong with a copy."""
    yield from _elementwise_mistakes({key: v for key, v in values.items() if key != "host_memory"}, wrong)
    if "host_memory" in values and values.get("direction", WITHIN_A_DEVICE) == WITHIN_A_DEVICE:
        yield (
            f"workload.host_memory is {show(values['host_memory'])} with direction {WITHIN_A_DEVICE}; allowed "
            f"with: {', '.join(COPY_DIRECTIONS[1:])}"
        )


def _elementwise_mistakes(values: Values, wrong: frozenset[str]) -> Iterator[str]:
    """What is wrong with a bandwidth-bound kernel."""
    yield from _plain_dtype_mistakes(values)
    given = {"elements", "tokens", "width"} & values.keys()
    if not wrong and given not in ({"elements"}, {"tokens", "width"}):
        listed = " and ".join(sorted(given)) or "nothing"
        yield f"workload has {listed} as its size; needed: elements, or tokens and width"


def _plain_dtype_mistakes(values: Values) -> Iterator[str]:
    """Whether the dtype is one of 16 or 32 bits."""
    if values["dtype"] not in PLAIN_DTYPES:
        yield f"workload.dtype is {dtype_problem(values['dtype'], PLAIN_DTYPES)}"


_SHAPE = each(whole(), "tokens width")
OPERATORS: Mapping[str, _Asked] = {
    "matmul": _Asked(keys_of(MatmulOperation), _matmul_mistakes, _matmul),
    "grouped_matmul": _Asked(
        {"tokens": whole(), **keys_of(GroupedMatmulOperation)}, _grouped_mistakes, _grouped_matmul
    ),
    "attention": _Asked(keys_of(AttentionOperation), _attention_mistakes, _attention),
    **dict.fromkeys(COLLECTIVES, _Asked(keys_of(CollectiveOperation), _collective_mistakes, _collective)),
    **dict.fromkeys(ELEMENTWISE, _Asked(keys_of(ElementwiseOperation) | _SHAPE, _elementwise_mistakes, _elementwise)),
    "copy": _Asked(keys_of(HostCopyOperation) | _SHAPE, _copy_mistakes, _elementwise),
}
"""What each operator is asked by, and how it is read."""


def _dtype_mistakes(cluster: Cluster, dtype: str, mapping: Mapping[str, Any]) -> Iterator[Broken]:
    own = "dtype" in mapping["workload"]
    plan = mapping.get("plan")
    stated = own or (isinstance(plan, Mapping) and "dtype" in plan)
    facts = {"device": cluster.device, "dtype": dtype, "dtype_is_stated": stated}
    for sentence in broken_rules((techniques.dtype,), facts):
        yield Broken(sentence.replace("plan.", "workload.", 1), sentence.rule) if own else sentence
