"""Sentences about what a prediction leaves out of the scenario at hand."""

from training_scenarios import training

from sightline.prediction.training.step_profile import remarks


def cluster(cap: str) -> dict[str, object]:
    return {"devices": "8x a100-sxm-80gb", "power_cap": cap}


def test_a_power_cap_above_it_is_said_not_to_hold() -> None:
    assert "400 W" in remarks(training(cluster=cluster("900 W"), global_batch=8))[0]


def test_chunks_that_layers_do_not_divide_into_are_remarked_on() -> None:
    plan = {"framework": "megatron", "pipeline_parallel": 4, "virtual_stages": 5}
    assert "20 chunks" in remarks(training(model="llama-2-7b", cluster="4x a100-sxm-80gb", plan=plan))[0]


def test_an_ordinary_scenario_needs_no_remark() -> None:
    assert remarks(training()) == []


def test_embedding_and_head_fill_chunks_that_layers_alone_do_not() -> None:
    plan = {"framework": "megatron", "pipeline_parallel": 8, "virtual_stages": 2}
    assert remarks(training(model="qwen3-235b-a22b", cluster="64x h100-sxm-80gb", plan=plan, global_batch=64)) == []
