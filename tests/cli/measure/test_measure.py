"""``sightline measure``: a scenario in, its measured twin out; refusals in one sentence before anything runs."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

SCENARIO = """
cluster: this-machine
workload: {task: operator, operator: matmul, m: 64, n: 64, k: 64, dtype: fp32}
"""


@pytest.fixture
def scenario(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


def test_a_matmul_is_measured_stored_and_written(in_process, scenario, tmp_path) -> None:
    code, out, err = in_process("measure", scenario, "--quick", "--json", "--out", tmp_path / "results.json")
    assert code == 0, err
    said = json.loads(out)
    assert (said["source"], said["flops"]) == ("measured", 2 * 64**3)
    assert said["interval"]["time_s"][0] <= said["time_s"] <= said["interval"]["time_s"][1]
    assert said["environment"]["cpu"]
    assert said["command"]
    assert (tmp_path / "runs" / said["run"] / "run.json").is_file()
    assert json.loads((tmp_path / "results.json").read_text()) == [said]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "--suite"),
        (("{scenario}", "--suite", "standard"), "--suite"),
        (("--suite", "standart"), "did you mean 'standard'?"),
        (("--suite", "standard", "--dtype", "fp17"), "--dtype is 'fp17'; allowed: fp32, bf16, fp16"),
        (("--suite", "standard", "--cluster", "8x h100-smx-80gb"), "did you mean"),
        (("{scenario}", "--steps", "0"), "--steps applies to training, not to single operators"),
        (("{training}", "--implementation", "flash"), "--implementation applies to generation, single operators"),
        (("{training}", "--rerun"), "--rerun applies to --suite standard, --suite 2311.03687"),
        (("--suite", "2311.03687", "--out", "x.json"), "--out applies to "),
        (("{scenario}", "--json", "--csv"), "--csv"),
        (("{scenario}", "--out", "x.yaml"), "--out 'x.yaml' must end in .json"),
        (("{scenario}", "--set", "workload.operator=matmull"), "did you mean 'matmul'?"),
        (
            ("{training}", "--set", "plan.framework=fsdp"),
            "GPU",
        ),
        (("{training}", "--level", "modul"), "--level is 'modul'; allowed: end-to-end, module, operator"),
        (("{training}", "--steps", "0"), "--steps is 0; allowed: 1 or more"),
        (("{training}", "--nnodes", "2"), "--rendezvous is missing; needed with --nnodes: HOST:PORT"),
        (("{training}", "--nnodes", "2", "--node-rank", "2"), "--node-rank is 2; allowed with --nnodes 2: 0 to 1"),
    ],
)
def test_wrong_requests_end_in_one_sentence(in_process, scenario, example, arguments, sentence) -> None:
    paths = {"{scenario}": scenario, "{training}": example}
    code, out, err = in_process("measure", *(paths.get(a, a) for a in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert sentence in err


def test_without_pytorch_the_command_that_installs_it_is_told(in_process, scenario, monkeypatch) -> None:
    from sightline.measurement import machine

    monkeypatch.setattr(machine, "find_spec", lambda _: None)
    code, out, err = in_process("measure", scenario)
    assert (code, out) == (2, "")
    assert err.startswith("sightline: ")
    assert err.endswith(" pip install '.[measure]'\n")
    assert not Path(os.environ["SIGHTLINE_RUNS"]).exists()


@pytest.mark.slow
def test_what_the_machine_cannot_do_is_a_wrong_request(in_process, scenario) -> None:
    code, out, err = in_process("measure", scenario, "--quick", "--implementation", "cublas")
    assert (code, out) == (2, "")
    assert "library" in err


GENERATION = """
name: tiny
model: {model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 160, vocab_size: 320}
cluster: this-machine
workload: {task: generate, batch: 1, prompt_tokens: 16, output_tokens: 4}
plan: {framework: transformers, dtype: fp32}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    [
        "{task: generate, batch: 64, prompt_tokens: 4096, output_tokens: 64}",
        "{task: pretrain, sequence_length: 4096, global_batch: 64}",
    ],
)
def test_what_does_not_fit_is_a_wrong_request_whatever_the_task(in_process, scenario, task) -> None:
    scenario.write_text(
        f"{{model: llama-2-70b, cluster: this-machine, workload: {task}, plan: {{framework: transformers, dtype: fp32}}}}"
    )
    code, out, err = in_process("measure", scenario, "--quick")
    assert (code, out) == (2, "")
    assert "--force" in err


@pytest.mark.slow
def test_generation_is_measured_stored_and_compared_with_its_prediction(in_process, scenario) -> None:
    scenario.write_text(GENERATION)
    code, out, err = in_process("measure", scenario, "--quick", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["interval"]["latency_s"][0] <= said["latency_s"] <= said["interval"]["latency_s"][1]
    shown = json.loads(in_process("runs", "show", said["run"], "--json")[1])
    repeats = [sample for sample in shown["samples"] if sample["run"] == 0]
    assert len(repeats) == said["measurement"]["repeats"][0]
    assert len(repeats[0]["passes_s"]) == 4
    compared = json.loads(in_process("compare", "latest", "predicted", "--json")[1])
    assert {"step", "phase", "memory", "module"} <= {row["level"] for row in compared["rows"]}
    assert {row["phase"] for row in compared["rows"] if row["level"] == "module"} >= {"prefill", "decode"}
