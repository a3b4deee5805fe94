"""Whether the degrees of a plan fit the model, the batch and the cluster: everything is split into whole parts."""

from functools import partial

from sightline.quantities import Count, show
from sightline.scenario.context_exchange import has_windows
from sightline.scenario.lengths import Lengths
from sightline.scenario.model import Model
from sightline.scenario.rules.rulebook import Checks


def tensor_heads(key: str, heads: int, tensor_parallel: Count) -> Checks:
    """Tensor parallelism gives every rank whole attention heads. Key/value heads may be replicated."""
    yield (
        heads % tensor_parallel == 0,
        lambda: (
            f"{key}.tensor_parallel is {tensor_parallel}; allowed: a divisor of the model's {heads} attention heads"
        ),
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
        if count and mixer in mixers:
            yield count % ranks == 0, partial(_states, what, count, ranks, context_parallel)


def _states(what: str, count: int, ranks: Count, context_parallel: Count) -> str:
    context = f" x plan.context_parallel {context_parallel}" if context_parallel > 1 else ""
    return f"plan.tensor_parallel{context} is {ranks}; allowed: a divisor of the model's {count} {what}"


def device_count(
    devices: int,
    tensor_parallel: Count,
    pipeline_parallel: Count,
    context_parallel: Count,
    stated_data_parallel: Count | None,
) -> Checks:
    """Every device has one place in the mesh. Data parallelism takes what is left where no degree is stated."""
    product = tensor_parallel * pipeline_parallel * context_parallel

    def degrees() -> str:
        context = f" x plan.context_parallel {context_parallel}" if context_parallel > 1 else ""
        return f"plan.tensor_parallel {tensor_parallel} x plan.pipeline_parallel {pipeline_parallel}{context}"

    if stated_data_parallel is None:
        yield (
            devices % product == 0,
            lambda: f"{degrees()} is {product}; allowed: a divisor of the cluster's {devices} devices",
        )
        return
    total = product * stated_data_parallel
    yield (
        (total == devices) & (stated_data_parallel % 1 == 0),
        lambda: (
            f"{degrees()} x plan.data_parallel {stated_data_parallel} is {total}; allowed: the cluster's {devices} devices"
        ),
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
        none = f"{model.name} has no experts; allowed: 1"
        yield e == 1, lambda: f"plan.expert_parallel is {e}; {none}"
        yield s == 1, lambda: f"plan.expert_tensor_parallel is {s}; {none}"
        return
    count, width = model.experts.count, model.experts.width
    yield count % e == 0, lambda: f"plan.expert_parallel is {e}; allowed: a divisor of the model's {count} experts"
    yield (
        width % s == 0,
        lambda: f"plan.expert_tensor_parallel is {s}; allowed: a divisor of the experts' width {width}",
    )
    ranks = tensor_parallel * context_parallel * data_parallel
    yield (
        ranks % (e * s) == 0,
        lambda: (
            f"plan.expert_parallel {e} x plan.expert_tensor_parallel {s}; allowed: a divisor of the {ranks} data x "
            "context x tensor ranks of a stage"
        ),
    )


def expert_options(model: Model, expert_capacity: float, expert_dispatch: str, expert_overlap: bool) -> Checks:
    """How tokens travel to experts is a question only where there are some."""
    for field, value, plain in (
        ("expert_capacity", expert_capacity, 0),
        ("expert_dispatch", expert_dispatch, "all-to-all"),
        ("expert_overlap", expert_overlap, False),
    ):
        yield (
            model.experts is not None or value == plain,
            f"plan.{field} is {show(value)}; {model.name} has no experts; allowed: {show(plain)}",
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
    shard, e, s = data_parallel_shard, expert_parallel, expert_tensor_parallel
    key = f"plan.data_parallel_shard is {shard}"
    left = data_parallel % shard
    yield left == 0, lambda: f"{key}; allowed: a divisor of plan.data_parallel {data_parallel}"
    yield (
        (left > 0) | (shard == data_parallel) | (zero_stage != 0),
        lambda: f"{key} with plan.zero_stage 0, which shards nothing; allowed: zero_stage 1, 2, 3",
    )
    ranks = tensor_parallel * context_parallel * shard
    yield (
        ranks % (e * s) == 0,
        lambda: (
            f"{key}; the {ranks} ranks of a replica group cannot hold experts spread over plan.expert_parallel {e} x "
            f"plan.expert_tensor_parallel {s}"
        ),
    )


def context_length(sequence_length: int, context_parallel: Count) -> Checks:
    """Context parallelism gives every rank an early and a late chunk of the sequence, so that masks even out."""
    yield (
        (context_parallel == 1) | (sequence_length % (2 * context_parallel) == 0),
        lambda: (
            f"workload.sequence_length is {sequence_length}; allowed: a multiple of 2 x plan.context_parallel = "
            f"{2 * context_parallel}"
        ),
    )


def context_heads(heads: int, tensor_parallel: Count, context_parallel: Count, context_exchange: str) -> Checks:
    """An all-to-all gives every rank whole query heads; key heads may go to several."""
    ranks = tensor_parallel * context_parallel
    yield (
        (context_parallel == 1) | (heads % ranks == 0) | (context_exchange != "all-to-all"),
        lambda: (
            f"plan.context_exchange is all-to-all with plan.tensor_parallel {tensor_parallel} x "
            f"plan.context_parallel {context_parallel} = {ranks}; allowed: degrees that divide the model's {heads} attention "
            "heads, or ring, all-gather, mixed"
        ),
    )


def context_kernel(attention: str, context_parallel: Count, context_exchange: str) -> Checks:
    """Partial results of a split sequence are joined by the sums that fused kernels return."""
    yield (
        (context_parallel == 1) | (attention != "eager") | (context_exchange == "all-to-all"),
        lambda: (
            f"plan.attention is eager with plan.context_parallel {context_parallel}, whose chunks only fused kernels "
            "can put together; allowed: flash, or plan.context_exchange all-to-all"
        ),
    )


def context_windows(model: Model, sequence_length: int, context_parallel: Count, context_exchange: str) -> Checks:
    """A ring passes every key to every query, which layers with a window have no use for."""
    sent_round = context_exchange in ("ring", "mixed") and has_windows(model, sequence_length)
    yield (
        (context_parallel == 1) | (not sent_round),
        lambda: (
            f"plan.context_exchange is {context_exchange}; {model.name} has layers that see a window of "
            f"{model.window} tokens, for which keys do not go round a ring; allowed: all-gather, all-to-all"
        ),
    )


def sample_lengths(model: Model, lengths: Lengths) -> Checks:
    """Attention that selects or compresses the tokens it sees is written out for samples of one length."""
    others = sorted({kind.mixer for kind in model.kinds} & {"sparse", "compressed"})
    yield (
        not others,
        lambda: (
            f"workload.lengths is {lengths.distribution}; {model.name} has {', '.join(others)} attention, which is "
            "predicted on samples that all have workload.sequence_length tokens; allowed: no lengths"
        ),
    )


def global_batch(global_batch: Count, data_parallel: Count, micro_batch: Count | None) -> Checks:
    """Every data-parallel rank gets as many whole micro-batches."""
    sequences = data_parallel * (1 if micro_batch is None else micro_batch)

    def worded() -> str:
        micro = "" if micro_batch is None else f" x plan.micro_batch {micro_batch} = {sequences}"
        return (
            f"workload.global_batch is {global_batch}; allowed: a multiple of plan.data_parallel {data_parallel}{micro}"
        )

    yield global_batch % sequences == 0, worded


def stage_layers(layers: int, pipeline_parallel: Count, virtual_stages: Count) -> Checks:
    """A stage holds at least a layer, the embedding or the head."""
    stages = pipeline_parallel * virtual_stages

    def worded() -> str:
        which = f"plan.pipeline_parallel is {pipeline_parallel}"
        which += f" and plan.virtual_stages {virtual_stages}, {stages} stages together" if virtual_stages > 1 else ""
        return f"{which}; allowed: up to {layers + 2} stages, the model's {layers} layers, its embedding and its head"

    yield stages <= layers + 2, worded


def virtual_stages(virtual_stages: Count, pipeline_parallel: Count) -> Checks:
    """Interleaving is a schedule of several stages."""
    yield (
        (virtual_stages == 1) | (pipeline_parallel > 1),
        lambda: (
            f"plan.virtual_stages is {virtual_stages}; allowed: 1 without pipeline parallelism (pipeline_parallel is 1)"
        ),
    )


def interleaving(schedule: str, schedule_is_stated: bool, virtual_stages: Count) -> Checks:
    """More than one virtual stage means the interleaved schedule and no other that is stated."""
    other = schedule_is_stated and schedule in ("gpipe", "zero-bubble", "dualpipe")
    yield (
        (virtual_stages == 1) | (not other),
        lambda: (
            f"plan.schedule is '{schedule}' with plan.virtual_stages {virtual_stages}; allowed: interleaved, or "
            "virtual_stages 1"
        ),
    )


def dualpipe(
    schedule: str,
    virtual_stages: Count,
    pipeline_parallel: Count,
    global_batch: Count,
    data_parallel: Count,
    micro_batch: Count | None,
) -> Checks:
    """DualPipe feeds as many micro-batches into either end of the pipeline, at least as many as there are stages."""
    if schedule != "dualpipe":
        return
    interleaved = virtual_stages > 1
    yield (
        interleaved | (pipeline_parallel % 2 == 0),
        lambda: f"plan.pipeline_parallel is {pipeline_parallel} with plan.schedule dualpipe; allowed: an even number",
    )
    if micro_batch is None:
        return
    micro_batches = global_batch / (data_parallel * micro_batch)
    yield (
        interleaved | ((micro_batches % 2 == 0) & (micro_batches >= 2 * pipeline_parallel)),
        lambda: (
            f"plan.schedule is dualpipe with {micro_batches:g} micro-batches; allowed: an even number of "
            f"{2 * pipeline_parallel} or more, twice plan.pipeline_parallel"
        ),
    )
