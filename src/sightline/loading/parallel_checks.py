"""Whether a plan's degrees fit the model, the batch and the cluster: heads, layers, experts and devices are shared out whole."""

from collections.abc import Iterator

from sightline.quantities import show
from sightline.scenario import Model


def heads_are_split(heads: int, tensor_parallel: int) -> Iterator[str]:
    """Tensor parallelism gives every rank whole attention heads."""
    if heads % tensor_parallel:
        yield f"plan.tensor_parallel is {tensor_parallel}; allowed: a divisor of the model's {heads} attention heads"


def states_are_split(task: str, model: Model, tensor_parallel: int, context_parallel: int) -> Iterator[str]:
    """In training each rank has whole heads of linear attention and whole groups of a state-space model.

    Context parallelism shares out the heads of these too, since a state has to see all tokens.
    """
    if task not in ("pretrain", "finetune"):
        return
    mixers = {kind.mixer for kind in model.kinds}
    parts = [
        ("linear-attention key heads", model.linear and model.linear.key_heads, "linear"),
        ("state-space groups", model.state_space and model.state_space.groups, "state-space"),
    ]
    for what, count, mixer in parts:
        ranks = tensor_parallel * context_parallel
        if count and mixer in mixers and count % ranks:
            beside = f" x plan.context_parallel {context_parallel}" if context_parallel > 1 else ""
            yield f"plan.tensor_parallel{beside} is {ranks}; allowed: a divisor of the model's {count} {what}"


def degrees_fill_the_cluster(
    devices: int, tensor_parallel: int, pipeline_parallel: int, context_parallel: int, data_parallel: int
) -> Iterator[str]:
    """Every device has one place in the mesh."""
    product = tensor_parallel * pipeline_parallel * context_parallel * data_parallel
    if product != devices:
        degrees = _degrees(tensor_parallel, pipeline_parallel, context_parallel)
        yield (f"{degrees} x plan.data_parallel {data_parallel} is {product}; allowed: the cluster's {devices} devices")


def _degrees(tensor_parallel: int, pipeline_parallel: int, context_parallel: int) -> str:
    """The degrees of one replica in words; context parallelism only where there is any."""
    context = f" x plan.context_parallel {context_parallel}" if context_parallel > 1 else ""
    return f"plan.tensor_parallel {tensor_parallel} x plan.pipeline_parallel {pipeline_parallel}{context}"


def degrees_divide_the_cluster(
    devices: int, tensor_parallel: int, pipeline_parallel: int, context_parallel: int, data_parallel_is_free: bool
) -> Iterator[str]:
    """Without a stated degree, data parallelism takes what is left, which must be whole."""
    product = tensor_parallel * pipeline_parallel * context_parallel
    if data_parallel_is_free and devices % product:
        degrees = _degrees(tensor_parallel, pipeline_parallel, context_parallel)
        yield f"{degrees} is {product}; allowed: a divisor of the cluster's {devices} devices"


def experts_are_spread(
    model: Model,
    tensor_parallel: int,
    context_parallel: int,
    data_parallel: int,
    expert_parallel: int,
    expert_tensor_parallel: int,
) -> Iterator[str]:
    """Experts are spread over the data x context x tensor ranks of a stage, as many on each."""
    if model.experts is None:
        for field, degree in (("expert_parallel", expert_parallel), ("expert_tensor_parallel", expert_tensor_parallel)):
            if degree > 1:
                yield f"plan.{field} is {degree}; {model.name} has no experts; allowed: 1"
        return
    if model.experts.count % expert_parallel:
        yield f"plan.expert_parallel is {expert_parallel}; allowed: a divisor of the model's {model.experts.count} experts"
    if model.experts.width % expert_tensor_parallel:
        yield (
            f"plan.expert_tensor_parallel is {expert_tensor_parallel}; allowed: a divisor of the experts' width "
            f"{model.experts.width}"
        )
    ranks = tensor_parallel * context_parallel * data_parallel
    if ranks % (expert_parallel * expert_tensor_parallel):
        yield (
            f"plan.expert_parallel {expert_parallel} x plan.expert_tensor_parallel {expert_tensor_parallel}; allowed: a "
            f"divisor of the {ranks} data x context x tensor ranks of a stage"
        )


def copies_are_whole(
    data_parallel: int,
    data_parallel_shard: int | None,
    zero_stage: int,
    tensor_parallel: int,
    context_parallel: int,
    expert_parallel: int,
    expert_tensor_parallel: int,
) -> Iterator[str]:
    """Every group of replicas that shares states out is as large, and holds all experts."""
    if data_parallel_shard is None:
        return
    key = f"plan.data_parallel_shard is {data_parallel_shard}"
    if data_parallel % data_parallel_shard:
        yield f"{key}; allowed: a divisor of plan.data_parallel {data_parallel}"
    elif data_parallel_shard < data_parallel and zero_stage == 0:
        yield f"{key} with plan.zero_stage 0, which shares nothing out; allowed: zero_stage 1, 2, 3"
    ranks = tensor_parallel * context_parallel * data_parallel_shard
    if ranks % (expert_parallel * expert_tensor_parallel):
        yield (
            f"{key}; the {ranks} ranks of a copy cannot hold experts spread over plan.expert_parallel {expert_parallel} x "
            f"plan.expert_tensor_parallel {expert_tensor_parallel}"
        )


def experts_have_their_words(
    model: Model, expert_capacity: float, expert_dispatch: str, expert_overlap: bool
) -> Iterator[str]:
    """How tokens travel to experts is a question only where there are some."""
    if model.experts is not None:
        return
    for field, value, plain in (
        ("expert_capacity", expert_capacity, 0),
        ("expert_dispatch", expert_dispatch, "all-to-all"),
        ("expert_overlap", expert_overlap, False),
    ):
        if value != plain:
            yield f"plan.{field} is {show(value)}; {model.name} has no experts; allowed: {show(plain)}"


def batch_is_split(global_batch: int, data_parallel: int, micro_batch: int | None) -> Iterator[str]:
    """Every data-parallel rank gets as many whole micro-batches."""
    if global_batch % (data_parallel * (micro_batch or 1)):
        by = f"plan.data_parallel {data_parallel}"
        by += f" x plan.micro_batch {micro_batch} = {data_parallel * micro_batch}" if micro_batch else ""
        yield f"workload.global_batch is {global_batch}; allowed: a multiple of {by}"


def stages_have_layers(layers: int, pipeline_parallel: int, virtual_stages: int) -> Iterator[str]:
    """A stage holds at least a layer, the embedding or the head."""
    stages = pipeline_parallel * virtual_stages
    if stages > layers + 2:
        which = f"plan.pipeline_parallel is {pipeline_parallel}"
        which += f" and plan.virtual_stages {virtual_stages}, {stages} stages together" if virtual_stages > 1 else ""
        yield f"{which}; allowed: up to {layers + 2} stages, the model's {layers} layers, its embedding and its head"


def both_ends_are_fed(
    schedule: str, pipeline_parallel: int, global_batch: int, data_parallel: int, micro_batch: int | None
) -> Iterator[str]:
    """DualPipe sends as many micro-batches from either end, at least as many as there are stages."""
    if schedule != "dualpipe":
        return
    if pipeline_parallel % 2:
        yield f"plan.pipeline_parallel is {pipeline_parallel} with plan.schedule dualpipe; allowed: an even number"
    micro_batches = global_batch / (data_parallel * (micro_batch or 1))
    if micro_batch and (micro_batches % 2 or micro_batches < 2 * pipeline_parallel):
        yield (
            f"plan.schedule is dualpipe with {micro_batches:g} micro-batches; allowed: an even number of "
            f"{2 * pipeline_parallel} or more, twice plan.pipeline_parallel"
        )


def virtual_stages_need_a_pipeline(virtual_stages: int, pipeline_parallel: int) -> Iterator[str]:
    """Interleaving is a schedule of several stages."""
    if virtual_stages > 1 and pipeline_parallel == 1:
        yield f"plan.virtual_stages is {virtual_stages}; allowed: 1 without pipeline parallelism (pipeline_parallel is 1)"
