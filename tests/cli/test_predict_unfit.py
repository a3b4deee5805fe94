"""``sightline predict`` of a plan that does not fit and that no single change saves."""

import json

import pytest


@pytest.fixture
def asked(tmp_path):
    file = tmp_path / "asked.yaml"
    work = "workload: {task: pretrain, sequence_length: 2048, global_batch: 8}"
    file.write_text(f"model: llama-3-8b\ncluster: 1x rtx-4090\n{work}\nplan: {{framework: transformers}}\n")
    return str(file)


def test_predict_names_the_commands_that_make_it_fit(in_process, asked):
    question = ("predict", asked, "--set", "workload.global_batch=4", "--nearest")
    code, out, _ = in_process(*question, "-v")
    assert code == 0
    assert "memory of these devices" in in_process(*question)[1]
    joined = " ".join(out.replace("\\\n", " ").split())
    assert "sightline predict" in joined
    assert f"sightline predict {asked} --set workload.global_batch=4 --set workload.task=finetune" in joined
    assert "plan.adapter" in joined
    assert "qlora" in joined


def test_json_has_the_nearest_plans_beside_the_advice(in_process, asked):
    code, out, _ = in_process("predict", asked, "--json", "--nearest")
    assert code == 0
    document = json.loads(out)
    assert document["advice"]
    assert all(near["fits"] for near in document["nearest"])
    assert {"set", "sentence", "command", "step_time_s"} <= document["nearest"][0].keys()
    fitting = ("--nearest", "--set", "model=gpt-125m")
    for options in ((), fitting):
        assert "nearest" not in json.loads(in_process("predict", asked, "--json", *options)[1])


def test_only_changes_that_the_framework_can_launch_are_named(in_process, asked):
    """The training script that is written for DeepSpeed has no pipeline."""
    stages = ("--set", "plan.framework=deepspeed", "--set", "cluster=8x h100", "--set", "model=llama-3.1-8b")
    longer = ("--set", "workload.sequence_length=4096", "--set", "workload.global_batch=128")
    document = json.loads(in_process("predict", asked, "--json", *stages, *longer)[1])
    assert any("zero_stage: 1 would fit" in line for line in document["advice"])
    assert not any(line.startswith(("pipeline_parallel", "context_parallel")) for line in document["advice"])
