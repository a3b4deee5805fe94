"""What makes no sense together in a scenario of generation, though every value alone is right."""

from collections.abc import Iterator, Mapping
from typing import Any

from sightline.quantities import show
from sightline.scenario import Cluster, Disaggregation, Generate, GenerationPlan, Model
from sightline.scenario.quantization import EXPERTS_ONLY, ROUTER_DTYPES


def mistakes(
    model: Model, cluster: Cluster, workload: Generate, plan: GenerationPlan, stated: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a sentence for everything that makes no sense together; ``stated`` is the plan as it was written."""
    if plan.disaggregate is not None:
        yield from _layout(model, plan.disaggregate.prefill, "plan.disaggregate.prefill")
        yield from _layout(model, plan, "plan.disaggregate.decode")
        yield from _shared_out(cluster, plan, plan.disaggregate)
    else:
        yield from _layout(model, plan, "plan")
        yield from _fills(cluster, plan)
        yield from _cuts_experts(plan, stated.get("expert_tensor_parallel"))
    yield from _computes(cluster, plan)
    yield from _offers(plan)
    yield from _has_what_is_quantized(model, plan)
    yield from _holds(workload, plan, stated.get("max_sequences"))
    if workload.prefix_tokens >= workload.prompt_tokens:
        yield (
            f"workload.prefix_tokens is {workload.prefix_tokens}; allowed: fewer than the {workload.prompt_tokens} "
            "prompt tokens, the last of which is always computed"
        )


def _layout(model: Model, plan: GenerationPlan, key: str) -> Iterator[str]:
    t, d, e = int(plan.tensor_parallel), int(plan.data_parallel), int(plan.expert_parallel)
    if model.heads % t:
        yield f"{key}.tensor_parallel is {t}; allowed: a divisor of the model's {model.heads} attention heads"
    if plan.pipeline_parallel > model.layers:
        yield f"{key}.pipeline_parallel is {plan.pipeline_parallel}; allowed: up to the model's {model.layers} layers"
    if e > 1 and model.experts is None:
        yield f"{key}.expert_parallel is {e}; {model.name} has no experts, so allowed: 1"
    elif e > 1 and (t * d) % e:
        yield f"{key}.expert_parallel is {e}; allowed: a divisor of tensor_parallel {t} x data_parallel {d} = {t * d}"
    elif model.experts is not None and model.experts.count < e:
        yield f"{key}.expert_parallel is {e}; allowed: up to the model's {model.experts.count} experts"


def _fills(cluster: Cluster, plan: GenerationPlan) -> Iterator[str]:
    if plan.devices != cluster.devices:
        degrees = ("tensor_parallel", "pipeline_parallel", "data_parallel", "replicas")
        listed = " x ".join(f"plan.{name} {getattr(plan, name)}" for name in degrees)
        yield f"{listed} is {plan.devices}; allowed: the cluster's {cluster.devices} devices"


def _shared_out(cluster: Cluster, plan: GenerationPlan, split: Disaggregation) -> Iterator[str]:
    prefill, decode = split.prefill.devices, plan.devices
    if prefill + decode != cluster.devices:
        yield (
            f"plan.disaggregate takes {prefill} devices for prefill and {decode} for decode, {prefill + decode} in all; "
            f"allowed: the cluster's {cluster.devices} devices"
        )


def _cuts_experts(plan: GenerationPlan, ranks: int | None) -> Iterator[str]:
    t, d, e = plan.tensor_parallel, plan.data_parallel, plan.expert_parallel
    if ranks is not None and ranks * e != t * d:
        yield (
            f"plan.expert_tensor_parallel is {ranks}; allowed: what is left of tensor_parallel {t} x data_parallel {d} "
            f"over expert_parallel {e}: {plan.expert_tensor_parallel:g}"
        )


def _has_what_is_quantized(model: Model, plan: GenerationPlan) -> Iterator[str]:
    for word in plan.quantization or ():
        if word in EXPERTS_ONLY and model.experts is None:
            yield f"plan.quantization is {show(word)}, a format of experts alone; {model.name} has no experts"
        if word in ROUTER_DTYPES and not model.fp32_router:
            yield f"plan.quantization is {show(word)}; {model.name} has no router that engines keep in fp32"


def _holds(workload: Generate, plan: GenerationPlan, sequences: int | None) -> Iterator[str]:
    ranks = plan.data_parallel * plan.replicas
    if sequences is not None and workload.batch > sequences * ranks:
        yield (
            f"workload.batch is {workload.batch}; allowed: up to {sequences * ranks} sequences in flight, "
            f"plan.max_sequences {sequences} on each of {ranks} ranks"
        )


def _computes(cluster: Cluster, plan: GenerationPlan) -> Iterator[str]:
    peaks = cluster.device.peak_flops
    if plan.dtype not in peaks and plan.dtype != "fp8":
        yield f"plan.dtype is {show(plan.dtype)}; {cluster.device.name} computes in {', '.join(peaks)}"


def _offers(plan: GenerationPlan) -> Iterator[str]:
    for name, allowed in plan.engine.offers.items():
        value = getattr(plan, name, None)
        values = value if isinstance(value, tuple) else (value,)
        for one in values:
            if one is not None and one not in allowed:
                listed = ", ".join(show(v).strip("'") for v in allowed)
                yield f"plan.{name} is {show(one)}; {plan.engine.name} offers {listed}"
