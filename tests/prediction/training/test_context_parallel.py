"""What cutting a sequence costs and saves: transfers hide behind attention as far as it lasts."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_mesh import open_mesh
from training_scenarios import training

from sightline.prediction.changes import plans_beside
from sightline.prediction.training.micro_batch import Overlap
from sightline.prediction.training.step_profile import predict, profile_of
from sightline.profile import Profile

EXCHANGES = ["ring", "all-gather", "all-to-all", "mixed"]


def step(c: int, exchange: str, *, devices: int = 8, sequence_length: int = 32768, **plan: Any) -> Profile:
    scenario = training(
        model="llama-3-8b",
        cluster=f"{devices}x h100-sxm-80gb",
        sequence_length=sequence_length,
        global_batch=devices,
        plan={"context_parallel": c, "context_exchange": exchange, "micro_batch": 1, "zero_stage": 1, **plan},
    )
    return predict(scenario)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_degree_1_costs_nothing(exchange):
    assert step(1, exchange).phases == step(1, "ring").phases
    assert step(1, exchange).memory_bytes == step(1, "ring").memory_bytes


def test_rings_under_deepspeed_send_gradients_of_keys_round_in_fp32():
    sent = {
        framework: sum(row.network_bytes for row in step(8, "ring", framework=framework).rows if "keys" in row.operator)
        for framework in ("deepspeed", "megatron")
    }
    # A block and its gradients go round: seven hops forward, seven backward, gradients one hop more.
    assert sent["deepspeed"] / sent["megatron"] == pytest.approx((7 + 7 + 2 * 8) / (7 + 7 + 8))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_cut_sequence_needs_less_memory_and_the_same_arithmetic(exchange):
    profiles = [step(c, exchange) for c in (1, 2, 4, 8)]
    assert len({round(p.hardware_flops / 1e12) for p in profiles}) == 1
    kept = [p.memory_bytes["activations"] for p in profiles]
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] == pytest.approx(kept[0] / 8, rel=1e-6)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_rows_name_the_exchange_and_its_bytes(exchange):
    rows = [row for row in step(4, exchange).rows if row.module == "attention core" and row.bound == "network"]
    assert rows
    assert all(row.network_bytes > 0 for row in rows)


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 1))
def test_a_transfer_shows_where_it_outlasts_the_work_beside_it(transfer_s, work_s, slowdown):
    behind = Overlap(slowdown=slowdown).behind(transfer_s, work_s)
    assert 0 <= behind <= transfer_s + 1e-12
    assert behind >= transfer_s - work_s - 1e-12
    if slowdown == 0:
        assert behind == pytest.approx(max(0.0, transfer_s - work_s), abs=1e-12)


def test_a_ring_hides_at_long_sequences_what_it_shows_at_short_ones():
    """A chunk's attention grows with its square, its keys only with its length."""
    shown = []
    for length in (4096, 262144):
        ring = step(16, "ring", devices=16, sequence_length=length, recompute="full")
        taken = sum(row.time_s for row in ring.rows if row.module == "attention core" and row.bound == "network")
        waited = sum(row.time_s for row in ring.rows if row.operator == "waiting for the slowest device")
        shown.append((ring.phases["communication_exposed"] - waited) / taken)
    assert shown[0] > 0.8
    # What is hidden still slows down what hides it.
    assert shown[1] < 0.5


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(EXCHANGES), st.sampled_from([1, 2, 4]), st.sampled_from(["none", "selective", "full"]))
def test_an_axis_of_degrees_is_predicted_as_each_alone(exchange, t, recompute):
    scenario = step(8, exchange, devices=32, tensor_parallel=t, recompute=recompute).scenario
    degrees = (1, 2, 4, 8)
    mesh = profile_of(open_mesh(scenario, {"context_parallel": degrees}))
    for i, c in enumerate(degrees):
        alone = step(c, exchange, devices=32, tensor_parallel=t, recompute=recompute)
        for picked, one in ((mesh[i].phases, alone.phases), (mesh[i].memory_bytes, alone.memory_bytes)):
            assert {k: float(v) for k, v in picked.items()} == pytest.approx(
                {k: float(v) for k, v in one.items()}, rel=1e-9, abs=1e-12
            )


def test_neighbours_cut_twice_and_half_as_often_and_exchange_otherwise():
    scenario = step(2, "ring", devices=16).scenario
    changes = {change for change, _ in plans_beside(scenario)}
    assert {"context_parallel: 1", "context_parallel: 4"} <= changes
    assert {"context_exchange: all-gather", "context_exchange: mixed", "context_exchange: all-to-all"} <= changes
    odd = replace(scenario, workload=replace(scenario.workload, sequence_length=32768 + 4))
    assert "context_parallel: 4" not in {change for change, _ in plans_beside(odd)}
