"""What a plan of generation may be."""

from functools import reduce
from math import inf, sqrt
from operator import and_
from typing import TYPE_CHECKING

import numpy as np

from sightline.quantities import Count, show
from sightline.scenario.cluster import Device
from sightline.scenario.model import Model
from sightline.scenario.precision import EXPERTS_ONLY, ROUTER_DTYPES
from sightline.scenario.rules.rulebook import Check, Checks, Counted

if TYPE_CHECKING:
    from sightline.frameworks.engine import Engine


def engine_stages(key: str, layers: int, pipeline_parallel: Count) -> Checks:
    """Every pipeline stage of an engine holds a layer."""
    yield Check(
        pipeline_parallel <= layers,
        "{key}.pipeline_parallel is {pipeline_parallel}; allowed: up to the model's {layers} layers",
    )


def engine_experts(
    key: str, model: Model, tensor_parallel: Count, data_parallel: Count, expert_parallel: Count
) -> Checks:
    """Experts are spread over the tensor x data ranks, at least one on each group of them."""
    stated = "{key}.expert_parallel is {expert_parallel}"
    if model.experts is None:
        yield Check(expert_parallel == 1, stated + ", but {model.name} has no experts; allowed: 1")
        return
    ranks = tensor_parallel * data_parallel
    left = ranks % expert_parallel
    yield Check(
        left == 0,
        stated + "; allowed: a divisor of tensor_parallel {tensor_parallel} x data_parallel {data_parallel} = {ranks}",
        {"ranks": ranks},
    )
    yield Check(
        (left > 0) | (expert_parallel <= model.experts.count),
        stated + "; allowed: up to the model's {model.experts.count} experts",
    )


def engine_copies(key: str, model: Model, expert_parallel: Count, redundant_experts: Count) -> Checks:
    """Copies of experts need ranks to be placed on, each of which holds as many as others."""
    stated = "plan.redundant_experts is {redundant_experts}"
    experts = 0 if model.experts is None else model.experts.count
    yield Check(
        (expert_parallel > 1) & (experts > 0),
        stated + " with {key}.expert_parallel {expert_parallel}; experts are placed by load only where it is above 1",
    )
    yield Check(
        (experts + redundant_experts) % expert_parallel == 0,
        stated + "; allowed: a number that with {experts} experts divides by {key}.expert_parallel {expert_parallel}",
        {"experts": experts},
    )


def experts_apart(
    key: str,
    model: Model,
    expert_devices: Count,
    expert_micro_batches: Count,
    pipeline_parallel: Count,
    expert_parallel: Count,
) -> Checks:
    """Devices with experts alone serve decode workers, whose layers are not split otherwise."""
    experts, none = 0 if model.experts is None else model.experts.count, expert_devices == 0
    stated = "plan.expert_devices is {expert_devices}; allowed: "
    yield Check(none | (key != "plan"), stated + "0, or plan.disaggregate, whose decode workers have them")
    yield Check(
        none | ((experts > 0) & (experts % (expert_devices + none) == 0)),
        stated + "a divisor of the {experts} experts of {model.name}",
        {"experts": experts},
    )
    alone = "; allowed with plan.expert_devices: 1"
    yield Check(none | (pipeline_parallel == 1), "{key}.pipeline_parallel is {pipeline_parallel}" + alone)
    yield Check(none | (expert_parallel == 1), "{key}.expert_parallel is {expert_parallel}" + alone)
    yield Check(
        np.logical_not(none) | (expert_micro_batches == 1),
        "plan.expert_micro_batches is {expert_micro_batches}; allowed without plan.expert_devices: 1",
    )


def uneven_experts(model: Model, expert_spread: float) -> Checks:
    """Experts differ in how often they are chosen, at most as where one is chosen always."""
    stated = "plan.expert_spread is {expert_spread:g}"
    yield Check(model.experts is not None, stated + ", but {model.name} has no experts")
    most = inf if model.experts is None else sqrt(model.experts.count - 1.0)
    yield Check(expert_spread <= most, stated + "; allowed: up to {most:.3g}, one expert for all", {"most": most})


def balancing_engines(framework: "Engine", balanced_prompts: bool) -> Checks:
    """One engine lets prompts of a rank wait for those of others."""
    allowed = not balanced_prompts or framework.name == "tensorrt-llm"
    yield Check(allowed, "plan.balanced_prompts is true; {framework.name} has no such option")


def engine_devices(
    devices: int, tensor_parallel: Count, pipeline_parallel: Count, data_parallel: Count, replicas: Count
) -> Checks:
    """The replicas fill the cluster."""
    taken = tensor_parallel * pipeline_parallel * data_parallel * replicas
    yield Check(
        taken == devices,
        "plan.tensor_parallel {tensor_parallel} x plan.pipeline_parallel {pipeline_parallel} x plan.data_parallel "
        "{data_parallel} x plan.replicas {replicas} is {taken}; allowed: the cluster's {there}",
        {"taken": taken, "there": Counted(devices)},
    )


def unlike_replicas(
    group_devices: tuple[int, ...] | None, tensor_parallel: Count, pipeline_parallel: Count, data_parallel: Count
) -> Checks:
    """Every replica of an engine runs on devices of one kind."""
    if group_devices is None:
        return
    replica = tensor_parallel * pipeline_parallel * data_parallel
    yield Check(
        reduce(and_, [count % replica == 0 for count in group_devices]),
        "a replica of plan.tensor_parallel {tensor_parallel} x plan.pipeline_parallel {pipeline_parallel} x "
        "plan.data_parallel {data_parallel} is {replica}, which would span heterogeneous devices; allowed: a "
        "divisor of the devices of each group: {counts}",
        {"replica": Counted(replica), "counts": ", ".join(map(str, group_devices))},
    )


def served_batches(
    group_batches: tuple[int, ...] | None, group_devices: tuple[int, ...] | None, batch: Count
) -> Checks:
    """Stated shares of the batch are one for each group of unlike devices."""
    if group_batches is None:
        return
    yield Check(
        group_devices is not None
        and len(group_batches) == len(group_devices)
        and min(group_batches) > 0
        and sum(group_batches) == batch,
        "plan.group_batches is {stated}; allowed: one number of sequences per device group, {batch} "
        "(workload.batch) in total",
        {"stated": ", ".join(map(str, group_batches))},
    )


def unlike_pools(group_devices: tuple[int, ...] | None, prefill_devices: Count, decode_devices: Count) -> Checks:
    """Of unlike devices one kind prefills and the other decodes."""
    if group_devices is None:
        return
    pools = {(prefill_devices, decode_devices), (decode_devices, prefill_devices)}
    yield Check(
        group_devices in pools,
        "plan.disaggregate uses {prefill} for prefill and {decode_devices} for decode; allowed on heterogeneous "
        "devices: two groups, one for prefill and one for decode, of {counts} devices",
        {"counts": ", ".join(map(str, group_devices)), "prefill": Counted(prefill_devices)},
    )


def disaggregated_devices(devices: int, prefill_devices: Count, decode_devices: Count) -> Checks:
    """Prefill and decode workers together fill the cluster."""
    total = prefill_devices + decode_devices
    yield Check(
        total == devices,
        "plan.disaggregate uses {prefill} for prefill and {decode_devices} for decode, {total} in total; "
        "allowed: the cluster's {there}",
        {"total": total, "prefill": Counted(prefill_devices), "there": Counted(devices)},
    )


def engine_expert_tensor_parallel(
    tensor_parallel: Count, data_parallel: Count, expert_parallel: Count, stated_expert_tensor_parallel: Count
) -> Checks:
    """What is left of the ranks splits each expert; a stated degree agrees."""
    ranks = tensor_parallel * data_parallel
    yield Check(
        stated_expert_tensor_parallel * expert_parallel == ranks,
        "plan.expert_tensor_parallel is {stated_expert_tensor_parallel}; allowed: tensor_parallel "
        "{tensor_parallel} x data_parallel {data_parallel} / expert_parallel {expert_parallel} = {left:g}",
        {"left": ranks / expert_parallel},
    )


def engine_dtype(device: Device, dtype: str) -> Checks:
    """The datasheet has a matmul rate in that dtype; 8-bit weights are expanded where it has none."""
    yield Check(
        dtype in device.peak_flops or dtype == "fp8",
        "plan.dtype is {shown}; allowed on {device.name}: {rates}",
        {"shown": show(dtype), "rates": ", ".join(device.peak_flops)},
    )


def engine_quantization(model: Model, quantization: tuple[str, ...] | None, dtype: str) -> Checks:
    """What is quantized exists in the model, and nothing is where that is stated."""
    yield Check(
        quantization != () or dtype != "fp8",
        "plan.quantization is none, but plan.dtype fp8 quantizes the weights; allowed: fp8, or plan.dtype bf16",
    )
    for word in quantization or ():
        yield Check(
            word not in EXPERTS_ONLY or model.experts is not None,
            "plan.quantization is '{word}', which applies to experts only, but {model.name} has none",
            {"word": word},
        )
        yield Check(
            word not in ROUTER_DTYPES or model.fp32_router,
            "plan.quantization is '{word}', but {model.name} has no router that engines keep in fp32",
            {"word": word},
        )


def sequences_in_flight(
    batch: Count, data_parallel: Count, replicas: Count, max_sequences: Count, continuous: bool
) -> Checks:
    """Every rank takes as many sequences as it may; in a steady loop others wait."""
    ranks = data_parallel * replicas
    most = max_sequences * ranks
    yield Check(
        continuous or batch <= most,
        "workload.batch is {batch}; allowed: up to {most} sequences in flight, plan.max_sequences "
        "{max_sequences} on each of {ranks} ranks",
        {"ranks": ranks, "most": most},
    )


def whole_prompts(
    framework: "Engine", prompt_tokens: Count, max_batched_tokens: Count, chunked_prefill: Count
) -> Checks:
    """An iteration takes any prompt in chunks, or has room for a whole one; servers of others widen their budget."""
    yield Check(
        (framework.name != "tensorrt-llm") | (chunked_prefill != 0) | (prompt_tokens <= max_batched_tokens),
        "workload.prompt_tokens is {prompt_tokens}; allowed: up to plan.max_batched_tokens {max_batched_tokens}, as "
        "plan.chunked_prefill is false",
    )


def prefix_tokens(prefix_tokens: Count, prompt_tokens: Count) -> Checks:
    """The last token of a prompt is always computed."""
    yield Check(
        prefix_tokens < prompt_tokens,
        "workload.prefix_tokens is {prefix_tokens}; allowed: fewer than the {prompt_tokens} prompt tokens (the "
        "last token is always computed)",
    )
