"""Single operators: never under the roofline, the same for scalars and arrays, and as the training step prices them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import catalog
from sightline.cost.matmul import load_matmul, matmul_cost
from sightline.loading.clusters import read_cluster
from sightline.operator_profile import OperatorProfile
from sightline.prediction import predict
from sightline.prediction.elementwise_kernels import KERNELS
from sightline.scenario import (
    AttentionOperation,
    CollectiveOperation,
    ElementwiseOperation,
    MatmulOperation,
    OperatorScenario,
)
from sightline.scenario.operation import COLLECTIVES, ELEMENTWISE

ROUNDING = 1 - 1e-9
DEVICES = st.sampled_from(sorted(catalog.names("devices")))
SIZE = st.integers(1, 20_000)


def profile(workload: Any, cluster: str = "8x a100-sxm-80gb") -> OperatorProfile:
    return predict(OperatorScenario(cluster=read_cluster(cluster), workload=workload))


def matmul(**changes: Any) -> MatmulOperation:
    return MatmulOperation(**{"m": 4096, "n": 4096, "k": 4096} | changes)


def attention(**changes: Any) -> AttentionOperation:
    sizes = {"heads": 32, "kv_heads": 8, "head_dim": 128, "query_tokens": 2048, "context_tokens": 2048}
    return AttentionOperation(**sizes | changes)


@given(DEVICES, SIZE, SIZE, SIZE, st.integers(1, 64))
def test_no_matmul_is_under_the_roofline(device, m, n, k, batch):
    answer = profile(matmul(m=m, n=n, k=k, batch=batch, dtype="fp16"), f"1x {device}")
    on = answer.scenario.cluster.device
    assert answer.flops == pytest.approx(2.0 * batch * m * n * k)
    assert answer.bytes == pytest.approx(2.0 * batch * (m * k + k * n + m * n))
    legs = {"compute": answer.flops / on.peak_flops["fp16"], "memory": answer.bytes / on.memory_bandwidth}
    assert answer.time_s >= max(legs.values()) * ROUNDING
    assert legs[answer.bound] >= max(legs.values()) * ROUNDING


@given(DEVICES, st.integers(1, 64), st.sampled_from([64, 80, 128, 256]), SIZE, SIZE, st.booleans())
def test_no_attention_is_under_the_roofline(device, heads, head_dim, query, more, causal):
    sizes = {"heads": heads, "kv_heads": 1, "head_dim": head_dim, "query_tokens": query, "context_tokens": query + more}
    answer = profile(attention(**sizes, causal=causal, dtype="fp16"), f"1x {device}")
    on = answer.scenario.cluster.device
    seen = query + more - (query - 1) / 2 if causal else query + more
    assert answer.flops == pytest.approx(4.0 * heads * head_dim * query * seen)
    assert answer.time_s >= max(answer.flops / on.peak_flops["fp16"], answer.bytes / on.memory_bandwidth) * ROUNDING


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
    [(matmul, "m"), (attention, "batch"), (lambda **x: ElementwiseOperation(operator="norm", **x), "elements")],
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
    cost = matmul_cost(
        4096,
        4096,
        4096,
        dtype="bf16",
        element_bytes=2,
        output_bytes=2,
        device=device,
        constants=load_matmul("h100-sxm"),
    )
    assert profile(matmul(), "1x h100-sxm-80gb").time_s == float(cost.time_s)


@pytest.mark.parametrize(
    ("workload", "cluster", "evidence"),
    [
        (matmul(), "8x a100-sxm-80gb", "calibrated"),
        (matmul(dtype="tf32"), "8x a100-sxm-80gb", "extrapolated"),
        (matmul(), "8x rtx-4090", "datasheet"),
        (attention(), "8x h100-sxm-80gb", "calibrated"),
        (attention(query_tokens=1), "8x h100-sxm-80gb", "extrapolated"),
        (ElementwiseOperation(operator="norm", elements=1e9), "8x a100-sxm-80gb", "calibrated"),
        (ElementwiseOperation(operator="norm", elements=1e9, dtype="fp32"), "8x a100-sxm-80gb", "extrapolated"),
        (ElementwiseOperation(operator="copy", elements=1e9), "8x a100-sxm-80gb", "extrapolated"),
        (ElementwiseOperation(operator="norm", elements=1e9), "8x v100-sxm2-32gb", "datasheet"),
        (CollectiveOperation(operator="all_reduce", bytes=1e9), "8x a100-sxm-80gb", "calibrated"),
        (CollectiveOperation(operator="all_reduce", bytes=1e9), "16x a100-sxm-80gb", "extrapolated"),
        (CollectiveOperation(operator="broadcast", bytes=1e9), "8x a100-sxm-80gb", "extrapolated"),
        (CollectiveOperation(operator="all_reduce", bytes=1e9), "8x v100-sxm2-32gb", "datasheet"),
    ],
)
def test_evidence_says_what_was_measured(workload, cluster, evidence):
    assert profile(workload, cluster).evidence == evidence


def test_decoding_is_answered_with_a_warning():
    assert profile(attention(query_tokens=1)).warnings
    assert not profile(attention()).warnings


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
