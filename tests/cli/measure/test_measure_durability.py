"""``sightline measure`` under bad conditions: a sentence each, what was finished is kept, no process is left."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from waiting import PATIENCE_S, until

from sightline.measurement.processes.tree import marked
from sightline.runs import open_store

ROOT = Path(__file__).resolve().parents[3]
"""The clone that these tests run from."""

SCENARIO = """
name: tiny
model: {model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 160, vocab_size: 320}
cluster: this-machine
workload: {task: pretrain, sequence_length: 32, global_batch: 4}
plan: {framework: transformers, micro_batch: 1, dtype: fp32}
"""
TWO = ("--set", "cluster=2x this-machine")
MARK = "SIGHTLINE_TEST"


@pytest.fixture
def scenario(tmp_path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def started(tmp_path):
    """Start ``sightline`` in the test's folder; whatever it leaves behind is ended with the test."""
    mark = uuid.uuid4().hex
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SIGHTLINE_RUNS": str(tmp_path / "runs"), MARK: mark}
    processes = []

    def start(*arguments, python=(sys.executable,), **variables):
        command = [*python, "-m", "sightline", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    start.left = lambda: marked(MARK, mark)
    yield start
    for process in processes:
        process.kill()
        process.communicate()
    for pid in start.left():
        os.kill(pid, signal.SIGKILL)


def ended(process):
    """Its exit code, stdout and stderr."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def wait_for_samples(store, count, process):
    """The journal of the run at hand, once it holds so many samples."""

    def full():
        assert process.poll() is None, process.communicate()[1]
        return [path for path in Path(store).glob("*/samples.jsonl") if path.read_bytes().count(b"\n") >= count]

    return until(full)[0]


def without(tmp_path, *packages):
    """Python with all packages at hand but these."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for place in map(Path, [p for p in sys.path if p.endswith("site-packages")]):
        for entry in place.iterdir():
            if not entry.name.startswith(packages) and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    ours = Path(sys.modules["sightline"].__file__).parents[1]
    return (sys.executable, "-S"), {"PYTHONPATH": os.pathsep.join([str(ours), str(folder)])}


@pytest.mark.parametrize(
    ("missing", "settings", "needs", "command"),
    [
        ("torch", (), "PyTorch", f"pip install '{ROOT}[measure]'"),
        pytest.param("transformers", (), "transformers", f"pip install '{ROOT}[measure]'", marks=pytest.mark.slow),
        pytest.param(
            "torch",
            (
                "workload={task: generate, batch: 1, prompt_tokens: 8, output_tokens: 4}",
                "plan={framework: transformers}",
            ),
            "PyTorch",
            "[measure]",
            marks=pytest.mark.slow,
        ),
        ("peft", ("workload.task=finetune", "plan.adapter={kind: lora, rank: 4}"), "peft", "[measure]"),
        pytest.param(
            "bitsandbytes",
            ("workload.task=finetune", "plan.adapter={kind: qlora, rank: 4}"),
            "bitsandbytes",
            "[measure]",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("deepspeed", ("plan.framework=deepspeed",), "deepspeed", f"'{ROOT}[measure,deepspeed]'"),
            marks=pytest.mark.slow,
        ),
        ("megatron", ("plan.framework=megatron",), "megatron", f"pip install '{ROOT}[measure,megatron]'"),
    ],
)
def test_a_missing_package_is_a_sentence(started, scenario, tmp_path, missing, settings, needs, command) -> None:
    python, variables = without(tmp_path, missing)
    asked = [part for setting in settings for part in ("--set", setting)]
    code, out, err = ended(started("measure", scenario, *asked, python=python, **variables))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert f"needs {needs}" in err
    assert command in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_disk_that_fills_is_a_sentence_and_keeps_what_there_is(started, scenario, tmp_path) -> None:
    store = tmp_path / "runs"
    measure = ("measure", scenario, "--warmup", "0", "--repeats", "1", "--level", "end-to-end", "--json")
    code, out, err = ended(started(*measure, "--steps", "3"))
    assert code == 0, err
    process = started(*measure, "--steps", "20000")
    journal = wait_for_samples(store, 3, process)
    room = journal.stat().st_size + 1000
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (room, room))
    code, out, err = ended(process)
    assert (code, out) == (1, "")
    assert f"'{store}': file too large\n" in err
    assert started.left() == []
    first, second = open_store(str(store)).runs()
    assert (first.status, open_store(str(store)).samples(first).height) == ("ok", 3)
    assert second.status == "interrupted"
    kept = open_store(str(store)).samples(second)
    assert kept.height >= 3
    assert kept["step"].to_list() == list(range(kept.height))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code", "words"),
    [(signal.SIGINT, 130, "sightline: interrupted\n"), (signal.SIGKILL, -signal.SIGKILL, "")],
)
def test_two_ranks_that_are_stopped_leave_their_samples_and_no_process(
    started, scenario, tmp_path, end, code, words
) -> None:
    store = tmp_path / "runs"
    process = started("measure", scenario, *TWO, "--warmup", "0", "--steps", "100000", "--level", "end-to-end")
    wait_for_samples(store, 5, process)
    assert len(started.left()) >= 4, "the command, the supervisor, the case and two ranks"
    process.send_signal(end)
    assert ended(process) == (code, "", words)
    until(lambda: not started.left())
    (run,) = open_store(str(store)).runs()
    assert run.status == "interrupted"
    assert open_store(str(store)).samples(run).height >= 5


@pytest.mark.slow
def test_torchrun_starts_nodes_of_one_device(started, scenario, tmp_path) -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    code, out, err = ended(
        started("measure", scenario, *TWO, "--quick", "--level", "end-to-end", "--json", python=torchrun)
    )
    assert code == 0, err
    said = json.loads(out)
    assert said["measurement"]["implementation"] == "ddp"
    assert len(open_store(str(tmp_path / "runs")).runs()) == 1
    assert said["phases"]["communication_exposed"] > 0


@pytest.mark.slow
def test_a_port_in_use_is_a_sentence(started, scenario) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = ended(started("measure", scenario, *TWO, "--nnodes", "2", "--rendezvous", place))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert f"--rendezvous {place}" in err


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_loaded_is_a_sentence(started, scenario, tmp_path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
    sizes = dict(zip(names, (64, 2, 4, 160, 320), strict=True))
    LlamaForCausalLM(LlamaConfig(**sizes)).save_pretrained(tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    measure = ("measure", scenario, "--quick", "--level", "end-to-end", "--weights", weights.parent)
    code, out, err = ended(started(*measure))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert f"--weights '{weights.parent}'" in err


def test_a_stale_lock_of_a_build_is_a_sentence(started, scenario, tmp_path) -> None:
    pytest.importorskip("deepspeed")
    lock = tmp_path / "extensions" / "py311_cpu" / "deepspeed_shm_comm" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    variables = {"TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")}
    asked = (*TWO, "--set", "plan.framework=deepspeed", "--set", "plan.zero_stage=2", "--quick")
    code, out, err = ended(started("measure", scenario, *asked, **variables))
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert f"remove '{lock}'" in err


def test_a_model_too_large_is_predicted_and_what_would_fit_is_offered(started, scenario) -> None:
    wide = ("--set", "workload.sequence_length=4096", "--set", "workload.global_batch=4096")
    asked = (*wide, "--set", "plan.micro_batch=4096", "--set", "model.vocab_size=32000")
    code, out, err = ended(started("measure", scenario, *asked))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "does not fit: " in err
    assert re.search(r"micro_batch: \d+", err), err
    assert "--force" in err
