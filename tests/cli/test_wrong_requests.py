"""Wrong requests: exit code 2, stdout empty, a sentence per problem on stderr and never a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import PATIENCE_S

from sightline.cli.main import run as entry

SCENARIO = """
model: llama-2-7b
cluster: 8x a100-sxm-80gb
workload: {task: pretrain, sequence_length: 2048, global_batch: 64}
plan: {framework: megatron, micro_batch: 1}
"""

WRONG_SETTINGS = {
    "plan.zero_stag=3": "zero_stage",
    "plan.zero_stage=7": "zero_stage",
    "plan.zero_stage=two": "zero_stage",
    "plan.tensor_parallel=3": "3",
    "plan.tensor_parallel=0": "tensor_parallel",
    "plan.pipeline_parallel=64": "pipeline_parallel",
    "plan.micro_batch=5": "5",
    "plan.micro_batch=-1": "micro_batch",
    "plan.recompute=ful": "full",
    "plan.dtype=bf61": "bf16",
    "plan.framework=megatrn": "megatron",
    "plan.schedule=1f2b": "1f1b",
    "plan.data_parallel=5": "5",
    "model=llama-2-7": "llama-2-7b",
    "cluster=8x a100-sxm-80g": "a100-sxm-80gb",
    "cluster=a100 times eight": "cluster",
    "workload.task=pretran": "pretrain",
    "workload.sequence_length=2048.5": "sequence_length",
    "workload.sequence_length=many": "sequence_length",
    "workload.global_batch=0": "global_batch",
    "workload.global_batch=true": "global_batch",
    "workload=pretrain": "workload",
    "wrokload.task=pretrain": "workload",
}


def check_refused(code, out, err, *said):
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert err.strip()
    assert all(line.startswith("sightline: ") for line in err.splitlines())
    for word in said:
        assert word in err


@pytest.mark.parametrize("setting", WRONG_SETTINGS)
def test_a_wrong_value_is_named_with_its_key(in_process, tmp_path, setting):
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    check_refused(*in_process("predict", file, "--set", setting), WRONG_SETTINGS[setting])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.yaml", b""),
        ("blank.yaml", b"  \n\n"),
        ("comment.yaml", b"# nothing\n"),
        ("broken.yaml", b"model: [llama\n  plan: }"),
        ("tabs.yaml", b"model:\n\t- x"),
        ("binary.yaml", bytes(range(256))),
        ("word.yaml", b"llama"),
        ("number.yaml", b"42"),
        ("list.yaml", b"[1, 2]"),
        ("broken.json", b'{"model": '),
        ("nan.json", b'{"model": NaN}'),
        ("empty.csv", b""),
        ("header.csv", b"model,cluster\n"),
        ("ragged.csv", b"model,cluster\nllama-2-7b\n"),
        ("twice.yaml", b"model: a\nmodel: b\n"),
        ("anchor.yaml", b"model: *nowhere\n"),
        ("tag.yaml", b"model: !!python/object/apply:os.system [ls]\n"),
        ("deep.json", b"[" * 100_000),
    ],
)
def test_files_that_are_no_scenarios_are_refused(in_process, tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content)
    check_refused(*in_process("predict", file, "--json"))


def test_missing_files_and_folders_are_refused_all_at_once(in_process, tmp_path):
    code, out, err = in_process("predict", tmp_path / "nowhere.yaml", tmp_path)
    check_refused(code, out, err, "nowhere.yaml", str(tmp_path))
    assert len(err.splitlines()) == 2


def test_all_problems_of_a_file_are_told_at_once(in_process, tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.replace("megatron", "megatrn").replace("llama-2-7b", "lama-2-7b").replace("2048", "-1"))
    code, out, err = in_process("predict", file)
    check_refused(code, out, err, "megatron", "llama-2-7b", "sequence_length")
    assert len(err.splitlines()) >= 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["predict"], "FILE"),
        (["predict", "{example}", "--jsn"], "--json"),
        (["predict", "{example}", "--nonsense"], "--nonsense"),
        (["predict", "{example}", "--set"], "--set"),
        (["predict", "{example}", "--set", "plan.zero_stage"], "plan.zero_stage"),
        (["predict", "{example}", "--set", "=3"], "=3"),
        (["predict", "{example}", "--sweep", "plan.zero_stage="], "plan.zero_stage"),
        (["predict", "{example}", "--json", "--csv"], "--csv"),
        (["predict", "{example}", "--chart", "a.gif"], ".svg"),
        (["predict", "{example}", "--chart", "nowhere/a.svg"], "nowhere"),
        (["predict", "{example}", "--html", "report.txt"], ".html"),
        (["predict", "{example}", "--trace", "trace.yaml"], ".json"),
        (["predict", "{example}", "--sweep", "plan.zero_stage=0,1", "--trace", "trace.json"], "one scenario"),
        (["predcit", "{example}"], "predict"),
        (["catalog", "devcies"], "devices"),
        (["catalog", "devices", "a100-sxm-80g"], "a100-sxm-80gb"),
        (["catalog", "devices", "a", "b"], "b"),
        (["validate", "--data", "/nowhere/at/all"], "/nowhere/at/all"),
        (["validate", "korthikanti-tabel"], "korthikanti"),
        (["validate", "--chart", "accuracy.pdf"], ".svg"),
        (["--verison"], "--version"),
    ],
)
def test_wrong_arguments_are_refused(in_process, example, monkeypatch, tmp_path, arguments, said):
    monkeypatch.chdir(tmp_path)
    check_refused(*in_process(*(a.replace("{example}", str(example)) for a in arguments)), said)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_a_sentence(in_process, example):
    code, out, err = in_process("predict", example, "--chart", "/proc/prediction.svg", "--json")
    check_refused(code, out, err, "/proc/prediction.svg")


KEYS = st.sampled_from(
    [
        "model",
        "cluster",
        "workload",
        "plan",
        "plan.micro_batch",
        "plan.zero_stage",
        "workload.sequence_length",
        "name",
        "sweep",
    ]
)
VALUES = st.one_of(
    st.text(max_size=12),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_no_file_ends_in_a_traceback(tmp_path, capsys, values):
    import json

    document = {"model": "llama-2-7b", "cluster": "8x a100-sxm-80gb"}
    for key, value in values.items():
        room, _, field = key.partition(".")
        if field:
            document.setdefault(room, {})
            if isinstance(document[room], dict):
                document[room][field] = value
        else:
            document[key] = value
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(document))
    code = entry(["predict", str(file), "--json"])
    captured = capsys.readouterr()
    assert code in (0, 2)
    assert (code == 0) == bool(captured.out)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_no_bytes_end_in_a_traceback(tmp_path, capsys, content):
    for name in ("scenario.yaml", "scenario.json", "scenario.csv"):
        file = tmp_path / name
        file.write_bytes(content)
        code = entry(["predict", str(file)])
        captured = capsys.readouterr()
        check_refused(code, captured.out, captured.err)


def test_a_reader_who_leaves_early_hears_no_complaint():
    command = f"{sys.executable} -m sightline catalog models --json | head -n 1"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert answer.stdout == "[\n"
    assert answer.stderr == ""


def test_a_full_disk_is_a_sentence():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "sightline", "catalog", "--json"]
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr == "sightline: cannot write the answer: no space left on device\n"


@pytest.fixture
def interruptible():
    """A child started in the background would ignore Ctrl-C, as shells have it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_told_in_a_line(tmp_path):
    """Interrupt while it reads from a pipe: opening the other end waits until it does."""
    pipe = tmp_path / "scenario.yaml"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "sightline", "predict", str(pipe)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("wb"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (130, "", "sightline: interrupted\n")


def test_ascii_terminals_are_served_too(example):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "sightline", "predict", str(example)]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0
    assert "tokens/s" in answer.stdout
