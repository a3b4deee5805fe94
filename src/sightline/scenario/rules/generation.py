"""What a plan of generation may be."""

from sightline.quantities import Count, show
from sightline.scenario.cluster import Device
from sightline.scenario.model import Model
from sightline.scenario.quantization import EXPERTS_ONLY, ROUTER_DTYPES
from sightline.scenario.rules.rulebook import Checks


def engine_stages(key: str, layers: int, pipeline_parallel: Count) -> Checks:
    """Every pipeline stage of an engine holds a layer."""
    yield (
        pipeline_parallel <= layers,
        lambda: f"{key}.pipeline_parallel is {pipeline_parallel}; allowed: up to the model's {layers} layers",
    )


def engine_experts(
    key: str, model: Model, tensor_parallel: Count, data_parallel: Count, expert_parallel: Count
) -> Checks:
    """Experts are spread over the tensor x data ranks, at least one on each group of them."""
    t, d, e = tensor_parallel, data_parallel, expert_parallel
    if model.experts is None:
        yield e == 1, lambda: f"{key}.expert_parallel is {e}; {model.name} has no experts, so allowed: 1"
        return
    left = (t * d) % e
    yield (
        left == 0,
        lambda: (
            f"{key}.expert_parallel is {e}; allowed: a divisor of tensor_parallel {t} x data_parallel {d} = {t * d}"
        ),
    )
    count = model.experts.count
    yield (left > 0) | (e <= count), lambda: f"{key}.expert_parallel is {e}; allowed: up to the model's {count} experts"


def engine_devices(
    devices: int, tensor_parallel: Count, pipeline_parallel: Count, data_parallel: Count, replicas: Count
) -> Checks:
    """The replicas fill the cluster."""
    taken = tensor_parallel * pipeline_parallel * data_parallel * replicas
    yield (
        taken == devices,
        lambda: (
            f"plan.tensor_parallel {tensor_parallel} x plan.pipeline_parallel {pipeline_parallel} x "
            f"plan.data_parallel {data_parallel} x plan.replicas {replicas} is {taken}; allowed: the cluster's {devices} devices"
        ),
    )


def disaggregated_devices(devices: int, prefill_devices: Count, decode_devices: Count) -> Checks:
    """Prefill and decode workers together fill the cluster."""
    total = prefill_devices + decode_devices
    yield (
        total == devices,
        lambda: (
            f"plan.disaggregate takes {prefill_devices} devices for prefill and {decode_devices} for decode, {total} in "
            f"all; allowed: the cluster's {devices} devices"
        ),
    )


def engine_expert_tensor_parallel(
    tensor_parallel: Count, data_parallel: Count, expert_parallel: Count, stated_expert_tensor_parallel: Count
) -> Checks:
    """What is left of the ranks splits each expert; a stated degree agrees."""
    t, d, e, stated = tensor_parallel, data_parallel, expert_parallel, stated_expert_tensor_parallel
    yield (
        stated * e == t * d,
        lambda: (
            f"plan.expert_tensor_parallel is {stated}; allowed: what is left of tensor_parallel {t} x data_parallel "
            f"{d} over expert_parallel {e}: {t * d / e:g}"
        ),
    )


def engine_dtype(device: Device, dtype: str) -> Checks:
    """The datasheet has a matmul rate in that dtype; 8-bit weights are expanded where it has none."""
    peaks = device.peak_flops
    yield dtype in peaks or dtype == "fp8", f"plan.dtype is {show(dtype)}; {device.name} computes in {', '.join(peaks)}"


def engine_quantization(model: Model, quantization: tuple[str, ...] | None) -> Checks:
    """What is quantized exists in the model."""
    for word in quantization or ():
        yield (
            word not in EXPERTS_ONLY or model.experts is not None,
            f"plan.quantization is {show(word)}, a format of experts alone; {model.name} has no experts",
        )
        yield (
            word not in ROUTER_DTYPES or model.fp32_router,
            f"plan.quantization is {show(word)}; {model.name} has no router that engines keep in fp32",
        )


def sequences_in_flight(batch: Count, data_parallel: Count, replicas: Count, max_sequences: Count) -> Checks:
    """Every rank takes as many sequences as it may."""
    ranks = data_parallel * replicas
    yield (
        batch <= max_sequences * ranks,
        lambda: (
            f"workload.batch is {batch}; allowed: up to {max_sequences * ranks} sequences in flight, "
            f"plan.max_sequences {max_sequences} on each of {ranks} ranks"
        ),
    )


def prefix_tokens(prefix_tokens: Count, prompt_tokens: Count) -> Checks:
    """The last token of a prompt is always computed."""
    yield (
        prefix_tokens < prompt_tokens,
        lambda: (
            f"workload.prefix_tokens is {prefix_tokens}; allowed: fewer than the {prompt_tokens} prompt tokens, the "
            "last of which is always computed"
        ),
    )
