"""Fine-tuning, quantized weights, compilation and offloading in a whole step: memory, time, traffic."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from open_mesh import open_mesh

from sightline.loading import scenario_from_mapping
from sightline.prediction import predict
from sightline.prediction.training.step_profile import profile_of
from sightline.profile import Profile

LORA = {"kind": "lora", "rank": 64}


def profile(
    devices: int = 1, *, model: str = "llama-2-7b", task: str = "finetune", host: Any = None, **plan: Any
) -> Profile:
    cluster: dict[str, Any] = {"devices": f"{devices}x a100-sxm-80gb"} | ({"host": host} if host else {})
    return predict(
        scenario_from_mapping(
            {
                "model": model,
                "cluster": cluster,
                "workload": {"task": task, "sequence_length": 512, "global_batch": 8},
                "plan": {"micro_batch": 1, "framework": "deepspeed", **plan},
            }
        )
    )


def test_fine_tuning_every_weight_is_pre_training() -> None:
    assert profile().phases == profile(task="pretrain").phases
    assert profile().memory_bytes == profile(task="pretrain").memory_bytes


def test_neutral_techniques_change_exactly_nothing() -> None:
    neutral = profile(offload="none", quantization="none", adapter="none", compile=False)
    assert neutral.phases == profile().phases
    assert neutral.memory_bytes == profile().memory_bytes


def test_frozen_weights_need_room_for_themselves_alone() -> None:
    adapted, whole = profile(adapter=LORA), profile()
    model = whole.scenario.model
    assert adapted.memory_bytes["optimizer"] < 0.05 * whole.memory_bytes["optimizer"]
    assert adapted.memory_bytes["weights"] == pytest.approx(2 * model.parameters, rel=0.1)
    assert adapted.memory_bytes["activations"] < whole.memory_bytes["activations"] * 1.2


def test_more_rank_needs_more_memory_and_arithmetic() -> None:
    ranks = [profile(adapter=LORA | {"rank": rank}) for rank in (1, 8, 64, 256)]
    for less, more in pairwise(ranks):
        assert less.memory_bytes["total"] < more.memory_bytes["total"]
        assert less.model_flops < more.model_flops


def test_model_flops_of_adapters_are_about_two_thirds() -> None:
    assert profile(adapter=LORA | {"rank": 1}).model_flops / profile().model_flops == pytest.approx(2 / 3, rel=0.02)


def test_qlora_takes_half_of_loras_memory_and_more_time() -> None:
    lora, qlora = profile(adapter=LORA, recompute="full"), profile(adapter={"kind": "qlora"}, recompute="full")
    assert qlora.memory_bytes["weights"] < 0.4 * lora.memory_bytes["weights"]
    assert qlora.step_time_s > lora.step_time_s


def test_norms_in_fp32_widen_what_passes_between_products() -> None:
    def qlora(upcast: bool) -> Profile:
        adapter = {"kind": "qlora", "rank": 8, "upcast": upcast}
        return profile(framework="transformers", adapter=adapter, recompute="full")

    plain, wide = qlora(False), qlora(True)
    model = plain.scenario.model
    kept = wide.stages[0].items["layer activations"] - plain.stages[0].items["layer activations"]
    assert kept == pytest.approx(512.0 * model.hidden_size * 2.0 * model.layers)
    assert wide.memory_bytes["weights"] == plain.memory_bytes["weights"]
    assert wide.hardware_flops == plain.hardware_flops
    assert wide.step_time_s > plain.step_time_s
    assert wide.scenario.plan.upcasts
    assert not profile(framework="transformers", adapter={"kind": "qlora"}).scenario.plan.upcasts
    older = profile(framework="transformers", framework_version="2024-05", adapter={"kind": "qlora"})
    assert older.scenario.plan.upcasts


def test_replicas_reduce_what_is_trained_and_shards_gather_everything() -> None:
    def moved(**plan: Any) -> float:
        rows = profile(8, **plan).rows
        return sum(row.network_bytes for row in rows if row.module == "data parallel")

    adapters = profile(adapter=LORA).scenario
    assert moved(adapter=LORA) < 0.05 * moved()
    assert moved(adapter=LORA, zero_stage=3) > 2 * 2 * adapters.model.parameters


def test_offloaded_states_leave_the_device_and_are_updated_on_the_host() -> None:
    here, there = profile(8, zero_stage=2), profile(8, zero_stage=2, offload="optimizer")
    assert there.memory_bytes["optimizer"] == there.memory_bytes["gradients"] == 0
    assert there.phases["optimizer"] > here.phases["optimizer"]
    assert there.phases["forward"] == here.phases["forward"]
    both = profile(8, zero_stage=3, offload=["optimizer", "parameters"])
    assert both.memory_bytes["weights"] == 0
    assert both.memory_bytes["total"] < there.memory_bytes["total"]


def test_megatron_keeps_the_buffer_of_gradients_where_the_optimizer_is_offloaded() -> None:
    here, there = (profile(8, framework="megatron", zero_stage=1, offload=part) for part in ("none", "optimizer"))
    assert there.memory_bytes["gradients"] == here.memory_bytes["gradients"] > 0
    assert there.memory_bytes["optimizer"] == 0 < here.memory_bytes["optimizer"]
    assert there.phases["communication_exposed"] > here.phases["communication_exposed"]


def test_passes_wait_for_activations_that_fsdp_offloads() -> None:
    def waited(framework: str) -> float:
        """Seconds that offloading adds, over those that the copies of a micro-batch take."""
        kept, sent = (profile(framework=framework, zero_stage=0, offload=part) for part in ("none", "activations"))
        copied = 2.0 * float(sent.stages[0].items["in the host's memory"])
        seconds = copied / sent.scenario.cluster.host.device_bandwidth * float(sent.scenario.micro_batches)
        return (float(sent.step_time_s) - float(kept.step_time_s)) / seconds

    assert waited("fsdp") > 0.99
    assert 0.0 < waited("reference") < 0.9


def test_a_faster_host_updates_faster() -> None:
    slow, fast = (
        profile(8, zero_stage=2, offload="optimizer", host={"same_as": "epyc-7742", "memory_bandwidth": rate})
        for rate in ("100 GB/s", "400 GB/s")
    )
    assert slow.phases["optimizer"] > 2 * fast.phases["optimizer"]


def test_a_slow_link_shows_and_a_fast_one_hides_transfers() -> None:
    slow, fast = (
        profile(8, zero_stage=3, offload=["parameters"], host={"same_as": "epyc-7742", "device_bandwidth": rate})
        for rate in ("4 GB/s", "400 GB/s")
    )
    assert slow.phases["communication_exposed"] > fast.phases["communication_exposed"]


def test_offloaded_activations_leave_two_layers_on_the_device() -> None:
    here, there = profile(framework="reference"), profile(framework="reference", offload="activations")
    layers = here.scenario.model.layers
    kept = here.stages[0].items["layer activations"]
    assert there.stages[0].items["layer activations"] == pytest.approx(kept * 2 / layers)
    assert there.stages[0].items["in the host's memory"] == pytest.approx(kept * (1 - 2 / layers))


def test_phases_sum_to_the_step_and_rows_to_their_phases() -> None:
    step = profile(8, zero_stage=3, offload=["optimizer", "parameters"], adapter={"kind": "qlora"}, compile=True)
    assert sum(step.phases.values()) == pytest.approx(step.step_time_s)
    for phase in ("forward", "backward", "optimizer", "communication_exposed"):
        assert sum(row.time_s for row in step.rows if row.phase == phase) == pytest.approx(step.phases[phase])


def test_a_host_too_small_for_what_is_offloaded_does_not_fit() -> None:
    small = {"same_as": "epyc-7742", "memory": "50 GB"}
    step = profile(8, zero_stage=3, offload=["optimizer", "parameters"], host=small)
    assert not step.fits
    assert any("of 50 GB of host memory" in sentence for sentence in step.warnings)
    assert step.memory_bytes["total"] < step.usable_bytes
    assert step.advice[0] == "does not fit: the offloaded state exceeds host memory"
    assert step.stages[0].items["in the host's memory"] > 0


def test_an_update_on_the_host_is_bound_by_it() -> None:
    here, there = profile(8, zero_stage=2), profile(8, zero_stage=2, offload="optimizer")
    assert there.limits["host"] - there.phases["host"] == pytest.approx(there.phases["optimizer"])
    assert sum(there.limits.values()) == pytest.approx(there.step_time_s)
    assert here.limits["host"] == here.phases["host"]


def test_quantized_weights_that_nobody_trains_are_remarked_on() -> None:
    assert any("weights in nf4 are not trained" in sentence for sentence in profile(quantization="nf4").warnings)
    assert profile(adapter={"kind": "qlora"}).warnings == ()


def test_a_mesh_is_its_single_plans() -> None:
    scenario = profile(8, adapter={"kind": "qlora"}, offload=["optimizer"], zero_stage=2).scenario
    axes = {"zero_stage": [1, 2, 3], "micro_batch": [1]}
    mesh = profile_of(open_mesh(scenario, axes))
    for i, stage in enumerate(axes["zero_stage"]):
        single = profile_of(replace(scenario, plan=replace(scenario.plan, zero_stage=stage)))
        assert mesh.step_time_s[i, 0] == pytest.approx(single.step_time_s)
        assert np.broadcast_to(mesh.memory_bytes["total"], (3, 1))[i, 0] == pytest.approx(single.memory_bytes["total"])


def test_a_frozen_table_is_not_summed_between_the_ends_of_a_pipeline() -> None:
    tied = {"model": "qwen2.5-1.5b", "devices": 2, "pipeline_parallel": 2, "framework": "reference"}

    def seconds(**plan: Any) -> float:
        return sum(float(r.time_s) for r in profile(**tied, **plan).rows if "tied" in r.operator)

    assert seconds() > 0.0
    assert seconds(adapter=LORA) == 0.0
