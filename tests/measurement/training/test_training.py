"""Training for real: models have the shapes that are asked for, every parallelism trains the same, mistakes are sentences."""
# ruff: noqa: E402 - imports that need PyTorch come after the check that it is there

import json
import os
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from measurement.running import TINY
from waiting import PATIENCE_S

from sightline.errors import InputError
from sightline.loading import scenario_from_mapping, to_mapping
from sightline.measurement import machine
from sightline.measurement.hardware import state_bytes
from sightline.measurement.measure import measure_scenarios
from sightline.measurement.models import build_model
from sightline.measurement.processes.cases import Effort, Settings, nodes_of, profile_of, why_too_large
from sightline.measurement.processes.isolation import (
    UnsupportedCaseError,
    run_case,
)
from sightline.measurement.training import runs
from sightline.measurement.training.engines import stale_locks
from sightline.measurement.training.runs import _phases, result_of, waiting_s
from sightline.measurement.training.trainers import token_batches, way_of
from sightline.prediction import predict
from sightline.runs import open_store

EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {
    **{key: value for key, value in TINY.items() if key != "num_key_value_heads"},
    "model_type": "deepseek_v3",
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 24,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
LORA, QLORA = ({"kind": kind, "rank": 4} for kind in ("lora", "qlora"))
SHORT = Effort(warm_up=1, steps=4, repeats=1, levels=("end-to-end",), limit_s=300.0)


def asked(ranks=1, model=None, **plan):
    """A training step of a tiny model on so many processes of this machine."""
    return scenario_from_mapping(
        {
            "model": model or TINY,
            "cluster": f"{ranks}x this-machine",
            "workload": {
                "task": "finetune" if "adapter" in plan else "pretrain",
                "sequence_length": 32,
                "global_batch": 4,
            },
            "plan": {"framework": "transformers", "micro_batch": 1, "dtype": "fp32", **plan},
        }
    )


def run(scenario, **arguments):
    """The outcome of a case, and its samples."""
    samples = []
    said = {"scenario": to_mapping(scenario), "warm_up": 1, "steps": 4, "repeats": 1, "levels": [], "weights": None}
    outcome = run_case(
        runs.ENTRY,
        said | {"force": True} | arguments,
        300.0,
        samples.append,
        variables={"OMP_NUM_THREADS": "1"},
    )
    return outcome, samples


@pytest.mark.parametrize(
    "model",
    [
        TINY,
        TINY | {"model_type": "qwen2"},
        TINY | {"model_type": "qwen3", "head_dim": 16},
        TINY | {"tie_word_embeddings": True},
        TINY | {"model_type": "mistral", "sliding_window": 8},
        TINY | {"model_type": "gemma2", "head_dim": 16, "sliding_window": 8},
        TINY | {"model_type": "gemma3_text", "head_dim": 16, "sliding_window": 8},
        TINY | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
        TINY | {"model_type": "qwen3_moe", "head_dim": 16} | EXPERTS,
        LATENT,
        LATENT | {"model_type": "deepseek_v2", "q_lora_rank": None},
        {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 320, "n_positions": 64},
    ],
    ids=lambda model: model["model_type"],
)
def test_a_model_has_the_parameters_of_its_scenario(model) -> None:
    scenario = asked(model=model, attention="eager")
    assert sum(p.numel() for p in build_model(scenario).parameters()) == scenario.model.parameters


def test_the_same_seed_gives_the_same_weights_and_tokens() -> None:
    one, two = (build_model(asked()) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    whole = torch.cat(token_batches(asked(), 0, 1, "cpu")[3])
    halves = [torch.cat(token_batches(asked(2), replica, 2, "cpu")[3]) for replica in range(2)]
    assert torch.equal(whole, torch.cat(halves))


def test_adapters_alone_are_trained_and_packed_weights_are_small() -> None:
    pytest.importorskip("peft")
    pytest.importorskip("bitsandbytes")
    scenario = asked(adapter=LORA)
    trained = sum(p.numel() for p in build_model(scenario).parameters() if p.requires_grad)
    h, kv, f, rank = 64, 32, 160, 4
    assert trained == 2 * rank * (2 * (h + h) + 2 * (h + kv) + 3 * (h + f))
    packed = build_model(asked(adapter=QLORA))
    name, weight = next((n, p) for n, p in packed.named_parameters() if "q_proj.base_layer" in n)
    assert weight.quant_state is not None, name
    # In 4 bits, stored two in a byte, whatever the storage's own type.
    assert weight.numel() * weight.element_size() == h * h // 2


def test_what_a_framework_does_not_do_is_unsupported() -> None:
    assert [way_of(asked(n, **p)) for n, p in ((1, {}), (2, {}), (2, {"framework": "fsdp"}))] == [
        "single",
        "ddp",
        "fsdp2",
    ]
    assert way_of(asked(1, framework="deepspeed")) == "deepspeed"
    with pytest.raises(UnsupportedCaseError, match=r"plan\.tensor_parallel is 2 with plan.framework reference"):
        way_of(asked(2, framework="reference", tensor_parallel=2))
    with pytest.raises(UnsupportedCaseError, match=r"plan\.dtype is fp8"):
        way_of(replace(asked(1), plan=replace(asked(1).plan, dtype="fp8")))
    with pytest.raises(UnsupportedCaseError, match=r"plan.recompute"):
        build_model(asked(framework="reference", recompute="selective"))


def test_a_single_process_trains_and_is_stored(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    store = open_store(str(tmp_path))
    effort = replace(SHORT, repeats=2, levels=("end-to-end", "module", "operator"))
    (measured,) = measure_scenarios([asked()], store, Settings(effort=effort, force=True))
    assert measured.run.status == "ok", measured.run.reason
    profile = measured.profile
    assert sum(profile.phases.values()) == pytest.approx(profile.step_time_s)
    assert min(profile.phases[phase] for phase in ("forward", "backward", "optimizer")) > 0
    assert profile.memory_bytes["optimizer"] == pytest.approx(2 * profile.memory_bytes["weights"], rel=0.02)
    samples = store.samples(measured.run)
    assert (samples.height, set(samples["repeat"])) == (8, {0, 1})
    assert profile.interval["step_time_s"][0] <= profile.step_time_s <= profile.interval["step_time_s"][1]
    assert profile.measurement["losses"][0] == pytest.approx(5.77, abs=0.1), "the logarithm of the vocabulary"
    modules = {(r.phase, r.module) for r in profile.rows}
    assert {("forward", "qkv"), ("backward", "mlp"), ("forward", "head")} <= modules
    assert {"up", "down", "weight gradient"} <= {r.operator for r in profile.rows if r.module == "mlp"}
    # What is stored reads back as the same answer.
    again = profile_of(measured.scenario, json.loads(json.dumps(measured.run.result)))
    assert again.tokens_per_s == profile.tokens_per_s == profile.to_dict()["tokens_per_s"]


@pytest.mark.slow
def test_latent_attention_is_measured_beside_its_prediction(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    scenario = asked(model=LATENT)
    effort = replace(SHORT, levels=("end-to-end", "module"))
    (measured,) = measure_scenarios([scenario], open_store(str(tmp_path)), Settings(effort=effort, force=True))
    assert measured.run.status == "ok", measured.run.reason
    predicted = predict(measured.scenario)
    for module in ("qkv", "output projection", "mlp", "shared experts"):
        for phase in ("forward", "backward"):
            ours, theirs = (
                sum(float(r.flops) for r in profile.rows if (r.phase, r.module) == (phase, module))
                for profile in (predicted, measured.profile)
            )
            assert ours > 0, (phase, module)
            assert theirs == pytest.approx(ours), (phase, module)
    uneven, _ = run(asked(model=LATENT | {"v_head_dim": 16}))
    assert uneven.status == "unsupported"
    assert "no kernel for these heads and this dtype; allowed: eager" in uneven.reason


def test_what_would_fit_is_told_with_all_that_changes() -> None:
    whole = {
        "model": "llama-2-7b",
        "cluster": "1x a100-sxm-40gb",
        "workload": {"task": "pretrain", "sequence_length": 512, "global_batch": 4},
        "plan": {"framework": "transformers", "micro_batch": 4, "dtype": "bf16"},
    }
    said = why_too_large(predict(scenario_from_mapping(whole)))
    assert "workload.task: finetune, plan.adapter: lora needs" in said


def test_what_does_not_fit_is_predicted_and_not_run() -> None:
    huge = asked(
        model=TINY | {"hidden_size": 16384, "num_hidden_layers": 64, "intermediate_size": 65536}, micro_batch=4
    )
    assert "micro_batch: 1 would fit" not in why_too_large(predict(huge))
    outcome, _ = run(huge, force=False)
    assert outcome.status == "out_of_memory"
    assert outcome.reason.startswith("does not fit: ")
    assert outcome.result == {}
    assert why_too_large(predict(asked())) == ""


def test_a_checkpoint_of_another_model_is_refused(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY | {"vocab_size": 640}))
    settings = Settings(weights=str(tmp_path))
    with pytest.raises(InputError, match="has vocab_size 640; the model of the scenario has 320"):
        measure_scenarios([asked()], open_store(str(tmp_path / "runs")), settings)


def test_a_checkpoint_that_is_not_what_its_config_says_is_refused(tmp_path) -> None:
    model = build_model(asked())
    model.save_pretrained(tmp_path)
    loaded = build_model(asked(), weights=tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))
    stated = (tmp_path / "config.json").read_text()
    for changed, lacks in ({"intermediate_size": 192}, ""), ({"num_hidden_layers": 1}, "it lacks "):
        build_model(asked(model=TINY | changed)).save_pretrained(tmp_path)
        (tmp_path / "config.json").write_text(stated)
        with pytest.raises(InputError, match=rf"does not match its config\.json: {lacks}"):
            build_model(asked(), weights=tmp_path)


def test_a_missing_package_is_a_sentence(monkeypatch, tmp_path) -> None:
    real = machine.find_spec
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == "deepspeed" else real(name))
    with pytest.raises(InputError, match="needs deepspeed, which is not installed; run DS_BUILD_OPS=0 pip install"):
        measure_scenarios([asked(framework="deepspeed")], open_store(str(tmp_path)), Settings())


def test_a_lock_that_nobody_holds_is_found(tmp_path) -> None:
    lock = tmp_path / "py311_cpu" / "op" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert stale_locks(tmp_path) == [lock]
    with lock.open():
        assert stale_locks(tmp_path) == []


def test_nodes_are_read_from_options_or_torchrun(monkeypatch) -> None:
    assert nodes_of(None, None, None).count == 1
    assert (n := nodes_of(2, 1, "node0:29500")).to_dict(3)["prefix"] == "sightline/ranks/3", n
    names = {"RANK": 1, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": 1234}
    for name, value in names.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "node0")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert (nodes_of(None, None, None).rank, nodes_of(None, None, None).local_count) == (1, 2)


SLOW_WAYS = [
    pytest.param(1, {"attention": "eager", "recompute": "full"}, id="eager and recomputed"),
    pytest.param(2, {"framework": "transformers", "adapter": QLORA}, id="DDP, NF4 QLoRA"),
    pytest.param(2, {"framework": "fsdp", "zero_stage": 2}, id="FSDP2 as ZeRO-2"),
    pytest.param(2, {"framework": "fsdp", "zero_stage": 3, "adapter": QLORA}, id="FSDP2 as ZeRO-3, NF4 QLoRA"),
    pytest.param(2, {"framework": "deepspeed", "zero_stage": 2}, id="DeepSpeed ZeRO-2"),
    pytest.param(2, {"framework": "deepspeed", "zero_stage": 2, "adapter": LORA}, id="DeepSpeed ZeRO-2, LoRA"),
    pytest.param(2, {"framework": "deepspeed", "zero_stage": 3}, id="DeepSpeed ZeRO-3"),
]
"""Every way of training; each adapter both split and whole."""


@pytest.fixture(scope="module")
def losses_alone():
    """The losses of one process with an adapter, or without any, run once for all that are compared with them."""
    known = {}

    def losses(adapter=None):
        kind = adapter and adapter["kind"]
        if kind not in known:
            known[kind] = _trained(asked(**({"adapter": adapter} if adapter else {})))["measurement"]["losses"]
        return known[kind]

    return losses


def _trained(scenario):
    outcome, _ = run(scenario)
    assert outcome.status == "ok", outcome.reason + outcome.output
    return outcome.result


@pytest.mark.slow
def test_two_replicas_train_like_one_process(losses_alone) -> None:
    outcome, samples = run(asked(2))
    assert outcome.status == "ok", outcome.output
    assert outcome.result["measurement"]["losses"] == pytest.approx(losses_alone(), abs=1e-4)
    assert samples[0]["communication_exposed_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "plan"), SLOW_WAYS)
def test_every_way_trains_the_same(ranks, plan, losses_alone) -> None:
    if plan.get("framework") == "deepspeed":
        pytest.importorskip("deepspeed")
    scenario = asked(ranks, **plan)
    result = _trained(scenario)
    within = 2e-3 if "adapter" in plan else 1e-3
    assert result["measurement"]["losses"] == pytest.approx(losses_alone(plan.get("adapter")), abs=within)
    if plan == {"framework": "deepspeed", "zero_stage": 2}:
        predicted = predict(scenario).memory_bytes
        for part in ("weights", "gradients", "optimizer"):
            assert result["memory_bytes"][part] == pytest.approx(float(predicted[part]), rel=0.01), part


@pytest.mark.slow
@pytest.mark.parametrize("degree", ["tensor_parallel", "pipeline_parallel"])
def test_megatron_trains_shimmed_on_a_processor(degree) -> None:
    pytest.importorskip("megatron.core")
    outcome, _ = run(asked(2, framework="megatron", **{degree: 2}))
    assert outcome.status == "ok", outcome.reason + outcome.output
    measurement = outcome.result["measurement"]
    assert measurement["shimmed"]
    assert any("shimmed, functional only" in warning for warning in outcome.result["warnings"])
    assert measurement["losses"][0] == pytest.approx(5.77, abs=0.1), "the logarithm of the vocabulary"


@pytest.mark.slow
def test_two_nodes_on_one_machine_measure_together(tmp_path) -> None:
    import socket
    import subprocess
    import sys

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    (tmp_path / "two.json").write_text(json.dumps(to_mapping(asked(2))))
    command = [sys.executable, "-m", "sightline", "measure", "two.json", "--quick", "--force", "--json"]
    command += ["--nnodes", "2", "--rendezvous", place, "--store", "runs", "--level", "end-to-end", "--node-rank"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    nodes = [
        subprocess.Popen([*command, str(rank)], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    answers = [node.communicate(timeout=PATIENCE_S)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    assert json.loads(answers[0])["measurement"]["implementation"] == "ddp"
    assert answers[1] == ""


@pytest.mark.parametrize("degree", ["context_parallel", "expert_parallel"])
def test_what_no_way_of_training_splits_is_said(degree) -> None:
    scenario = asked(2, data_parallel=2)
    scenario = replace(scenario, plan=replace(scenario.plan, **{degree: 2}))
    with pytest.raises(UnsupportedCaseError, match=f"plan.{degree} is 2; allowed when measuring"):
        way_of(scenario)


def test_a_partitioned_weight_counts_by_what_a_rank_holds() -> None:
    whole, split = torch.nn.Linear(16, 8, bias=False), torch.nn.Linear(16, 8, bias=False)
    split.weight.data = torch.empty(0)
    split.weight.ds_tensor = torch.empty(64)
    held = state_bytes(torch.nn.ModuleList([whole, split]), None)
    assert held["weights"] == held["gradients"] == 4 * (128 + 64)


@pytest.mark.slow
def test_a_rank_that_waits_for_a_late_one_says_so() -> None:
    scenario, samples = asked(2), []
    passes = int(scenario.workload.global_batch) // 2
    outcome = run_case(
        "measurement.cases:trains_on_two_ranks_of_which_one_is_late",
        {"scenario": to_mapping(scenario), "warm_up": 1, "steps": 6, "passes": passes},
        300.0,
        lambda sample: samples.append({"repeat": 0, **sample}),
        variables={"OMP_NUM_THREADS": "1"},
    )
    assert outcome.status == "ok", outcome.output
    predicted = predict(scenario)
    scenario = predicted.scenario
    seen = {"way": "ddp", "threads": 1, "warm_up": 1, "weights": "random", "repeats": [outcome.result]}
    result = result_of(scenario, predicted, seen, samples)
    # Time passes only while the first rank waits, which is not communication.
    assert result["step_time_s"] == result["measurement"]["waiting_s"] == passes
    assert {phase: time_s for phase, time_s in result["phases"].items() if time_s} == {"host": passes}


def test_waiting_for_a_late_rank_is_no_communication() -> None:
    steps = [{"step_time_s": 1.0, "phases": {"forward": 0.4, "communication_exposed": 0.5}}] * 2
    late = {"exposed_s": [0.1, 0.1]}
    ranks = [{"exposed_s": [0.5, 0.5]}, late]
    waited_s = waiting_s([{"ranks": ranks}])
    assert waited_s == pytest.approx(0.8)
    phases = _phases(steps, 1.0, [], waited_s)
    assert phases["communication_exposed"] == pytest.approx(0.1)
    assert phases["host"] == pytest.approx(0.5)
    assert sum(phases.values()) == pytest.approx(1.0)
    # The late rank itself waits for nobody, and a rank alone has nobody to wait for.
    assert waiting_s([{"ranks": [late, ranks[0]]}]) == 0.0
    assert waiting_s([{"ranks": [ranks[0]]}]) == 0.0
