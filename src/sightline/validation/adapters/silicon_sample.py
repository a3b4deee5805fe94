"""Lines of AIConfigurator's sample of measured serving runs, whose columns mean different things by origin.

Rows named ``..._cfg<n>`` or ``..._tp<n>_ep<n>_...`` were measured by InferenceX. There ``tp`` is the number of devices
and ``ep`` how many of them share the experts, and the sample's columns hold some of their products; a batch is per
attention rank, so the concurrency in the row's name is what was in flight. All other rows (``epnone``) state their
columns themselves. What a disaggregated row does not state - workers, attention ranks, drafted tokens - is looked up
in the deployments that InferenceX published (the ``deployments`` of the suite's ``csv`` part).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sightline.validation.adapters.silicon_launches import launched
from sightline.validation.cells import Cells, catalog_name, require, scalar
from sightline.validation.rows import Row

COLUMNS = (
    *("id", "silicon_data_source", "backend", "backend_version", "model_path", "system", "precision", "mode"),
    *("isl", "osl", "gemm_quant_mode", "batch_size", "tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"),
    *("silicon_ttft_ms", "silicon_tpot_ms"),
)

LENGTH = 0.9
"""Mean of a prompt's and an answer's length over the nominal ones: InferenceX draws from 0.8 to 1."""

ACCEPTANCE = 0.7
"""Of drafted tokens; not stated anywhere."""

LATE_2025 = {"trtllm": "1.1", "vllm": "0.11", "sglang": "0.5.3"}
"""Releases of the engines when the rows without a version were measured."""

PARTS = {"sglang": 3}
"""Parts of a version that tell an engine's releases apart, where they are not two."""

IN_RUNTIME = {"0.5": "1.1", "0.6": "1.1", "0.7": "1.2", "0.8": "1.2", "1.1": "1.3"}
"""TensorRT-LLM's release in each release of Dynamo's runtime, whose version those rows print."""

PREVIEWS = {"gpt-oss-dev": "1.1"}
"""Releases that a named preview became."""


class Worker(NamedTuple):
    """How one kind of worker is laid out."""

    replicas: int
    devices: int
    """Of one replica."""
    experts: int
    """Ranks that share the experts."""
    attention: int
    """Attention data-parallel ranks."""

    @property
    def total(self) -> int:
        """Devices of all replicas."""
        return self.replicas * self.devices

    def plan(self) -> dict[str, int]:
        """Return the plan's fields."""
        tensor = max(1, self.devices // self.attention)
        fields = {"replicas": self.replicas, "tensor_parallel": tensor, "data_parallel": self.devices // tensor}
        # Where replicas of experts fill up 24 or 48 ranks, the experts themselves divide by the power of two in it.
        experts = self.experts & -self.experts
        return fields | ({"expert_parallel": experts} if experts > 1 else {})


class Deployment(NamedTuple):
    """Workers that prefill next to workers that decode."""

    drafted: int
    """Tokens drafted per pass; 0 without multi-token prediction."""
    prefill: Worker
    decode: Worker

    @property
    def devices(self) -> int:
        """Devices of all workers."""
        return self.prefill.total + self.decode.total


def row_of_cells(cells: Cells, spec: Mapping[str, Any], where: str) -> Row:
    """Return a line of the sample under our keys; raise `InputError` naming ``where`` when the table lacks a column."""
    require(cells, COLUMNS, where)
    asked = _asked(cells, spec)
    disaggregated = cells["mode"] == "disagg" or (_is_inferencex(cells) and _int(cells, "tp_size") not in _DEGREES)
    layout = {} if disaggregated else _aggregated(cells)
    said = launched(cells, asked | layout, spec["launches"]) if _is_inferencex(cells) else {}
    if disaggregated:
        layout = _disaggregated(cells, asked, spec, drafts=bool(said.get("drafted")))
    elif said.get("drafted"):
        layout |= _drafts(said["drafted"])
    return {"mode": cells["mode"]} | asked | _launched_formats(asked, said) | layout | _measured(cells)


def _launched_formats(asked: Row, said: Row) -> dict[str, Any]:
    """Return the formats with the types of cache and router that the engine was launched with.

    Nothing where unknown.
    """
    if not said.keys() & {"cache", "router"}:
        return {}
    formats = asked["plan.quantization"]
    stated = [] if formats == "none" else formats
    kept = [word for word in stated if "cache" not in said or not word.startswith("kv-")]
    cache = [f"kv-{said['cache']}"] if said.get("cache", "16-bit") != "16-bit" else []
    router = [f"router-{said['router']}"] if "router" in said else []
    return {"plan.quantization": [*kept, *cache, *router] or "none"}


def _drafts(tokens: int) -> dict[str, Any]:
    return {"plan.speculative": {"tokens": tokens, "acceptance": ACCEPTANCE}}


_DEGREES = frozenset({1, 2, 4, 8, 16, 32, 64})


def _asked(cells: Cells, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that do not depend on how the devices were used."""
    model = spec["models"].get(catalog_name(cells["model_path"]), catalog_name(cells["model_path"]))
    part = LENGTH if _is_inferencex(cells) else 1.0
    formats = _formats(cells, model, spec)
    return {
        "model": model,
        "device": spec["systems"].get(cells["system"], cells["system"].replace("_", "-")),
        "workload.batch": _concurrency(cells),
        "workload.prompt_tokens": round(part * _int(cells, "isl")),
        "workload.output_tokens": round(part * _int(cells, "osl")),
        **({} if _is_inferencex(cells) else {"workload.equal_lengths": True}),
        "plan.framework": {"trtllm": "tensorrt-llm"}.get(cells["backend"], cells["backend"]),
        **({"plan.framework_version": version} if (version := _version(cells)) else {}),
        **({"plan.quantization": formats} if formats else {"plan.quantization": "none"}),
    }


def _measured(cells: Cells) -> dict[str, float]:
    read = {f"measured.{name}_s": scalar(cells[f"silicon_{name}_ms"]) for name in ("ttft", "tpot")}
    return {key: value / 1e3 for key, value in read.items() if isinstance(value, int | float)}


def _int(cells: Cells, column: str) -> int:
    value = scalar(cells.get(column) or "0")
    return int(value) if isinstance(value, int | float) else 0


def _is_inferencex(cells: Cells) -> bool:
    return "gap-analysis/data" not in cells["silicon_data_source"]


def _concurrency(cells: Cells) -> int:
    """Return the sequences in flight on one instance."""
    named = re.search(r"_c(\d+)_", cells["id"])
    if named and (_is_inferencex(cells) or cells["mode"] == "disagg"):
        return int(named.group(1))
    if cells["mode"] == "disagg":
        return _int(cells, "decode_batch_size") * max(1, _int(cells, "decode_num_workers"))
    # Where this is less than the concurrency, a dense model stands behind a load balancer: ask about one replica.
    return _int(cells, "batch_size") * _attention_ranks(cells)


def _attention_ranks(cells: Cells) -> int:
    """Return the attention data-parallel ranks of an aggregated row that states its columns itself.

    Where they are missing they follow from the expert ranks, or from the concurrency over the batch of a rank.
    """
    stated = _int(cells, "attention_dp_size")
    if cells["attention_dp_size"]:
        return max(1, stated)
    outside = _int(cells, "moe_tp_size") * _int(cells, "moe_ep_size") // max(1, _int(cells, "tp_size"))
    named = re.search(r"_c(\d+)_", cells["id"])
    per_batch = int(named.group(1)) // max(1, _int(cells, "batch_size")) if named else 1
    return max(1, outside, per_batch)


def _aggregated(cells: Cells) -> dict[str, Any]:
    worker = _inferencex_worker(cells) if _is_inferencex(cells) else _stated_worker(cells)
    return {"devices": worker.total, **{f"plan.{k}": v for k, v in worker.plan().items() if k != "replicas"}}


def _inferencex_worker(cells: Cells) -> Worker:
    """Return the layout behind the products: tp x ep as tp_size, ranks x ep as moe_ep_size, and so on."""
    tensor, ranks = _int(cells, "tp_size"), max(1, _int(cells, "attention_dp_size"))
    expert_tensor, experts = max(1, _int(cells, "moe_tp_size")), max(1, _int(cells, "moe_ep_size"))
    named = re.search(r"_tp(\d+)(?:_0)?_ep(\d+)", cells["id"])
    if named:
        devices, experts = int(named.group(1)), int(named.group(2))
    elif expert_tensor == experts > 1:
        devices = experts
    elif tensor == ranks > 1:
        devices, experts = tensor, max(1, experts // tensor)
    else:
        devices = tensor * ranks
    return Worker(1, devices, experts, devices if ranks > 1 else 1)


def _stated_worker(cells: Cells) -> Worker:
    tensor, experts = max(1, _int(cells, "tp_size")), max(1, _int(cells, "moe_ep_size"))
    ranks = _attention_ranks(cells)
    # TensorRT-LLM counts attention ranks inside the tensor-parallel group, vLLM and SGLang in addition to it.
    inside = cells["backend"] == "trtllm" and tensor > 1
    return Worker(1, tensor if inside else tensor * ranks, experts, min(ranks, tensor) if inside else ranks)


def _disaggregated(cells: Cells, asked: Row, spec: Mapping[str, Any], *, drafts: bool) -> dict[str, Any]:
    """Return the published deployment of the row, with ``drafts`` if it has them, else what its columns say.

    Where it was published with drafts too and nothing tells which was run, that is an alternative reading.
    """
    found = _deployed(cells, asked, spec["deployments"], drafts=drafts) or _stated_deployment(cells)
    other = None if drafts or found.drafted else _deployed(cells, asked, spec["deployments"], drafts=True)
    may_draft = {"alternative": _pools(other)} if other is not None and other.drafted else {}
    return _pools(found) | may_draft


def _pools(deployment: Deployment) -> dict[str, Any]:
    sides = {"prefill": deployment.prefill.plan(), "decode": deployment.decode.plan()}
    speculative = _drafts(deployment.drafted) if deployment.drafted else {}
    return {"devices": deployment.devices, "plan.disaggregate": sides, **speculative}


def _deployed(cells: Cells, asked: Row, table: Sequence[Sequence[Any]], *, drafts: bool) -> Deployment | None:
    """Return the deployment with the row's question and number of devices; of several the first with fewest drafts.

    With ``drafts`` those without come last.
    """
    named = [asked["model"], cells["precision"], asked["device"], asked["plan.framework"]]
    question = [*named, _int(cells, "isl"), _int(cells, "osl")]
    same = [
        (concurrencies, Deployment(drafted, Worker(*numbers[:4]), Worker(*numbers[4:])))
        for *key, concurrencies, drafted, numbers in table
        if key == question
    ]
    possible = [(listed, one) for listed, one in same if _fits(cells, one)]
    concurrency = asked["workload.batch"]
    fitting = [one for listed, one in possible if concurrency in listed]
    # Some deployments list what one decode worker has in flight.
    fitting = fitting or [one for listed, one in possible if concurrency / one.decode.replicas in listed]
    return min(fitting, key=lambda one: (drafts and not one.drafted, one.drafted), default=None)


def _fits(cells: Cells, deployment: Deployment) -> bool:
    """Say whether a deployment has the devices, workers and experts that the row names."""
    tensor = max(1, _int(cells, "decode_tp_size") or _int(cells, "tp_size"))
    ranks, prefill_tensor = _int(cells, "decode_attention_dp_size"), _int(cells, "prefill_tp_size")
    workers = _int(cells, "decode_num_workers")
    if workers and workers != deployment.decode.replicas:
        return False
    if tensor == deployment.devices:
        return True
    if ranks > 1 or tensor == 1:
        return deployment.decode.devices == max(ranks, tensor) or tensor * ranks == 1
    return tensor == deployment.decode.devices and prefill_tensor in (1, deployment.prefill.devices)


def _stated_deployment(cells: Cells) -> Deployment:
    """Return what the columns say, one worker where their number is not given.

    Numbers of devices that no model's heads divide by are those of all workers together: four of them prefill.
    """
    tensor = max(1, _int(cells, "decode_tp_size") or _int(cells, "tp_size"))
    if tensor not in _DEGREES:
        rest = tensor - 4
        decode = Worker(rest // 8, 8, 8, 1) if rest % 8 == 0 else Worker(rest // 4, 4, 4, 1)
        return Deployment(0, Worker(1, 4, 4, 4), decode)
    return Deployment(0, *(_stated_side(cells, name) for name in ("prefill", "decode")))


def _stated_side(cells: Cells, name: str) -> Worker:
    tensor, ranks, experts = (
        max(1, _int(cells, f"{name}_{column}")) for column in ("tp_size", "attention_dp_size", "moe_ep_size")
    )
    return Worker(max(1, _int(cells, f"{name}_num_workers")), tensor * ranks, min(experts, tensor * ranks), ranks)


def _formats(cells: Cells, model: str, spec: Mapping[str, Any]) -> list[str]:
    """Return the formats of weights and cache: that of the published checkpoint in the row's precision."""
    precision = cells["precision"]
    weights = spec["formats"].get(model, {}).get(precision) or {"fp4": "nvfp4", "int4": "w4a16"}.get(precision)
    if weights is None and precision == "fp8":
        weights = "fp8-block" if cells["gemm_quant_mode"] == "fp8_block" else "fp8"
    if weights is None:
        return []
    small_cache = cells["backend"] == "trtllm" and precision in ("fp8", "fp4")
    return [weights, "kv-fp8"] if small_cache else [weights]


def _version(cells: Cells) -> str:
    """Return the engine's version, "" when nothing says."""
    engine, printed, source = cells["backend"], cells["backend_version"], cells["silicon_data_source"]
    if not printed:
        return LATE_2025.get(engine, "") if "measured=2025" in source else ""
    parts = ".".join(printed.split(".")[: PARTS.get(engine, 2)])
    if engine == "trtllm" and ("tensorrtllm-runtime" in source or cells["mode"] == "disagg"):
        return IN_RUNTIME.get(parts, parts)
    if "sglang-runtime:0.5" in source:
        return LATE_2025[engine]
    return parts if re.match(r"\d", printed) else PREVIEWS.get(printed, printed)
