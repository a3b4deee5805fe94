"""DeepSpeed in bf16 without ZeRO: its ``BF16_Optimizer`` shards fp32 states, and sums whole gradients in fp32."""

from dataclasses import replace

import numpy as np
import pytest
from training_scenarios import training

from sightline.prediction import predict
from sightline.scenario import Scenario

PARAMETERS = 6_738_415_616


def asked(replicas: int = 8, global_batch: int = 8, cluster: str = "", **plan: object) -> Scenario:
    whole = {"framework": "deepspeed", "dtype": "bf16", "zero_stage": 0, "micro_batch": 1, "data_parallel": replicas}
    return training(
        model="llama-2-7b",
        cluster=cluster or f"{replicas}x a100-sxm-80gb",
        global_batch=global_batch,
        plan=whole | plan,
    )


def test_fp32_states_are_sharded_and_gradients_are_whole_in_fp32():
    memory = predict(asked()).memory_bytes
    assert memory["weights"] == pytest.approx(2 * PARAMETERS)
    assert memory["gradients"] == pytest.approx(4 * PARAMETERS)
    assert memory["optimizer"] == pytest.approx(12 / 8 * PARAMETERS)


@pytest.mark.parametrize("plan", [{"dtype": "fp16"}, {"framework": "reference"}, {"zero_stage": 1}])
def test_other_types_frameworks_and_stages_keep_their_states(plan):
    memory = predict(asked(**plan)).memory_bytes
    assert memory["gradients"] < 4 * PARAMETERS or plan == {"framework": "reference"}
    sharded = 8 if "zero_stage" in plan else 1
    assert memory["optimizer"] == pytest.approx(12 / sharded * PARAMETERS)


def test_gradients_are_reduced_after_the_backward_pass_and_weights_gathered_after_the_update():
    bf16, fp16 = (predict(asked(dtype=dtype)) for dtype in ("bf16", "fp16"))
    assert bf16.phases["communication_exposed"] > fp16.phases["communication_exposed"]
    overlapped = asked()
    overlap = replace(overlapped.plan.framework.overlap, gradients=False)
    framework = replace(overlapped.plan.framework, overlap=overlap)
    # Without overlap there is no reason to send layer by layer either: the same few long messages.
    alone = predict(replace(overlapped, plan=replace(overlapped.plan, framework=framework)))
    assert alone.phases["communication_exposed"] == pytest.approx(bf16.phases["communication_exposed"], rel=1e-9)
    sent = {dtype: sum(row.network_bytes for row in predict(asked(dtype=dtype)).rows) for dtype in ("bf16", "fp16")}
    assert sent["bf16"] == pytest.approx(2 * sent["fp16"], rel=0.01)


def test_every_backward_pass_casts_and_adds_its_gradients():
    bandwidth = asked(1, 1).cluster.device.memory_bandwidth
    one, three = (predict(asked(1, batch)).phases["optimizer"] for batch in (1, 3))
    # 16-bit gradients in, cast out and in, sum in and out, less the copy that the pass already counts.
    assert three - one >= 2 * 14 * PARAMETERS / bandwidth
    without = [predict(asked(1, batch, dtype="fp16")).phases["optimizer"] for batch in (1, 3)]
    assert without[0] == pytest.approx(without[1])


def test_stages_in_one_array_are_each_their_own():
    whole = asked()
    stages = np.array([0, 1, 2])
    mesh = predict(replace(whole, plan=replace(whole.plan, zero_stage=stages)))
    for index, stage in enumerate(stages):
        alone = predict(asked(zero_stage=int(stage)))
        assert mesh.step_time_s[index] == pytest.approx(alone.step_time_s)
        assert mesh.memory_bytes["total"][index] == pytest.approx(alone.memory_bytes["total"])
