"""What makes no sense in a single operator though every value alone is right: a sentence per problem."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sightline.catalog import entry, names
from sightline.errors import nearest
from sightline.loading.input.checks import not_among
from sightline.loading.plan import dtype_problem
from sightline.quantities import show
from sightline.scenario.operation import CACHE_DTYPES, DTYPE_FORMATS, FORMATS, MODEL_DTYPES, PLAIN_DTYPES

Values = Mapping[str, Any]
"""The good values of a workload, the dtype among them."""

LIBRARIES = ("nccl", "custom")
_RELEASE = re.compile(r"\d+(\.\w+)*")


def matmul_mistakes(values: Values, _: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with the dtype and the format of a matmul."""
    dtype, chosen = values["dtype"], values.get("format")
    if dtype in FORMATS and dtype not in DTYPE_FORMATS:
        yield f"workload.dtype is {show(dtype)}, a format; workload.format takes it"
    elif dtype not in DTYPE_FORMATS:
        yield f"workload.dtype is {dtype_problem(dtype, list(DTYPE_FORMATS))}"
    if chosen is None:
        return
    if chosen not in FORMATS:
        yield not_among("workload.format", chosen, FORMATS)
    elif dtype in DTYPE_FORMATS and dtype not in MODEL_DTYPES and not _is_own(chosen, dtype):
        yield (
            f"workload.format is {show(chosen)} with the dtype {dtype}; allowed: {', '.join(MODEL_DTYPES)}, the type of "
            "inputs and outputs around the product"
        )


def _is_own(chosen: str, dtype: str) -> bool:
    """Whether the dtype is the one that products in the format are computed in."""
    return chosen == DTYPE_FORMATS[dtype] or (chosen, dtype) == ("fp8-block", "fp8")


def grouped_mistakes(values: Values, wrong: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with a grouped matmul."""
    yield from matmul_mistakes(values, wrong)
    given = {"tokens", "rows"} & values.keys()
    if len(given) != 1 and not {"tokens", "rows"} & wrong:
        listed = " and ".join(sorted(given)) or "neither"
        yield f"workload gives {listed} of tokens and rows; needed: rows, or tokens and per_token"
    if "tokens" in given and "per_token" not in values and "per_token" not in wrong:
        yield "workload.per_token is missing; needed with tokens: how many experts each chooses"
    experts, per_token = values.get("experts"), values.get("per_token")
    if experts and per_token and per_token > experts:
        yield f"workload.per_token is {per_token}; allowed: up to the {experts} experts"
    if "rows" in given and per_token and values["rows"] % per_token:
        yield f"workload.rows is {values['rows']}; allowed: a multiple of per_token, {per_token}"


def attention_mistakes(values: Values, _: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with an attention."""
    yield from plain_dtype_mistakes(values)
    latent, causal = values.get("latent", False), values.get("causal", True)
    heads, kv_heads = values.get("heads"), values.get("kv_heads")
    if latent and kv_heads not in (None, 1):
        yield f"workload.kv_heads is {kv_heads}; allowed with latent: 1, the latent that all heads share"
    elif heads and kv_heads and heads % kv_heads:
        yield f"workload.kv_heads is {kv_heads}; allowed: a divisor of the {heads} heads"
    query, context = values.get("query_tokens"), values.get("context_tokens")
    if query and context and context < query and causal:
        yield (
            f"workload.context_tokens is {context}; allowed with causal: the {query} query tokens or more, "
            "which the context includes"
        )
    if "window" in values and not causal:
        yield f"workload.window is {values['window']}; allowed only with causal, whose queries look back over it"
    head_dim, value_dim = values.get("head_dim"), values.get("value_dim")
    if latent and head_dim and value_dim and value_dim > head_dim:
        yield f"workload.value_dim is {value_dim}; allowed with latent: up to the head_dim, {head_dim}"
    cached, allowed = values.get("kv_dtype"), (values["dtype"], *CACHE_DTYPES)
    if cached is not None and cached not in allowed:
        near = nearest(cached, allowed)
        yield f"workload.kv_dtype is {show(cached)}; allowed: {allowed[0]} (the dtype), {', '.join(CACHE_DTYPES)}{near}"


def collective_mistakes(values: Values, _: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with the library of a collective."""
    library, version = values.get("library", "nccl"), values.get("version")
    if library == "nccl":
        return
    known = (*LIBRARIES, *_engines())
    if library not in known:
        yield not_among("workload.library", library, known)
    elif values["operator"] != "all_reduce":
        yield f"workload.library is {show(library)}; engines have kernels of their own for all_reduce alone, the rest is nccl"
    elif version is not None and library == "custom":
        yield f"workload.version is {show(version)}; custom is the usual engine's newest: name the engine, {', '.join(_engines())}"
    elif version is not None and not _RELEASE.fullmatch(version):
        yield f"workload.version is {show(version)}; allowed: a release of {library}, such as 1.2.0"


def _engines() -> tuple[str, ...]:
    """The engines whose all-reduce some family was measured with."""
    parts = [name for name in names("calibrations") if name.endswith("/collectives")]
    return tuple(dict.fromkeys(engine for part in parts for engine in entry("calibrations", part).get("custom", {})))


def elementwise_mistakes(values: Values, wrong: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with a bandwidth-bound kernel."""
    yield from plain_dtype_mistakes(values)
    given = {"elements", "tokens", "width"} & values.keys()
    if not wrong and given not in ({"elements"}, {"tokens", "width"}):
        listed = " and ".join(sorted(given)) or "nothing"
        yield f"workload gives {listed} as the size; needed: elements, or tokens and width"


def plain_dtype_mistakes(values: Values) -> Iterator[str]:
    """Yield whether the dtype is one of 16 or 32 bits."""
    if values["dtype"] not in PLAIN_DTYPES:
        yield f"workload.dtype is {dtype_problem(values['dtype'], PLAIN_DTYPES)}"
