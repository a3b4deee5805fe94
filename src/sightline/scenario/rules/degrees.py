"""Whether the degrees of a plan fit the model, the batch and the cluster: everything is split into whole parts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import Count, show
from sightline.scenario.lengths import Lengths
from sightline.scenario.model import Model
from sightline.scenario.rules.rulebook import Beyond, Check, Checks, Counted, is_one_of

_CONTEXT = " x plan.context_parallel {}"


def tensor_heads(key: str, heads: int, tensor_parallel: Count) -> Checks:
    """Tensor parallelism gives every rank whole attention heads. Key/value heads may be replicated."""
    yield Check(
        heads % tensor_parallel == 0,
        "{key}.tensor_parallel is {tensor_parallel}; allowed: a divisor of the model's {heads} attention heads",
    )


def state_heads(model: Model, tensor_parallel: Count, context_parallel: Count) -> Checks:
    """In training each rank has whole heads of linear attention and whole groups of a state-space model.

    Context parallelism splits the heads of these too, since a state has to see all tokens.
    """
    mixers = {kind.mixer for kind in model.kinds}
    ranks = tensor_parallel * context_parallel
    for what, count, mixer in (
        ("linear-attention key heads", model.linear and model.linear.key_heads, "linear"),
        ("state-space groups", model.state_space and model.state_space.groups, "state-space"),
    ):
        if count and {mixer, "side-by-side" if mixer == "state-space" else mixer} & mixers:
            yield Check(
                count % ranks == 0,
                "plan.tensor_parallel{context} is {ranks}; allowed: a divisor of the model's {count} {what}",
                {"context": Beyond(_CONTEXT, context_parallel), "ranks": ranks, "count": count, "what": what},
            )


def device_count(
    devices: int,
    tensor_parallel: Count,
    pipeline_parallel: Count,
    context_parallel: Count,
    stated_data_parallel: Count | None,
) -> Checks:
    """Every device has one place in the mesh. Data parallelism takes what is left where no degree is stated."""
    product = tensor_parallel * pipeline_parallel * context_parallel
    degrees = "plan.tensor_parallel {tensor_parallel} x plan.pipeline_parallel {pipeline_parallel}{context}"
    figures = {"context": Beyond(_CONTEXT, context_parallel), "product": product, "there": Counted(devices)}
    if stated_data_parallel is None:
        yield Check(
            devices % product == 0, degrees + " is {product}; allowed: a divisor of the cluster's {there}", figures
        )
        return
    total = product * stated_data_parallel
    yield Check(
        (total == devices) & (stated_data_parallel % 1 == 0),
        degrees + " x plan.data_parallel {stated_data_parallel} is {total}; allowed: the cluster's {there}",
        {**figures, "total": total},
    )


def expert_ranks(
    model: Model,
    tensor_parallel: Count,
    context_parallel: Count,
    data_parallel: Count,
    expert_parallel: Count,
    expert_tensor_parallel: Count,
) -> Checks:
    """Experts are spread over the data x context x tensor ranks of a stage, as many on each."""
    e, s = expert_parallel, expert_tensor_parallel
    if model.experts is None:
        none = "; {model.name} has no experts; allowed: 1"
        yield Check(e == 1, "plan.expert_parallel is {expert_parallel}" + none)
        yield Check(s == 1, "plan.expert_tensor_parallel is {expert_tensor_parallel}" + none)
        return
    yield Check(
        model.experts.count % e == 0,
        "plan.expert_parallel is {expert_parallel}; allowed: a divisor of the model's {model.experts.count} experts",
    )
    yield Check(
        model.experts.width % s == 0,
        "plan.expert_tensor_parallel is {expert_tensor_parallel}; allowed: a divisor of the experts' width "
        "{model.experts.width}",
    )
    ranks = tensor_parallel * context_parallel * data_parallel
    yield Check(
        ranks % (e * s) == 0,
        "plan.expert_parallel {expert_parallel} x plan.expert_tensor_parallel {expert_tensor_parallel}; allowed: a "
        "divisor of the {ranks} data x context x tensor ranks of a stage",
        {"ranks": ranks},
    )


def replica_groups(
    data_parallel: Count,
    data_parallel_shard: Count | None,
    zero_stage: Count,
    tensor_parallel: Count,
    context_parallel: Count,
    expert_parallel: Count,
    expert_tensor_parallel: Count,
) -> Checks:
    """Every group of ranks that ZeRO shards the states over (hybrid sharding) is as large, and holds all experts."""
    if data_parallel_shard is None:
        return
    key = "plan.data_parallel_shard is {data_parallel_shard}"
    left = data_parallel % data_parallel_shard
    yield Check(left == 0, key + "; allowed: a divisor of plan.data_parallel {data_parallel}")
    yield Check(
        (left > 0) | (data_parallel_shard == data_parallel) | (zero_stage != 0),
        key + " with plan.zero_stage 0, which shards nothing; allowed: zero_stage 1, 2 or 3",
    )
    ranks = tensor_parallel * context_parallel * data_parallel_shard
    yield Check(
        ranks % (expert_parallel * expert_tensor_parallel) == 0,
        key + "; the {ranks} ranks of a replica group cannot hold experts spread over plan.expert_parallel "
        "{expert_parallel} x plan.expert_tensor_parallel {expert_tensor_parallel}",
        {"ranks": ranks},
    )


def expert_options(model: Model, expert_capacity: float, expert_dispatch: str, expert_overlap: bool) -> Checks:
    """How tokens travel to experts is a question only where there are some."""
    for field, value, plain in (
        ("expert_capacity", expert_capacity, 0),
        ("expert_dispatch", expert_dispatch, "all-to-all"),
        ("expert_overlap", expert_overlap, False),
    ):
        yield Check(
            model.experts is not None or value == plain,
            "plan.{field} is {value}, but {model.name} has no experts; allowed: {plain}",
            {"field": field, "value": show(value), "plain": show(plain)},
        )


def context_length(sequence_length: int, context_parallel: Count) -> Checks:
    """Context parallelism gives every rank an early and a late chunk of the sequence, so that masks even out."""
    chunks = 2 * context_parallel
    yield Check(
        (context_parallel == 1) | (sequence_length % chunks == 0),
        "workload.sequence_length is {sequence_length}; allowed: a multiple of 2 x plan.context_parallel = {chunks}",
        {"chunks": chunks},
    )


def context_heads(heads: int, tensor_parallel: Count, context_parallel: Count, context_exchange: str) -> Checks:
    """An all-to-all gives every rank whole query heads; key heads may go to several."""
    ranks = tensor_parallel * context_parallel
    yield Check(
        (context_parallel == 1) | (heads % ranks == 0) | (context_exchange != "all-to-all"),
        "plan.context_exchange is all-to-all with plan.tensor_parallel {tensor_parallel} x plan.context_parallel "
        "{context_parallel} = {ranks}; allowed: degrees whose product divides the model's {heads} attention "
        "heads, or ring, all-gather, mixed",
        {"ranks": ranks},
    )


def context_kernel(attention: str, context_parallel: Count, context_exchange: str) -> Checks:
    """Context parallelism needs a fused attention kernel, whose sums join the partial results of a split sequence."""
    yield Check(
        (context_parallel == 1) | (attention != "eager") | (context_exchange == "all-to-all"),
        "plan.attention is eager with plan.context_parallel {context_parallel}; allowed: flash, or "
        "plan.context_exchange all-to-all (only fused kernels combine chunks)",
    )


def context_windows(model: Model, sequence_length: int, context_parallel: Count, context_exchange: str) -> Checks:
    """A ring passes every key to every query, which layers with a window have no use for."""
    windowed = any(kind.mixer in ("sliding", "chunked") for kind in model.kinds)
    seen_in_part = windowed and model.window is not None and model.window < sequence_length
    sent_round = context_exchange in ("ring", "mixed") and seen_in_part
    yield Check(
        (context_parallel == 1) | (not sent_round),
        "plan.context_exchange is {context_exchange}, but {model.name} has layers with a window of "
        "{model.window} tokens; allowed: all-gather, all-to-all",
    )


def sample_lengths(model: Model, lengths: Lengths) -> Checks:
    """Attention that selects or compresses the tokens it sees is written out for samples of one length."""
    others = sorted({kind.mixer for kind in model.kinds} & {"sparse", "compressed"})
    yield Check(
        not others,
        "workload.lengths is {lengths.distribution}, but {model.name} has {others} attention, which requires "
        "samples of workload.sequence_length tokens; allowed: no lengths",
        {"others": ", ".join(others)},
    )


def global_batch(
    global_batch: Count,
    data_parallel: Count,
    micro_batch: Count | None,
    group_devices: tuple[int, ...] | None,
    split: str | None,
) -> Checks:
    """Every data-parallel rank gets as many whole micro-batches, but for replicas on unlike devices."""
    if group_devices is not None and split == "data":
        return
    ranks = "workload.global_batch is {global_batch}; allowed: a multiple of plan.data_parallel {data_parallel}"
    if micro_batch is None:
        yield Check(global_batch % data_parallel == 0, ranks)
        return
    sequences = data_parallel * micro_batch
    micro = " x plan.micro_batch {micro_batch} = {sequences}"
    yield Check(global_batch % sequences == 0, ranks + micro, {"sequences": sequences})


def stage_layers(layers: int, pipeline_parallel: Count, virtual_stages: Count) -> Checks:
    """A stage holds at least a layer, the embedding or the head."""
    stages, most = pipeline_parallel * virtual_stages, layers + 2
    yield Check(
        stages <= most,
        "plan.pipeline_parallel is {pipeline_parallel}{chunks}; allowed: up to {most} stages, the model's {layers} "
        "layers, its embedding and its head",
        {"chunks": Beyond(" and plan.virtual_stages {}, {} stages together", virtual_stages, stages), "most": most},
    )


def virtual_stages(virtual_stages: Count, pipeline_parallel: Count) -> Checks:
    """Interleaving is a schedule of several stages."""
    yield Check(
        (virtual_stages == 1) | (pipeline_parallel > 1),
        "plan.virtual_stages is {virtual_stages}; allowed: 1 without pipeline parallelism (pipeline_parallel is 1)",
    )


def interleaving(schedule: str, schedule_is_stated: bool, virtual_stages: Count) -> Checks:
    """More than one virtual stage means the interleaved schedule and no other that is stated."""
    other: Any = is_one_of(schedule, ("gpipe", "zero-bubble", "dualpipe"))
    yield Check(
        (virtual_stages == 1) | np.logical_not(other) | (not schedule_is_stated),
        "plan.schedule is '{schedule}' with plan.virtual_stages {virtual_stages}; allowed: interleaved, or "
        "virtual_stages 1",
    )


def dualpipe(
    schedule: str | NDArray[np.str_],
    virtual_stages: Count,
    pipeline_parallel: Count,
    global_batch: Count,
    data_parallel: Count,
    micro_batch: Count | None,
) -> Checks:
    """DualPipe feeds as many micro-batches into either end of the pipeline, at least as many as there are stages."""
    # Of several schedules none is DualPipe.
    if isinstance(schedule, np.ndarray) or schedule != "dualpipe":
        return
    interleaved = virtual_stages > 1
    yield Check(
        interleaved | (pipeline_parallel % 2 == 0),
        "plan.pipeline_parallel is {pipeline_parallel} with plan.schedule dualpipe; allowed: an even number",
    )
    if micro_batch is None:
        return
    micro_batches, fewest = global_batch / (data_parallel * micro_batch), 2 * pipeline_parallel
    yield Check(
        interleaved | ((micro_batches % 2 == 0) & (micro_batches >= fewest)),
        "plan.schedule is dualpipe with {micro_batches:g} micro-batches; allowed: an even number, at least "
        "{fewest} (twice plan.pipeline_parallel)",
        {"micro_batches": micro_batches, "fewest": fewest},
    )
