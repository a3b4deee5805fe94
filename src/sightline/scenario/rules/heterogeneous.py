"""Whether a plan's work can be laid over groups of unlike devices: whole stages, or whole replicas, on each group."""

from functools import reduce
from math import gcd
from operator import and_, or_

from sightline.quantities import Count
from sightline.scenario.rules.rulebook import Beyond, Check, Checks, Mask

_CONTEXT = " x plan.context_parallel {}"


def _divide(group_devices: tuple[int, ...], ranks: Count) -> Mask:
    """Whether so many ranks divide the devices of every group."""
    whole: Mask = reduce(and_, [count % ranks == 0 for count in group_devices])
    return whole


def unlike_ranks(group_devices: tuple[int, ...] | None, tensor_parallel: Count, context_parallel: Count) -> Checks:
    """Ranks that split a layer or a sequence wait for each other in every layer: they are of one kind."""
    if group_devices is None:
        return
    ranks = tensor_parallel * context_parallel
    yield Check(
        _divide(group_devices, ranks),
        "plan.tensor_parallel{context} is {ranks}, which would span heterogeneous devices; allowed: a divisor of "
        "the devices of each group: {counts}",
        {"context": Beyond(_CONTEXT, context_parallel), "ranks": ranks, "counts": _listed(group_devices)},
    )


def unlike_split(
    group_devices: tuple[int, ...] | None,
    tensor_parallel: Count,
    context_parallel: Count,
    pipeline_parallel: Count,
    data_parallel: Count,
    split: str | None,
    schedule: str,
) -> Checks:
    """Each group of unlike devices runs whole stages of every replica, or whole replicas."""
    if group_devices is None:
        yield Check(split is None, "plan.split is {split}; allowed: none, because all devices of the cluster are equal")
        return
    ranks = tensor_parallel * context_parallel
    stage, replica = ranks * data_parallel, ranks * pipeline_parallel
    by_stage = _divide(group_devices, stage) & (pipeline_parallel > 1) & (schedule != "dualpipe")
    fits = {"pipeline": by_stage, "data": _divide(group_devices, replica)}
    asked = list(fits) if split is None else [split]
    said = "no split works for these heterogeneous groups: " if split is None else f"plan.split is {split}, with "
    yield Check(
        reduce(or_, [fits[one] for one in asked]),
        said + f"{' and '.join(_HAS[one] for one in asked)}; allowed: "
        f"{' or '.join(_NEEDS[one] for one in asked)} whose devices divide those of each group: {{counts}}",
        {"stage": stage, "replica": replica, "counts": _listed(group_devices)},
    )


_HAS = {
    "pipeline": "stages of {stage} devices in {pipeline_parallel} stages under {schedule}",
    "data": "replicas of {replica} devices",
}
"""What each way to split a plan's work over unlike devices comes to."""
_NEEDS = {"pipeline": "2 stages or more without dualpipe", "data": "replicas"}


def unlike_experts(
    group_devices: tuple[int, ...] | None,
    tensor_parallel: Count,
    context_parallel: Count,
    pipeline_parallel: Count,
    expert_parallel: Count,
    expert_tensor_parallel: Count,
    split: str | None,
) -> Checks:
    """Ranks that exchange tokens of experts wait for each other in every layer: they are of one kind."""
    if group_devices is None or split == "pipeline":
        return
    ranks = expert_parallel * expert_tensor_parallel * pipeline_parallel
    yield Check(
        (expert_parallel * expert_tensor_parallel == 1) | (split is None) | _divide(group_devices, ranks),
        "plan.expert_parallel {expert_parallel} would span heterogeneous devices with plan.split data; allowed: "
        "experts within a group, of {counts} devices in {pipeline_parallel} stages",
        {"counts": _listed(group_devices)},
    )


def stated_layers(
    stage_layers: tuple[int, ...] | None, layers: int, pipeline_parallel: Count, split: str | None, schedule: str
) -> Checks:
    """Stated layers are the model's, a number for each stage; only embedding and head may stand without any."""
    if stage_layers is None:
        return
    key = "plan.stage_layers is {stage_layers}"
    figures = {"stage_layers": _listed(stage_layers), "total": sum(stage_layers)}
    yield Check(
        len(stage_layers) == pipeline_parallel,
        key + "; allowed: one number of layers per stage, plan.pipeline_parallel {pipeline_parallel}",
        figures,
    )
    yield Check(sum(stage_layers) == layers, key + ", {total} in total; allowed: the model's {layers} layers", figures)
    yield Check(
        all(stage_layers[1:-1]), key + "; allowed: at least 1 on every stage between the first and the last", figures
    )
    yield Check(split != "data", key + " with plan.split data, which requires equal stages in all replicas", figures)
    yield Check(schedule != "dualpipe", key + "; plan.schedule dualpipe splits layers evenly", figures)


def group_batches(
    group_batches: tuple[int, ...] | None,
    group_devices: tuple[int, ...] | None,
    global_batch: Count,
    tensor_parallel: Count,
    context_parallel: Count,
    pipeline_parallel: Count,
    micro_batch: Count | None,
    split: str | None,
) -> Checks:
    """Stated shares of the batch are whole micro-batches of every replica of a group."""
    if group_batches is None:
        return
    key = "plan.group_batches is {group_batches}"
    figures = {"group_batches": _listed(group_batches), "total": sum(group_batches)}
    one_each = group_devices is not None and len(group_batches) == len(group_devices)
    yield Check(one_each, key + "; allowed: one number of sequences per device group", figures)
    yield Check(
        split != "pipeline", key + " with plan.split pipeline, which sends the whole batch to every group", figures
    )
    yield Check(
        sum(group_batches) == global_batch,
        key + ", {total} in total; allowed: workload.global_batch {global_batch}",
        figures,
    )
    if group_devices is None or not one_each:
        return
    ranks, sequences = tensor_parallel * context_parallel * pipeline_parallel, 1 if micro_batch is None else micro_batch
    shares = [
        batch * ranks % (count * sequences) == 0 for batch, count in zip(group_batches, group_devices, strict=True)
    ]
    yield Check(
        all(batch > 0 for batch in group_batches) & reduce(and_, shares),
        key + "; allowed: a multiple of replicas x plan.micro_batch in each group",
        figures,
    )


def unlike_batch(
    group_devices: tuple[int, ...] | None,
    global_batch: Count,
    tensor_parallel: Count,
    context_parallel: Count,
    pipeline_parallel: Count,
    micro_batch: Count | None,
    split: str | None,
) -> Checks:
    """Replicas on unlike devices take at least one whole micro-batch each; those of one group take as many."""
    if group_devices is None or split != "data":
        return
    replica, sequences = (
        tensor_parallel * context_parallel * pipeline_parallel,
        1 if micro_batch is None else micro_batch,
    )
    whole, least = gcd(*group_devices) * sequences, sum(group_devices) * sequences
    yield Check(
        (global_batch * replica % whole == 0) & (global_batch * replica >= least),
        "workload.global_batch is {global_batch}; allowed with plan.split data: a multiple of {multiple:g}, at "
        "least {fewest:g} (whole micro-batches of {sequences} for every replica)",
        {"multiple": whole / replica, "fewest": least / replica, "sequences": sequences},
    )


def _listed(counts: tuple[int, ...]) -> str:
    return ", ".join(map(str, counts))
