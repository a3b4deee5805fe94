"""A launch that was saved is read by its folder as the scenario that it was written of, but for the devices."""

import json
import tempfile

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from launching.launched import MIXTURE, SMALL, asked, launched, possible

import sightline as sl
from sightline.errors import InputError
from sightline.launching import completed, read, save, write
from sightline.launching.registry import ENGINE_WRITERS, WRITERS
from sightline.loading import scenario_from_mapping

CLUSTER = "16x h100-sxm-80gb"
OWN = {**SMALL, "rope_theta": 12345.0, "rms_norm_eps": 1e-6}
QWEN = {**OWN, "model_type": "qwen3", "head_dim": 64, "tie_word_embeddings": True}
MODELS = ["llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b", "llama-2-7b", "gpt-neox-20b", "gemma-2-9b", OWN, QWEN, MIXTURE]
PLANS = st.fixed_dictionaries(
    {"micro_batch": st.sampled_from([1, 2])},
    optional={
        "tensor_parallel": st.sampled_from([1, 2]),
        "pipeline_parallel": st.sampled_from([1, 2]),
        "zero_stage": st.sampled_from([0, 1, 2, 3]),
        "recompute": st.sampled_from(
            ["none", "full", "selective", {"modules": "full", "layers": 2}, {"modules": "full", "every": 2}]
        ),
        "dtype": st.sampled_from(["bf16", "fp8", "fp16", "mxfp8"]),
        "virtual_stages": st.sampled_from([1, 2, 4, 8]),
        "context_parallel": st.sampled_from([1, 2]),
        "sequence_parallel": st.booleans(),
        "optimizer": st.sampled_from(["adamw", "adamw-8bit", "sgd", "muon", "adamw-unfused"]),
        "attention": st.sampled_from(["flash", "eager"]),
        "attention_kernel": st.sampled_from(["flash-2", "flash-3", "cudnn"]),
        "compile": st.booleans(),
        "state_dtype": st.sampled_from(["bf16", "fp32"]),
        "gradient_reduce_dtype": st.sampled_from(["bf16", "fp32"]),
        "fused_loss": st.booleans(),
        "expert_parallel": st.sampled_from([1, 2]),
        "offload": st.sampled_from(["none", "optimizer", "activations", ["optimizer", "parameters"]]),
    },
)
TOKENS = 512 * 64 * 1000


@pytest.mark.parametrize("framework", sorted(WRITERS))
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_folder_is_the_scenario_of_its_launch(framework, data):
    plan = {"framework": framework, **data.draw(PLANS)}
    task = "finetune" if framework == "torchtune" else "pretrain"
    model = data.draw(st.sampled_from(MODELS))
    scenario = possible(plan, model=model, cluster=CLUSTER, total_tokens=TOKENS, task=task)
    assume(scenario is not None)
    launch = launched(scenario)
    assume(launch is not None)
    with tempfile.TemporaryDirectory() as folder:
        save(launch, folder)
        reading = read(folder)
    assert reading.framework.lower() == framework
    assert set(reading.missing) == {"cluster"}
    assert reading.missing["cluster"].startswith("'16x ") or framework == "torchtitan"
    back = scenario_from_mapping(completed(reading, {"cluster": CLUSTER}).scenario)
    assert back.workload == scenario.workload
    assert back.model.parameters == scenario.model.parameters
    assert (back.model.rope_theta or 10000) == (scenario.model.rope_theta or 10000)
    # MaxText's sizes have no longest sequence.
    assert back.model.max_positions == max(scenario.model.max_positions, 512) or framework == "maxtext"
    if not [said for said in launch.without_counterpart if said.startswith("plan.")]:
        assert sl.predict(back).step_time_s == pytest.approx(sl.predict(scenario).step_time_s, rel=1e-12)


@pytest.mark.parametrize("framework", ["deepspeed", "fsdp", "transformers"])
def test_a_model_of_the_catalog_is_read_by_its_name(framework, tmp_path):
    save(write(asked({"framework": framework}, model="llama-3.1-8b")), tmp_path)
    assert read(tmp_path).scenario["model"] == "llama-3.1-8b"


@pytest.mark.parametrize("framework", ["deepspeed", "fsdp", "transformers"])
def test_a_model_that_was_changed_is_read_as_it_is(framework, tmp_path):
    save(write(asked({"framework": framework}, model="llama-3.1-8b")), tmp_path)
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "num_hidden_layers": 16}))
    reading = completed(read(tmp_path), {"cluster": "8x h100-sxm-80gb"})
    assert scenario_from_mapping(reading.scenario).model.layers == 16


@pytest.mark.parametrize("framework", ["deepspeed", "fsdp", "transformers"])
def test_without_its_model_a_folder_asks_for_it(framework, tmp_path):
    save(write(asked({"framework": framework}, model="llama-3.1-8b")), tmp_path)
    (tmp_path / "model" / "config.json").unlink()
    assert "model" in read(tmp_path).missing


def test_a_module_that_is_no_longer_read_asks_for_the_model(tmp_path):
    save(write(asked({"framework": "torchtitan"}, model=OWN)), tmp_path)
    (tmp_path / "model_shape.py").write_text("import somewhere\nsomewhere.add(dim=")
    assert "flavor" in read(tmp_path).missing["model"]


INTERLEAVED = {"framework": "torchtitan", "pipeline_parallel": 2, "schedule": "interleaved"}


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("layers", [8, 14, 16])
def test_stages_are_counted_by_the_layers_of_the_module(stages, layers, tmp_path):
    save(write(asked({**INTERLEAVED, "virtual_stages": stages}, model={**OWN, "num_hidden_layers": layers})), tmp_path)
    reading = read(tmp_path)
    assert reading.scenario["plan"]["virtual_stages"] == stages
    assert not reading.assumed


def test_stages_without_the_layers_of_a_model_are_said_to_be_assumed(tmp_path):
    save(write(asked({**INTERLEAVED, "virtual_stages": 4}, model=OWN)), tmp_path)
    (tmp_path / "model_shape.py").unlink()
    assert dict(read(tmp_path).assumed) == {"plan.virtual_stages": 2}


@pytest.mark.parametrize("engine", sorted(ENGINE_WRITERS))
@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-32b"])
def test_a_folder_of_an_engine_is_read(engine, name, tmp_path):
    case = {
        "model": name,
        "cluster": "2x h100-sxm-80gb",
        "workload": {"task": "generate", "batch": 16, "prompt_tokens": 1024, "output_tokens": 128},
        "plan": {"framework": engine, "replicas": 2},
    }
    scenario = sl.load(case)
    try:
        save(write(scenario), tmp_path)
    except InputError:
        pytest.skip("the engine cannot launch it")
    reading = completed(read(tmp_path), {"cluster": case["cluster"], "workload.batch": 16})
    assert not reading.missing
    assert sl.predict(sl.load(reading.scenario)).to_dict()["scenario"]["model"]["name"] == name
