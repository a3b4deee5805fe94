"""What a launch runs takes the memory and the time that were predicted for its plan."""

import json
import runpy
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from launching.launched import admits, as_launched, asked, differing_figures, drawn, launched

from sightline.errors import InputError
from sightline.launching import save, write
from sightline.launching.registry import ENGINE_WRITERS, WRITERS
from sightline.loading import generation_from_mapping
from sightline.scenario import GenerationScenario

ALL = [*((name, "train") for name in WRITERS), *((name, "generate") for name in ENGINE_WRITERS)]

DRAWN = 260
"""Plans of each framework, of all of which 2,000 or more launch."""
LAUNCHED = {
    ("megatron", "train"): 0.25,
    ("torchtitan", "train"): 0.1,
    ("deepspeed", "train"): 0.33,
    ("fsdp", "train"): 0.4,
    ("transformers", "train"): 0.33,
    ("torchtune", "train"): 0.02,
    ("maxtext", "train"): 0.15,
    ("vllm", "generate"): 0.85,
    # A seventh of the plans limits drafts by sequences, which SGLang does not.
    ("sglang", "generate"): 0.8,
    ("tensorrt-llm", "generate"): 0.6,
    ("tgi", "generate"): 0.7,
    ("lightllm", "generate"): 0.55,
    ("llama.cpp", "generate"): 0.45,
    ("transformers", "generate"): 0.6,
}
"""Least share of the drawn plans that launch."""


def with_own_parser(folder):
    """Replace files by what the framework's own classes make of them, where these are installed."""
    arguments, configuration = folder / "training_arguments.json", folder / "accelerate.yaml"
    if arguments.exists() and find_spec("transformers"):
        import transformers

        stated = json.loads(arguments.read_text())
        # This machine may have none of the formats.
        kept = {key: stated[key] for key in ("fp16", "tf32") if key in stated}
        parser = transformers.HfArgumentParser(transformers.TrainingArguments)
        (taken,) = parser.parse_dict({**stated, "use_cpu": True, **dict.fromkeys(kept, False)})
        arguments.write_text(json.dumps({**taken.to_dict(), **kept}))
    if configuration.exists() and find_spec("accelerate"):
        from accelerate.commands.config import config_args

        taken = config_args.ClusterConfig.from_yaml_file(str(configuration))
        configuration.write_text(yaml.safe_dump(taken.to_dict()))


def _with_sequences(plan, launched):
    """The plan with the sequences that its servers are started for, and capture graphs for, where it states none."""
    if (split := plan.disaggregate) is not None:
        split = replace(split, prefill=_with_sequences(split.prefill, launched.disaggregate.prefill))
    stated = launched.max_sequences if plan.max_sequences is None else plan.max_sequences
    return replace(plan, max_sequences=stated, disaggregate=split)


def differences(scenario, launch, folder):
    """Return the figures of what is launched that are not the plan's; its servers take the stated requests."""
    back = as_launched(scenario, launch, folder, with_own_parser)
    if isinstance(scenario, GenerationScenario):
        assert admits(scenario, folder)
        scenario = replace(scenario, plan=_with_sequences(scenario.plan, back.plan))
    if scenario.plan.expert_skew:
        assert any("plan.expert_skew" in sentence for sentence in launch.without_counterpart)
    return differing_figures(scenario, back)


@pytest.mark.parametrize(("name", "task"), ALL)
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_a_launch_is_its_plan(name, task, data):
    scenario = drawn(name, task, lambda values: data.draw(st.sampled_from(values)))
    launch = launched(scenario)
    assume(launch is not None)
    with tempfile.TemporaryDirectory() as folder:
        assert differences(scenario, launch, Path(folder)) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), ALL)
def test_two_thousand_launches_are_their_plans(name, task, tmp_path):
    count = 0
    for seed in range(DRAWN):
        scenario = drawn(name, task, Random(f"{name} {task} {seed}").choice)
        launch = launched(scenario)
        if launch is not None:
            count += 1
            assert differences(scenario, launch, tmp_path / str(seed)) == {}, seed
    assert count >= LAUNCHED[name, task] * DRAWN


@pytest.mark.parametrize("tool", ["llama-factory", "axolotl", "ms-swift", "megatron-swift"])
@pytest.mark.filterwarnings("ignore")
def test_launches_with_a_tool_are_their_plans(tool, tmp_path):
    count = 0
    names = ("megatron",) if tool == "megatron-swift" else ("transformers", "fsdp", "deepspeed")
    for name in names:
        for seed in range(120 // len(names)):
            scenario = drawn(name, "train", Random(f"{name} {tool} {seed}").choice)
            launch = launched(scenario, tool)
            if launch is not None and scenario.workload.lengths is None:
                count += 1
                back = as_launched(scenario, launch, tmp_path / f"{name}-{seed}")
                assert differing_figures(scenario, back) == {}, (name, seed)
    assert count >= 10


@pytest.mark.parametrize("packing", [False, True])
def test_samples_of_several_lengths_are_padded_or_packed_as_predicted(packing, tmp_path):
    plan = {"framework": "transformers", "adapter": "qlora", "micro_batch": 8, "recompute": "full"}
    lengths = {"distribution": "lognormal", "mean": 700, "cv": 0.8}
    scenario = asked(
        plan, "qwen3-8b", "1x rtx-4090", task="finetune", sequence_length=4096, lengths=lengths, packing=packing
    )
    back = as_launched(scenario, write(scenario), tmp_path)
    assert back.workload == scenario.workload
    assert differing_figures(scenario, back) == {}


@pytest.mark.parametrize("packing", [False, True])
def test_the_script_draws_rows_as_predicted(packing, tmp_path):
    pytest.importorskip("torch")
    plan = {"framework": "fsdp", "micro_batch": 8}
    lengths = {"distribution": "lognormal", "mean": 100, "cv": 0.8}
    scenario = asked(plan, lengths=lengths, packing=packing)
    save(write(scenario), tmp_path)
    script = runpy.run_path(str(tmp_path / "train.py"), run_name="train")
    rows = script["Tokens"](json.loads((tmp_path / "training.json").read_text()), None, None)
    batches = [script["padded"]([rows[at + n] for n in range(8)]) for at in range(0, 800, 8)]
    predicted = scenario.workload.rows(8)
    learned = sum(int((batch["labels"] >= 0).sum()) for batch in batches) / 800
    assert sum(batch["input_ids"].shape[1] for batch in batches) / 100 == pytest.approx(predicted.tokens, rel=0.1)
    assert learned == pytest.approx(predicted.real, rel=0.1)
    if packing:
        squares = sum(_squares(rows[n]) for n in range(800)) / 800
        assert squares == pytest.approx(predicted.squares, rel=0.2)


def _squares(row):
    """Sum of the squared lengths of a row's samples, without the one that fills it up."""
    ends = [at for at, position in enumerate(row["position_ids"].tolist()) if position == 0]
    lengths = [end - begin for begin, end in pairwise([*ends, len(row["position_ids"])])]
    filled = bool((row["labels"][ends[-1] :] < 0).all())
    return sum(length**2 for length in (lengths[:-1] if filled else lengths))


@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_rows_that_are_always_full_are_not_launched_for_shorter_samples(framework):
    with pytest.raises(InputError, match=r"workload\.lengths"):
        write(asked({"framework": framework}, "llama-3.1-8b", lengths=300))


def test_torchtitan_keeps_no_whole_states_on_ranks_of_context_parallelism(tmp_path):
    plan = {"framework": "torchtitan", "pipeline_parallel": 4, "context_parallel": 4}
    whole, sharded = (
        asked({**plan, "zero_stage": stage}, "llama-3.1-8b", "16x h100-sxm-80gb", sequence_length=4096)
        for stage in (0, 2)
    )
    with pytest.raises(InputError, match=r"plan\.zero_stage is 0"):
        write(whole)
    assert differing_figures(sharded, as_launched(sharded, write(sharded), tmp_path)) == {}


@pytest.mark.parametrize(("key", "value", "shown"), [("expert_overlap", True, "true"), ("dtype", "tf32", "tf32")])
def test_torchtitan_launches_nothing_that_it_has_no_argument_for(key, value, shown):
    with pytest.raises(InputError, match=rf"plan\.{key} is {shown}"):
        write(asked({"framework": "torchtitan", "expert_parallel": 8, key: value}, "qwen3-30b-a3b"))


def generation(framework, prompt, output, **plan):
    """Return a scenario of prompts that are not cut."""
    work = {"task": "generate", "batch": 48, "prompt_tokens": prompt, "output_tokens": output}
    plan = {"framework": framework, "chunked_prefill": False, **plan}
    return generation_from_mapping(
        {"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb", "workload": work, "plan": plan}
    )


@pytest.mark.parametrize(
    ("framework", "prompt", "written"),
    [("tgi", 3000, 4096), ("tgi", 5000, 5000), ("tensorrt-llm", 3000, 8192), ("lightllm", 3000, 8192)],
)
def test_whole_prompts_have_the_budget_that_was_predicted(framework, prompt, written, tmp_path):
    scenario = generation(framework, prompt, 3000)
    back = as_launched(scenario, write(scenario), tmp_path)
    assert back.plan.max_batched_tokens == written
    assert differing_figures(scenario, back) == {}


def test_a_share_of_the_memory_is_not_launched_that_the_engine_cannot_keep_to():
    with pytest.raises(InputError, match=r"plan\.memory_fraction is 0\.3"):
        write(generation("llama.cpp", 16, 3000, chunked_prefill=True, memory_fraction=0.3))


@pytest.mark.parametrize("framework", ["vllm", "lightllm"])
def test_a_budget_is_not_launched_that_holds_fewer_prompts_than_the_least_of_the_engine(framework):
    with pytest.raises(InputError, match=r"plan\.max_batched_tokens is 8192 .* 10000 or more"):
        write(generation(framework, 3000, 7000, max_batched_tokens=8192))
    assert "10000" in write(generation(framework, 3000, 7000, max_batched_tokens=10_000)).command
