"""Training on samples of different length: packed rows waste little and attend to less, padded ones waste."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_scenarios import training

from sightline.loading import scenario_from_mapping, to_mapping
from sightline.measurement.processes.isolation import UnsupportedCaseError
from sightline.measurement.training.trainers import way_of
from sightline.prediction.schedules.timeline import timeline
from sightline.prediction.training.step_profile import predict, profile_of
from sightline.profile import Profile
from sightline.program import FlashAttention, write_out

CHATS = {"distribution": "lognormal", "mean": 500, "deviation": 400}
EXCHANGES = ["ring", "all-gather", "all-to-all", "mixed"]


def asked(plan: dict[str, Any] | None = None, devices: int = 8, **workload: Any) -> Profile:
    return predict(
        training(
            model="llama-2-7b",
            cluster=f"{devices}x h100-sxm-80gb",
            sequence_length=4096,
            global_batch=32,
            plan={"micro_batch": 1, "zero_stage": 1, **(plan or {})},
            **workload,
        )
    )


@pytest.mark.parametrize("plan", [{}, {"context_parallel": 4}, {"attention": "eager"}, {"recompute": "full"}])
@pytest.mark.parametrize("packing", [False, True])
def test_samples_of_full_length_cost_what_rows_cost(plan, packing):
    plain, same = asked(plan), asked(plan, lengths=4096, packing=packing)
    assert same.phases == plain.phases
    assert same.memory_bytes == plain.memory_bytes
    assert (same.tokens_per_s, same.model_flops, same.hardware_flops) == (
        plain.tokens_per_s,
        plain.model_flops,
        plain.hardware_flops,
    )


def test_packing_attends_to_samples_alone():
    plain, packed = asked(), asked(lengths=CHATS, packing=True)
    assert packed.phases["forward"] < plain.phases["forward"]
    rows = packed.scenario.workload.rows(1)

    def scores(profile: Profile) -> float:
        (core,) = [op for op in write_out(profile.scenario).layers[0].forward if isinstance(op, FlashAttention)]
        return float(core.batch * core.query_tokens * core.context_tokens)

    assert scores(packed) == pytest.approx(rows.squares)
    assert scores(packed) < scores(plain) / 4
    assert f"{100 * rows.real / rows.tokens:.1f} % full" in " ".join(packed.warnings)
    # What takes a token at a time takes as long as ever.
    for profile in (plain, packed):
        assert sum(r.flops for r in profile.rows if r.module == "mlp") == pytest.approx(
            sum(r.flops for r in plain.rows if r.module == "mlp")
        )


def test_padding_is_no_token():
    padded = asked({"micro_batch": 4}, lengths=CHATS)
    rows = padded.scenario.workload.rows(4)
    assert padded.tokens_per_s == pytest.approx(32 * rows.real / padded.step_time_s)
    assert rows.tokens > 1.5 * rows.real
    assert f"{100 * rows.real / rows.tokens:.1f} % are real" in " ".join(padded.warnings)
    assert padded.hardware_flops > 1.5 * padded.model_flops


def test_packed_samples_go_faster_than_padded_ones():
    assert asked(lengths=CHATS, packing=True).tokens_per_s > asked({"micro_batch": 4}, lengths=CHATS).tokens_per_s


def test_replicas_wait_for_the_longest_samples():
    uneven = asked(lengths=CHATS)
    (row,) = [r for r in uneven.rows if r.operator == "waiting for longer samples"]
    assert 0 < row.time_s < uneven.phases["communication_exposed"] + 1e-12
    assert not [r for r in asked(lengths=500).rows if r.operator == "waiting for longer samples"]
    spans = [span for span in timeline(uneven) if span.kind == "waiting for longer samples"]
    assert [span.end_s - span.start_s for span in spans] == [pytest.approx(row.time_s)]
    alone = asked({"tensor_parallel": 8}, lengths=CHATS)
    assert not [r for r in alone.rows if r.operator == "waiting for longer samples"]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_cut_row_does_the_same_work(exchange):
    whole = asked(lengths=CHATS, packing=True)
    cut = asked({"context_parallel": 4, "context_exchange": exchange}, lengths=CHATS, packing=True)
    assert cut.hardware_flops == pytest.approx(whole.hardware_flops, rel=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.booleans(), st.sampled_from(["flash", "eager"]), st.sampled_from(["llama-2-7b", "mistral-7b-v0.1"]))
def test_an_axis_of_micro_batches_is_predicted_as_each_alone(packing, attention, model):
    scenario = training(
        model=model,
        cluster="2x h100-sxm-80gb",
        sequence_length=8192,
        global_batch=16,
        plan={"micro_batch": 1, "attention": attention},
        lengths={"distribution": "uniform", "low": 100, "high": 9000},
        packing=packing,
    )
    sizes = np.array([1, 2, 4])
    mesh = profile_of(replace(scenario, plan=replace(scenario.plan, micro_batch=sizes)))
    for i, size in enumerate(sizes):
        alone = profile_of(replace(scenario, plan=replace(scenario.plan, micro_batch=int(size))))
        assert float(mesh.step_time_s[i]) == pytest.approx(float(alone.step_time_s), rel=1e-9)
        total = np.broadcast_to(mesh.memory_bytes["total"], 3)[i]
        assert float(total) == pytest.approx(float(alone.memory_bytes["total"]), rel=1e-9)


@pytest.mark.parametrize("lengths", [CHATS, [100, 900, 4000], {"distribution": "uniform", "low": 5, "high": 50}, 700])
def test_lengths_are_written_as_they_are_read(lengths):
    scenario = asked(lengths=lengths, packing=True).scenario
    again = scenario_from_mapping(to_mapping(scenario))
    assert again.workload == scenario.workload
    assert "packing" not in to_mapping(asked().scenario)["workload"]


def test_measuring_says_that_it_trains_on_equal_samples():
    with pytest.raises(UnsupportedCaseError, match="only samples of"):
        way_of(asked(lengths=CHATS).scenario)
    with pytest.raises(UnsupportedCaseError, match=r"plan\.context_parallel is .*; allowed when measuring: 1"):
        way_of(asked({"context_parallel": 2}).scenario)
