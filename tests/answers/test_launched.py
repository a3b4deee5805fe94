"""The files of a launch on pages, and why there are none."""

from sightline.answers.launched import launch_parts
from sightline.answers.outline import Lines, Section
from sightline.loading import load


def scenario(task, **plan):
    work = {"task": task, "sequence_length": 2048, "global_batch": 16}
    return load({"model": "qwen3-8b", "cluster": "2x h100-sxm-80gb", "workload": work, "plan": plan})


def test_a_fine_tuning_has_the_files_of_tools_too():
    adapted = scenario("finetune", adapter={"kind": "qlora", "rank": 16}, quantization="nf4")
    own, *tools = launch_parts(adapted)
    assert own.parts[0].file == "launch.sh"
    assert [one.title for one in tools] == ["Run with LLaMA-Factory", "Run with axolotl", "Run with ms-swift"]
    assert any("quantization_bit: 4" in text.text for text in tools[0].parts)


def test_what_cannot_be_launched_says_why():
    (only,) = launch_parts(scenario("pretrain", framework="reference"))
    assert isinstance(only, Lines)
    assert "plan.framework" in only.lines[0]
    (other,) = launch_parts(scenario("pretrain", framework="torchtitan", zero_stage=3))
    assert isinstance(other, Section)
