"""What the tables of one source alone need: readers of its columns, and of lines that hold several measurements."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sightline.frameworks import read_engine
from sightline.validation.tables import Cells, LeftOutError, Line, Row, catalog_name, scalar

LAYOUT = {"devices": "devices", "experts": "plan.expert_parallel", "ranks": "plan.data_parallel"}


def launched(cells: Cells, row: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the rules say of a row: ``cache``, its type; ``drafted`` tokens per pass; ``plan`` fields; or {}."""
    facts = _facts(cells, row)
    settings: dict[str, Any] = {}
    for rule in rules:
        if all(_holds(facts, key, wanted) for key, wanted in rule["where"].items()):
            settings |= rule["set"]
    return settings


def _facts(cells: Cells, row: Mapping[str, Any]) -> dict[str, Any]:
    source = cells["silicon_data_source"]
    day = re.search(r"measured=(\d{4}-\d\d-\d\d)", source)
    image = re.search(r"[/#]([^/;\s]+:[^/;\s]+)$", source)
    return {
        "engine": row["plan.framework"],
        "model": row["model"],
        "device": row["device"],
        "precision": cells["precision"],
        "version": cells["backend_version"],
        "mode": cells["mode"],
        "prompt": scalar(cells["isl"]),
        "answer": scalar(cells["osl"]),
        "concurrency": row["workload.batch"],
        "day": day.group(1) if day else "",
        "image": image.group(1) if image else "",
        **{fact: row.get(key, 1) for fact, key in LAYOUT.items()},
    }


def _holds(facts: Mapping[str, Any], key: str, wanted: Any) -> bool:
    match key:
        case "since":
            return bool(facts["day"] >= str(wanted))
        case "on":
            return bool(facts["day"] == str(wanted))
        case "least":
            return bool(facts["concurrency"] >= wanted)
        case _:
            return facts[key] in (wanted if isinstance(wanted, list) else [wanted])


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
    sequences: int = 0
    """Of each of these at a time; 0 where the deployment does not say."""

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


def row_of_cells(cells: Line, spec: Mapping[str, Any]) -> Row:
    """Return a line of the sample under our keys; raise `InputError` naming the line when the table lacks a column."""
    _ = [cells[column] for column in COLUMNS]
    question = _asked(cells, spec)
    disaggregated = cells["mode"] == "disagg" or (_is_inferencex(cells) and _int(cells, "tp_size") not in _DEGREES)
    layout = {} if disaggregated else _aggregated(cells)
    settings = launched(cells, question | layout, spec["launches"]) if _is_inferencex(cells) else {}
    if disaggregated:
        layout = _disaggregated(cells, question, spec, drafts=bool(settings.get("drafted")))
    elif settings.get("drafted"):
        layout |= _drafts(settings["drafted"])
    stated: Row = _launched_formats(question, settings) | settings.get("plan", {})
    return {"mode": cells["mode"], **question, **stated, **layout, **_measured(cells)}


def _launched_formats(question: Row, settings: Row) -> dict[str, Any]:
    """Return the formats with the types of cache and router that the engine was launched with.

    Nothing where unknown.
    """
    if not settings.keys() & {"cache", "router"}:
        return {}
    formats = question["plan.quantization"]
    stated = [] if formats == "none" else formats
    kept = [word for word in stated if "cache" not in settings or not word.startswith("kv-")]
    cache = [f"kv-{settings['cache']}"] if settings.get("cache", "16-bit") != "16-bit" else []
    router = [f"router-{settings['router']}"] if "router" in settings else []
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
        **_room(cells),
        "plan.framework": {"trtllm": "tensorrt-llm"}.get(cells["backend"], cells["backend"]),
        **({"plan.framework_version": version} if (version := _version(cells)) else {}),
        **({"plan.quantization": formats} if formats else {"plan.quantization": "none"}),
    }


def _room(cells: Cells) -> dict[str, Any]:
    """Return the budget of a server that takes whole prompts: no less than the usual, and one prompt beside all others.

    The sample does not state it, but its servers answered these loads.
    """
    if cells["backend"] != "trtllm" or cells["mode"] != "agg":
        return {}
    usual, needed = read_engine("tensorrt-llm").serving.max_batched_tokens, _int(cells, "isl") + _concurrency(cells)
    return {"plan.max_batched_tokens": needed} if needed > (usual or 0) else {}


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


def _disaggregated(cells: Cells, question: Row, spec: Mapping[str, Any], *, drafts: bool) -> dict[str, Any]:
    """Return the published deployment of the row, with ``drafts`` if it has them, else what its columns say.

    Where it was published with drafts too and nothing tells which was run, that is an alternative reading.
    """
    deployment = _deployed(cells, question, spec["deployments"], drafts=drafts) or _stated_deployment(cells)
    other = None if drafts or deployment.drafted else _deployed(cells, question, spec["deployments"], drafts=True)
    may_draft = {"alternative": _pools(other)} if other is not None and other.drafted else {}
    return _pools(deployment) | may_draft


def _pools(deployment: Deployment) -> dict[str, Any]:
    sides = {"prefill": deployment.prefill.plan(), "decode": deployment.decode.plan()}
    speculative = _drafts(deployment.drafted) if deployment.drafted else {}
    limit = {"plan.max_sequences": deployment.decode.sequences} if deployment.decode.sequences else {}
    return {"devices": deployment.devices, "plan.disaggregate": sides, **limit, **speculative}


def _deployed(cells: Cells, stated: Row, table: Sequence[Sequence[Any]], *, drafts: bool) -> Deployment | None:
    """Return the deployment with the row's question and number of devices; of several the first with fewest drafts.

    With ``drafts`` those without come last.
    """
    named = [stated["model"], cells["precision"], stated["device"], stated["plan.framework"]]
    question = [*named, _int(cells, "isl"), _int(cells, "osl")]
    same = [
        (concurrencies, Deployment(drafted, Worker(*numbers[:4]), Worker(*numbers[4:])))
        for *key, concurrencies, drafted, numbers in table
        if key == question
    ]
    possible = [(listed, deployment) for listed, deployment in same if _fits(cells, deployment)]
    concurrency = stated["workload.batch"]
    fitting = [deployment for listed, deployment in possible if concurrency in listed]
    # Some deployments list what one decode worker has in flight.
    fitting = fitting or [
        deployment for listed, deployment in possible if concurrency / deployment.decode.replicas in listed
    ]
    return min(fitting, key=lambda deployment: (drafts and not deployment.drafted, deployment.drafted), default=None)


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


SPEED, PRECISION = "Tokens / sec / GPU", "Precision"
UNNAMED = ("first", "second")
"""What the two values of a line without a precision are called."""

_PAIR = re.compile(r"(.*?)\s*\((.*)\)")


LOGGED, DERIVED = "logged_step_time_s", "derived_step_time_s"


def megatron_bridge(cells: Line) -> Iterator[Line]:
    """Yield the measurements of a line, each with its model, system, precision and speed in columns of their own.

    Columns of NVIDIA's Megatron-Bridge performance tables moved from release to release. Older ones print the system in
    the model's place, and two precisions in one line: ``FP8-CS (FP8-MX)`` next to ``31508 (29789)``. The pair of
    release 25.09 is not named.
    """
    straight = dict(cells)
    if cells["model"].startswith("System: "):
        straight |= {"System": straight["model"].removeprefix("System: "), "model": cells["Model"]}
    speeds = _parts(cells[SPEED])
    precisions = _parts(cells[PRECISION])
    if not cells[PRECISION] and len(speeds) > 1:
        precisions = UNNAMED
    for precision, speed in zip(precisions, speeds, strict=False):
        yield Line({**straight, PRECISION: precision, SPEED: speed}, cells.place)


def _parts(text: str) -> tuple[str, ...]:
    """A value and the one in parentheses behind it, if there is one."""
    pair = _PAIR.fullmatch(text)
    return (text,) if pair is None else pair.groups()


def mlperf_training(cells: Line) -> Iterator[Line]:
    """Yield a line of MLPerf Training's logs with its step time in the logged column.

    Where a step's time was not logged it follows from the throughput, which includes some time between steps.
    """
    yield Line({**cells, LOGGED: cells[LOGGED] or cells[DERIVED]}, cells.place)


_STRATEGY = re.compile(r"(\d+)_(\d+)_(\d+)((?:_(?:c|vtp|sp))*)")
_KEY = re.compile(r"layernum\[(\d+)\]_bsz(\d+)_seq(\d+)_rank(\d+)_(ms|act|act_peak)")
MEASURED = {"ms": "state_bytes", "act": "kept_bytes", "act_peak": "rise_bytes"}


def galvatron(cells: Line, spec: Mapping[str, Any]) -> Row:
    """Return a line of Galvatron's memory profile under our keys; ``tokens_per_sample`` says how long samples were.

    A line is a strategy ``<pipeline>_<tensor>_<data>`` with marks - ``c``: every layer recomputed, ``vtp``: embedding
    and head cut over the tensor-parallel ranks, ``sp``: sequence parallelism - and a key such as
    ``layernum[2]_bsz8_seq2048_rank0_act``: ``ms`` is what rank 0 or the last one held after the backward pass, ``act``
    what its forward pass left more than there was before, ``act_peak`` how far both passes rose above ``ms``. All are
    what PyTorch's allocator counted, in MiB.
    """
    strategy, key = _STRATEGY.fullmatch(cells["strategy_pp_tp_dp"]), _KEY.fullmatch(cells["key"])
    if strategy is None or key is None:
        raise LeftOutError("calculated from other lines")
    pipeline, tensor, data = (int(degree) for degree in strategy.groups()[:3])
    marks = strategy[4].split("_")
    layers, batch, rank = int(key[1]), int(key[2]), int(key[4])
    whole = tensor > 1 and "vtp" not in marks
    return {
        "devices": pipeline * tensor * data,
        "plan.pipeline_parallel": pipeline,
        "plan.tensor_parallel": tensor,
        "plan.data_parallel": data,
        "plan.sequence_parallel": "sp" in marks and tensor > 1,
        "plan.recompute": "full" if "c" in marks else "none",
        "plan.vocabulary_parallel": not whole,
        # Rows are split by the words that the catalog had for this when the split was drawn.
        **({"vocabulary": "whole-vocabulary"} if whole else {}),
        "plan.micro_batch": batch // data,
        "model.num_hidden_layers": layers,
        "workload.global_batch": batch,
        "workload.sequence_length": spec["tokens_per_sample"],
        "stage": 0 if rank == 0 else -1,
        f"measured.{MEASURED[key[5]]}": float(cells["memory_mb"]) * 2**20,
    }


READERS: Mapping[str, Callable[[Line, Mapping[str, Any]], Row]] = {
    "silicon-sample": row_of_cells,
    "galvatron": galvatron,
}
"""Tables whose columns mean different things in different rows, by the ``reader`` of the ``csv`` part."""

LINES: Mapping[str, Callable[[Line], Iterator[Line]]] = {
    "megatron-bridge": megatron_bridge,
    "mlperf-training": mlperf_training,
}
"""Tables a line of which holds several measurements, or columns in others' places, by the ``lines`` of the ``csv``
part."""
