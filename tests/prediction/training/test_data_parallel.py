"""What data parallelism adds to a step: nothing for one replica, volumes as ZeRO gives them, hidden where there is time."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_scenarios import behaving, plain_constants, training

import sightline as sl
from sightline.cost.collectives.libraries import cluster_collectives, data_group
from sightline.cost.device_model import device_model
from sightline.prediction.training.data_parallel import (
    CONTENDED,
    DataParallelTime,
    Replica,
    ReplicaRanks,
    Replication,
    Rounds,
    data_parallel_time,
    exposed,
    movement,
)
from sightline.prediction.training.stages import DenseAndExperts
from sightline.program.shapes import ELEMENT_BYTES

PARAMETERS = 1e9
SECONDS = st.floats(0, 100)


def cost(
    framework: str = "reference",
    replicas: int = 8,
    micro_batches: int = 4,
    compute_s: float = 0.1,
    dtype: str = "bf16",
    zero_stage: object = 0,
    experts: float = 0.0,
    shard: int | None = None,
    stages: int = 1,
    behavior: Mapping[str, object] = MappingProxyType({}),
) -> DataParallelTime:
    scenario = training(model="gpt-125m", cluster=f"{replicas}x a100-sxm-80gb", global_batch=replicas)
    plan = training(model="gpt-125m", plan={"framework": framework, "micro_batch": 1}).plan
    plan = replace(plan, zero_stage=zero_stage, dtype=dtype, pipeline_parallel=stages)
    plan = replace(plan, framework=behaving(plan.framework, behavior))
    shard = shard or replicas
    replica = Replica(
        parameters=DenseAndExperts(PARAMETERS, experts),
        stored_bytes=DenseAndExperts(PARAMETERS, experts).times(ELEMENT_BYTES[dtype]),
        embedding_and_head_bytes=0.0,
        layers=24.0,
        forward_s=compute_s,
        backward_s=2 * compute_s,
        micro_batches=micro_batches,
    )
    on = Replication(
        plan=plan,
        ranks=(
            ReplicaRanks(*(data_group(1, n, scenario.cluster) for n in (replicas, shard, replicas / shard))),
            ReplicaRanks(*(data_group(2, n, scenario.cluster) for n in (replicas / 2, shard / 2, replicas / shard))),
        ),
        cluster=scenario.cluster,
        library=cluster_collectives(scenario.cluster),
        constants=plain_constants(),
        device_model=device_model(scenario.cluster.device),
    )
    return data_parallel_time(replica, on)


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
@pytest.mark.parametrize("framework", ["reference", "megatron", "deepspeed", "fsdp"])
def test_one_replica_costs_exactly_nothing(framework, zero_stage):
    alone = cost(framework, replicas=1, zero_stage=zero_stage)
    assert alone.exposed_s == 0
    assert alone.network_bytes == 0


@pytest.mark.parametrize(
    ("zero_stage", "bytes_per_parameter"),
    [
        (0, 2),  # gradients, all-reduced
        (1, 2 + 2),  # gradients scattered, weights gathered
        (2, 2 + 2),
        (3, 4 * (2 + 2 + 2)),  # every micro-batch: weights before forward and backward, gradients after
    ],
)
def test_volumes_are_those_of_zero(zero_stage, bytes_per_parameter):
    assert cost(zero_stage=zero_stage).network_bytes == bytes_per_parameter * PARAMETERS


def test_what_zero_2_moves_depends_on_the_framework():
    plain = cost(zero_stage=2).network_bytes
    assert (
        cost(zero_stage=2, behavior={"sharding.reduces_every_micro_batch": True}).network_bytes
        == plain + 3 * 2 * PARAMETERS
    )
    assert (
        cost(zero_stage=2, behavior={"sharding.regathers_every_micro_batch": True}).network_bytes
        == plain + 3 * 2 * PARAMETERS
    )


def test_experts_move_among_fewer_replicas():
    without, alone = cost(zero_stage=1), cost(zero_stage=1, replicas=2, experts=PARAMETERS)
    assert alone.network_bytes == without.network_bytes
    more = cost(zero_stage=1, experts=PARAMETERS)
    assert more.network_bytes == 2 * without.network_bytes
    assert without.exposed_s < more.exposed_s < 2.5 * without.exposed_s


@pytest.mark.parametrize("zero_stage", [1, 2, 3])
def test_copies_of_the_shards_are_summed_and_gathers_stay_within_a_copy(zero_stage):
    whole = cost(zero_stage=zero_stage, replicas=32)
    hybrid = cost(zero_stage=zero_stage, replicas=32, shard=8)
    reductions = 4 if zero_stage == 3 else 1
    assert hybrid.network_bytes == whole.network_bytes + reductions * 2 * PARAMETERS / 8
    # Within a node links are faster than between nodes, where only an eighth is summed.
    assert hybrid.exposed_s < whole.exposed_s
    assert cost(zero_stage=zero_stage, replicas=32, shard=32) == whole


def test_without_zero_copies_change_nothing():
    assert cost(replicas=32, shard=8) == cost(replicas=32)


def test_fp32_moves_twice_what_16_bits_move():
    for stage in (0, 1, 3):
        assert cost(zero_stage=stage, dtype="fp32").network_bytes == 2 * cost(zero_stage=stage).network_bytes


def test_hidden_transfers_slow_compute_by_the_memory_traffic_they_add():
    def added_s(moved_bytes: float) -> float:
        rounds = Rounds(1.0, 1.0, overlaps=True, passing_s=2.0, layers=1e9, moved_bytes=moved_bytes)
        return float(rounds.round_exposed_s(0.4, 1e12))

    full = CONTENDED * 1e12
    assert added_s(full) == pytest.approx(0.4)
    assert added_s(full / 4) == pytest.approx(0.1)
    assert added_s(2 * full) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("framework", "plan", "moved"),
    [
        ("fsdp", {"zero_stage": 3}, 2 + 2 + 2),  # two gathers in 16 bits, and gradients in the dtype of the passes
        ("fsdp", {"zero_stage": 3, "gradient_reduce_dtype": "fp32"}, 2 + 2 + 4),
        ("fsdp", {"zero_stage": 0}, 4),  # gradients of fp32 weights
        ("fsdp", {"zero_stage": 0, "state_dtype": "bf16"}, 2),
        ("transformers", {}, 4),
        ("transformers", {"state_dtype": "bf16"}, 2),
    ],
)
def test_gradients_move_in_the_dtype_that_the_framework_moves_them_in(framework, plan, moved):
    scenario = training(model="gpt-125m", plan={"framework": framework, "micro_batch": 1, **plan})
    replica = Replica(
        parameters=DenseAndExperts(PARAMETERS, 0.0),
        stored_bytes=DenseAndExperts(2 * PARAMETERS, 0.0),
        embedding_and_head_bytes=0.0,
        layers=12.0,
        forward_s=0.1,
        backward_s=0.2,
        micro_batches=1,
    )
    moves = movement(replica, scenario.plan)
    assert moves.reductions * moves.gradients.total + moves.gathered.total == moved * PARAMETERS


def test_overlap_hides_what_the_backward_pass_outlasts():
    shown = cost(behavior={"overlap.gradients": False}).exposed_s
    hidden = cost(behavior={"overlap.gradients": True}, compute_s=1.0).exposed_s
    assert hidden < 0.5 * shown
    assert cost(behavior={"overlap.gradients": True}, compute_s=0.0).exposed_s >= shown * 0.9


def test_more_micro_batches_cost_more_only_where_each_communicates():
    for stage in (0, 1, 2):
        assert cost(zero_stage=stage, micro_batches=8).exposed_s == cost(zero_stage=stage).exposed_s
    assert cost(zero_stage=3, micro_batches=8).exposed_s == pytest.approx(2 * cost(zero_stage=3).exposed_s)


def test_stages_along_an_axis_cost_what_each_costs():
    many = cost(zero_stage=np.array([0, 1, 2, 3]))
    for stage in range(4):
        one = cost(zero_stage=stage)
        assert many.exposed_s[stage] == pytest.approx(float(one.exposed_s), rel=1e-12)
        assert many.network_bytes[stage] == one.network_bytes


@given(SECONDS, SECONDS, st.integers(1, 100), st.floats(0, 1))
def test_exposed_time_is_between_contention_alone_and_everything(compute_s, transfer_s, layers, slowdown):
    shown = exposed(compute_s, transfer_s, layers, slowdown)
    assert shown >= slowdown * min(compute_s, transfer_s)
    assert shown >= (transfer_s - compute_s) * (1 - 1e-9)
    assert shown <= (1 + slowdown) * transfer_s * (1 + 1e-9)


@given(SECONDS, SECONDS, SECONDS, st.integers(1, 100), st.floats(0, 1))
def test_longer_compute_never_ends_earlier(compute_s, more_s, transfer_s, layers, slowdown):
    before = compute_s + exposed(compute_s, transfer_s, layers, slowdown)
    after = compute_s + more_s + exposed(compute_s + more_s, transfer_s, layers, slowdown)
    assert after >= before * (1 - 1e-9)


def test_a_pipeline_may_gather_once_and_reduce_beside_nothing():
    def of(stages: int, *, once: bool) -> DataParallelTime:
        behavior = {"sharding.regathers_every_micro_batch": True, "overlap.gradients": True}
        behavior |= {"native.synchronizes_after_pipeline": once}
        return cost(zero_stage=2, stages=stages, behavior=behavior)

    assert of(1, once=True) == of(1, once=False)
    once, often = of(2, once=True), of(2, once=False)
    assert once.network_bytes == (2 + 2) * PARAMETERS
    assert often.network_bytes == once.network_bytes + 3 * 2 * PARAMETERS
    # With no end of time to hide behind only what is reduced after all passes shows.
    hidden, shown = (
        cost(zero_stage=2, stages=2, compute_s=1e6, behavior={"native.synchronizes_after_pipeline": on})
        for on in (False, True)
    )
    assert shown.exposed_s > hidden.exposed_s


def test_gathered_weights_are_copied_once_per_gather():
    plain, copied = (cost(zero_stage=3, behavior={"native.copies_gathered_parameters": on}) for on in (False, True))
    bandwidth = training(model="gpt-125m", cluster="1x a100-sxm-80gb").cluster.device.memory_bandwidth
    fraction = plain_constants().memory_fraction
    # Read and written, twice for each of four micro-batches.
    expected = 2 * 2 * 4 * 2 * PARAMETERS / (bandwidth * fraction)
    assert copied.exposed_s - plain.exposed_s == pytest.approx(expected, rel=1e-9)
    assert cost(zero_stage=3, replicas=1, behavior={"native.copies_gathered_parameters": True}).exposed_s == 0


def test_overlapping_a_gather_that_never_happens_changes_nothing():
    def step_s(gathers: bool) -> float:
        plan = {"framework": "megatron", "overlap_gradient_reduce": False, "overlap_parameter_gather": gathers}
        work = {"task": "pretrain", "sequence_length": 2048, "global_batch": 64}
        asked = {"model": "llama-2-7b", "cluster": "8x h100-sxm-80gb", "workload": work}
        return sl.predict(sl.load({**asked, "plan": {**plan, "tensor_parallel": 2, "zero_stage": 0}})).step_time_s

    assert step_s(True) == step_s(False)
