"""Single operators: never under the roofline, the same for scalars and arrays, and as the training step prices them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operators import product

from sightline import catalog
from sightline.cost.matmul import load_matmul, matmul_cost
from sightline.errors import InputError
from sightline.loading.clusters import read_cluster
from sightline.prediction import predict
from sightline.prediction.single_operators import KERNELS
from sightline.profile import Profile
from sightline.scenario import (
    AttentionOperation,
    CollectiveOperation,
    ElementwiseOperation,
    GroupedMatmulOperation,
    MatmulOperation,
    OperatorScenario,
)
from sightline.scenario.cluster import COLLECTIVES
from sightline.scenario.operation import DTYPE_FORMATS, ELEMENTWISE, FORMATS
from sightline.scenario.precision import MATMUL_FORMATS

ROUNDING = 1 - 1e-9
DEVICES = st.sampled_from(sorted(catalog.names("devices")))
SIZE = st.integers(1, 20_000)


def profile(workload: Any, cluster: str = "8x a100-sxm-80gb") -> Profile:
    return predict(OperatorScenario(cluster=read_cluster(cluster), workload=workload))


def half(device: str) -> str:
    return "fp16" if "fp16" in read_cluster(f"1x {device}").device.peak_flops else "bf16"


def matmul(**changes: Any) -> MatmulOperation:
    return MatmulOperation(**{"m": 4096, "n": 4096, "k": 4096} | changes)


def attention(**changes: Any) -> AttentionOperation:
    sizes = {"heads": 32, "kv_heads": 8, "head_dim": 128, "query_tokens": 2048, "context_tokens": 2048}
    return AttentionOperation(**sizes | changes)


def grouped(**changes: Any) -> GroupedMatmulOperation:
    return GroupedMatmulOperation(**{"rows": 32768, "per_token": 8, "experts": 128, "n": 1536, "k": 4096} | changes)


def latent(**changes: Any) -> AttentionOperation:
    sizes = {"heads": 128, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "query_tokens": 1, "context_tokens": 8192}
    return AttentionOperation(**sizes | {"latent": True} | changes)


@given(DEVICES, SIZE, SIZE, SIZE, st.integers(1, 64))
def test_no_matmul_is_under_the_roofline(device, m, n, k, batch):
    answer = profile(matmul(m=m, n=n, k=k, batch=batch, dtype=half(device)), f"1x {device}")
    on = answer.scenario.cluster.device
    assert answer.flops == pytest.approx(2.0 * batch * m * n * k)
    assert answer.bytes == pytest.approx(2.0 * batch * (m * k + k * n + m * n))
    legs = {"compute": answer.flops / on.peak_flops[half(device)], "memory": answer.bytes / on.memory_bandwidth}
    assert answer.time_s >= max(legs.values()) * ROUNDING
    assert legs[answer.bound] >= max(legs.values()) * ROUNDING


@given(DEVICES, st.integers(1, 64), st.sampled_from([64, 80, 128, 256]), SIZE, SIZE, st.booleans())
def test_no_attention_is_under_the_roofline(device, heads, head_dim, query, more, causal):
    sizes = {"heads": heads, "kv_heads": 1, "head_dim": head_dim, "query_tokens": query, "context_tokens": query + more}
    answer = profile(attention(**sizes, causal=causal, dtype=half(device)), f"1x {device}")
    on = answer.scenario.cluster.device
    seen = query + more - (query - 1) / 2 if causal else query + more
    assert answer.flops == pytest.approx(4.0 * heads * head_dim * query * seen)
    assert (
        answer.time_s >= max(answer.flops / on.peak_flops[half(device)], answer.bytes / on.memory_bandwidth) * ROUNDING
    )


@given(DEVICES, st.sampled_from(ELEMENTWISE), st.integers(1, 10**10), st.sampled_from(["fp32", "fp16"]))
def test_no_kernel_is_faster_than_the_cache(device, operator, elements, dtype):
    answer = profile(ElementwiseOperation(operator=operator, elements=elements, dtype=dtype), f"1x {device}")
    on = answer.scenario.cluster.device
    assert answer.time_s >= answer.bytes / max(on.memory_bandwidth, on.l2_bandwidth)
    assert answer.bytes >= elements


@given(st.sampled_from(COLLECTIVES), st.integers(2, 64), st.floats(1, 1e11))
def test_no_collective_is_faster_than_its_links(operator, devices, size):
    answer = profile(CollectiveOperation(operator=operator, bytes=size), f"{devices}x h100-sxm-80gb")
    bandwidth = answer.scenario.cluster.intra_node.bandwidth
    assert answer.time_s >= size / devices / bandwidth
    assert (answer.bound, answer.bytes, answer.flops) == ("network", size, 0.0)


@pytest.mark.parametrize("operator", COLLECTIVES)
def test_a_collective_of_one_takes_no_time_and_has_no_rate(operator):
    answer = profile(CollectiveOperation(operator=operator, bytes=1e6), "1x a100-sxm-80gb")
    assert (answer.time_s, answer.bytes_per_s, answer.flops_per_s) == (0.0, None, None)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (matmul, "m"),
        (attention, "batch"),
        (latent, "context_tokens"),
        (grouped, "rows"),
        (lambda **x: ElementwiseOperation(operator="norm", **x), "elements"),
    ],
)
def test_arrays_are_answered_as_their_scalars(build, name):
    sizes = np.array([1.0, 100.0, 5000.0])
    together = profile(build(**{name: sizes}))
    for i, size in enumerate(sizes):
        alone = profile(build(**{name: size}))
        assert together.time_s[i] == alone.time_s
        assert together.bytes_per_s[i] == alone.bytes_per_s


def test_a_matmul_is_what_its_cost_function_says():
    device = read_cluster("1x h100-sxm-80gb").device
    cost = matmul_cost(product(4096, 4096, 4096), device, load_matmul("h100-sxm"))
    assert profile(matmul(), "1x h100-sxm-80gb").time_s == float(cost.time_s)


@pytest.mark.parametrize(
    ("workload", "cluster", "evidence"),
    [
        (matmul(), "8x a100-sxm-80gb", "calibrated"),
        (matmul(dtype="tf32"), "8x a100-sxm-80gb", "extrapolated"),
        (matmul(m=65536), "8x a100-sxm-80gb", "extrapolated"),
        (matmul(k=8), "8x h100-sxm-80gb", "extrapolated"),
        (matmul(), "8x mi300x", "datasheet"),
        (matmul(dtype="fp8"), "8x h100-sxm-80gb", "calibrated"),
        (matmul(format="fp8"), "8x a100-sxm-80gb", "extrapolated"),
        (matmul(format="w8a8"), "8x a100-sxm-80gb", "calibrated"),
        (matmul(format="w8a8"), "8x h100-sxm-80gb", "extrapolated"),
        (grouped(format="fp8-block"), "8x h800-sxm-80gb", "calibrated"),
        (grouped(), "8x h800-sxm-80gb", "extrapolated"),
        (grouped(format="fp8-block"), "8x h100-sxm-80gb", "extrapolated"),
        (attention(), "8x h100-sxm-80gb", "calibrated"),
        (attention(causal=False), "8x h100-sxm-80gb", "extrapolated"),
        (attention(), "8x h200-sxm-141gb", "extrapolated"),
        (attention(query_tokens=1), "8x h100-sxm-80gb", "calibrated"),
        (attention(query_tokens=1, kv_dtype="fp8"), "8x h100-sxm-80gb", "calibrated"),
        (attention(query_tokens=1, kv_dtype="int8"), "8x h100-sxm-80gb", "extrapolated"),
        (attention(batch=100_000), "8x h100-sxm-80gb", "extrapolated"),
        (attention(query_tokens=100_000, context_tokens=100_000), "8x h100-sxm-80gb", "extrapolated"),
        (attention(query_tokens=1, context_tokens=500_000), "8x h100-sxm-80gb", "extrapolated"),
        (attention(query_tokens=4), "8x h100-sxm-80gb", "extrapolated"),
        (attention(head_dim=256), "8x b200-sxm-180gb", "calibrated"),
        (attention(head_dim=256), "8x h100-sxm-80gb", "extrapolated"),
        (attention(query_tokens=np.array([1, 2048])), "8x h100-sxm-80gb", "calibrated"),
        (attention(query_tokens=np.array([1, 100_000]), context_tokens=100_000), "8x h100-sxm-80gb", "extrapolated"),
        (latent(), "8x h800-sxm-80gb", "calibrated"),
        (latent(heads=16), "8x h800-sxm-80gb", "extrapolated"),
        (latent(query_tokens=512), "8x h800-sxm-80gb", "extrapolated"),
        (latent(), "8x a100-sxm-80gb", "datasheet"),
        (ElementwiseOperation(operator="norm", elements=1e9), "8x a100-sxm-80gb", "calibrated"),
        (ElementwiseOperation(operator="norm", elements=1e9, dtype="fp32"), "8x a100-sxm-80gb", "extrapolated"),
        (ElementwiseOperation(operator="copy", elements=1e9), "8x a100-sxm-80gb", "extrapolated"),
        (ElementwiseOperation(operator="norm", elements=1e9), "8x v100-sxm2-32gb", "datasheet"),
        (CollectiveOperation(operator="all_reduce", bytes=5e8), "8x a100-sxm-80gb", "calibrated"),
        (CollectiveOperation(operator="send_recv", bytes=1e6), "8x a100-sxm-80gb", "calibrated"),
        (CollectiveOperation(operator="all_reduce", bytes=1e9), "8x a100-sxm-80gb", "extrapolated"),
        (CollectiveOperation(operator="all_reduce", bytes=1), "8x a100-sxm-80gb", "extrapolated"),
        (CollectiveOperation(operator="all_reduce", bytes=1e6, library="vllm"), "8x h100-sxm-80gb", "calibrated"),
        (CollectiveOperation(operator="all_reduce", bytes=1e11, library="vllm"), "8x h100-sxm-80gb", "extrapolated"),
        (CollectiveOperation(operator="all_reduce", bytes=1e9), "16x a100-sxm-80gb", "extrapolated"),
        (CollectiveOperation(operator="broadcast", bytes=1e9), "8x a100-sxm-80gb", "extrapolated"),
        (CollectiveOperation(operator="all_reduce", bytes=1e9), "8x v100-sxm2-32gb", "datasheet"),
    ],
)
def test_evidence_says_what_was_measured(workload, cluster, evidence):
    assert profile(workload, cluster).evidence == evidence


def test_a_format_that_is_converted_is_answered_with_a_warning():
    assert "has no fp8" in profile(matmul(format="fp8")).warnings[0]
    assert not profile(matmul(format="fp8"), "1x h100-sxm-80gb").warnings
    assert not profile(matmul()).warnings


@given(DEVICES, st.sampled_from(FORMATS), SIZE, SIZE, SIZE)
def test_every_format_keeps_to_its_roofline(device, chosen, m, n, k):
    answer = profile(matmul(m=m, n=n, k=k, format=chosen, dtype=half(device)), f"1x {device}")
    on = answer.scenario.cluster.device
    assert answer.flops == pytest.approx(2.0 * m * n * k)
    assert (
        answer.time_s >= max(answer.bytes / on.memory_bandwidth, answer.flops / max(on.peak_flops.values())) * ROUNDING
    )
    low, high = answer.interval["time_s"]
    assert low < answer.time_s < high < 2 * answer.time_s


@given(DEVICES, st.integers(1, 20_000), st.integers(1, 256), st.integers(1, 8), st.sampled_from([None, "fp8-block"]))
def test_experts_keep_to_their_roofline(device, tokens, experts, per_token, chosen):
    per_token = min(per_token, experts)
    asked = grouped(rows=tokens * per_token, per_token=per_token, experts=experts, format=chosen, dtype=half(device))
    answer = profile(asked, f"1x {device}")
    on = answer.scenario.cluster.device
    assert answer.flops == pytest.approx(2.0 * tokens * per_token * 1536 * 4096)
    assert (
        answer.time_s >= max(answer.bytes / on.memory_bandwidth, answer.flops / max(on.peak_flops.values())) * ROUNDING
    )


@given(DEVICES, st.integers(1, 8), st.integers(1, 10**6), st.sampled_from([None, "fp8", "int8"]), st.booleans())
def test_decoding_keeps_to_its_roofline(device, query, more, cache, shared):
    sizes = {"query_tokens": query, "context_tokens": query + more, "kv_dtype": cache, "dtype": half(device)}
    answer = profile((latent if shared else attention)(**sizes), f"1x {device}")
    on = answer.scenario.cluster.device
    legs = answer.flops / on.peak_flops[half(device)], answer.bytes / on.memory_bandwidth
    assert answer.time_s >= max(legs) * ROUNDING


@pytest.mark.parametrize("chosen", ["16-bit", "fp8", "w8a8", "w4a16"])
def test_more_rows_of_a_long_matmul_take_longer(chosen):
    times = profile(matmul(m=np.array([2048.0, 8192.0, 32768.0, 131072.0]), format=chosen)).time_s
    assert (np.diff(times) > 0).all()


def test_a_longer_cache_a_wider_window_and_more_sequences_take_longer():
    longer = np.array([4096.0, 16384.0, 65536.0, 262144.0])
    for changes in ({"context_tokens": longer}, {"context_tokens": 1e6, "window": longer}):
        times = profile(attention(query_tokens=1, batch=64, **changes)).time_s
        assert (np.diff(times) > 0).all()
    for build in (attention, latent):
        times = profile(build(query_tokens=1, context_tokens=8192, batch=np.array([8.0, 64.0, 512.0]))).time_s
        assert (np.diff(times) > 0).all()


def test_few_queries_take_the_kernel_that_splits_the_context():
    one, many = (profile(attention(query_tokens=q, context_tokens=131072), "1x h100-sxm-80gb") for q in (1, 512))
    assert one.time_s < 4 * one.bytes / one.scenario.cluster.device.memory_bandwidth
    assert many.time_s > 4 * one.time_s
    together = profile(attention(query_tokens=np.array([1, 512]), context_tokens=131072), "1x h100-sxm-80gb")
    assert together.time_s.tolist() == [one.time_s, many.time_s]
    assert together.interval["time_s"][1].tolist() == [one.interval["time_s"][1], many.interval["time_s"][1]]


def test_a_cache_of_8_bits_is_read_faster():
    full, half_size = (
        profile(attention(query_tokens=1, batch=64, context_tokens=32768, kv_dtype=t)) for t in (None, "fp8")
    )
    assert half_size.time_s < full.time_s
    assert half_size.bytes == pytest.approx(full.bytes / 2, rel=0.01)


def test_an_engines_all_reduce_is_quicker_for_small_messages_and_old_releases_are_known():
    def time(size, **library):
        return profile(CollectiveOperation(operator="all_reduce", bytes=size, **library), "8x h100-sxm-80gb").time_s

    assert time(65536, library="custom") < time(65536)
    assert time(2**30, library="custom") == time(2**30)
    assert time(65536, library="vllm", version="0.14.0") != time(65536, library="vllm", version="0.24.0")
    assert time(65536, version="2.27.3") != time(65536)
    with pytest.raises(InputError, match="unknown version '9' of the collective library"):
        time(65536, version="9")


def test_every_format_of_an_operator_is_one_of_the_kernels():
    assert set(FORMATS) | {"32-bit", "mxfp8"} == set(MATMUL_FORMATS)
    assert set(DTYPE_FORMATS.values()) <= set(MATMUL_FORMATS)


@pytest.mark.parametrize(
    ("operator", "elements", "cluster", "measured_us"),
    [
        # microsoft/vidur@7d47513, Llama-2-7B on one device, 4,096 tokens: not what a fused kernel of today would take.
        ("norm", 4096 * 4096, "1x a100-sxm-80gb", 104),
        ("gated_activation", 4096 * 11008, "1x a100-sxm-80gb", 264.5),
        ("rope", 4096 * 8192, "1x a100-sxm-80gb", 148.5),
        ("residual", 4096 * 4096, "1x a100-sxm-80gb", 55),
        ("embedding", 4096 * 4096, "1x a100-sxm-80gb", 235),
        ("norm", 4096 * 4096, "1x a40", 176),
        ("rope", 4096 * 8192, "1x a40", 250),
        ("norm", 4096 * 4096, "1x h100-sxm-80gb", 66.5),
        ("gated_activation", 4096 * 11008, "1x h100-sxm-80gb", 138),
    ],
)
def test_serving_kernels_take_what_was_measured(operator, elements, cluster, measured_us):
    answer = profile(ElementwiseOperation(operator=operator, elements=float(elements)), cluster)
    assert answer.time_s * 1e6 == pytest.approx(measured_us, rel=0.15)


def test_adam_moves_its_states():
    assert profile(ElementwiseOperation(operator="adam", elements=1e9)).bytes == pytest.approx(28e9)
    assert set(KERNELS) == set(ELEMENTWISE)


def test_a_benchmark_finds_weights_that_fit_in_l2_and_a_model_does_not():
    l40s = read_cluster("1x l40s-48gb").device
    small, large = {"m": 16, "n": 4096, "k": 1024}, {"m": 16, "n": 16384, "k": 16384}
    cold, warm = (profile(matmul(**small, weight_copies=c), "1x l40s-48gb") for c in (None, 5))
    weight_bytes = 2 * 4096 * 1024
    assert cold.bytes - warm.bytes == pytest.approx(weight_bytes, rel=0.05)
    saved_s = weight_bytes / l40s.memory_bandwidth - weight_bytes / l40s.l2_bandwidth
    assert cold.time_s - warm.time_s > 0.7 * saved_s
    cold, warm = (profile(matmul(**large, weight_copies=c), "1x l40s-48gb") for c in (None, 1))
    assert warm.time_s == pytest.approx(cold.time_s, rel=0.01)
