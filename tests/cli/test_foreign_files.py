"""Files as other systems and programs write them: paths, line ends, marks, encodings, names."""

import json

import pytest

from sightline.loading import load

CONFIG = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
CONFIG |= {"intermediate_size": 11008, "vocab_size": 32000}
SCENARIO = """model: configs/model.json
cluster: 8x a100-sxm-80gb
workload: {task: pretrain, sequence_length: 2048, global_batch: 64}
plan: {framework: megatron, micro_batch: 1}
"""
TABLE = "model,cluster,workload.task,workload.sequence_length,workload.global_batch,plan.framework\n"
TABLE += "llama-2-7b,8x a100-sxm-80gb,pretrain,2048,64,megatron\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "model.json").write_text(json.dumps(CONFIG))
    (tmp_path / "configs" / "requests.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,64,4\n1,64,4\n")
    return tmp_path


@pytest.mark.parametrize(
    "written",
    [
        SCENARIO.replace("configs/", "configs\\").encode(),
        SCENARIO.replace("configs/", ".\\configs\\").encode(),
        SCENARIO.replace("configs/model.json", '"configs\\\\model.json"').encode(),
        SCENARIO.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + SCENARIO.encode(),
        SCENARIO.encode("utf-16"),
    ],
    ids=["backslash", "dot", "quoted", "crlf", "bom", "utf-16 with a mark"],
)
def test_scenarios_of_windows_are_read(in_process, folder, written):
    plain, foreign = folder / "plain.yaml", folder / "foreign.yaml"
    plain.write_text(SCENARIO)
    foreign.write_bytes(written)
    expected, found = (json.loads(in_process("predict", file, "--json")[1]) for file in (plain, foreign))
    assert found == expected


@pytest.mark.parametrize("written", [TABLE.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + TABLE.encode()])
def test_tables_of_spreadsheets_are_read(in_process, tmp_path, written):
    file = tmp_path / "table.csv"
    file.write_bytes(written)
    code, out, _ = in_process("predict", file, "--json")
    assert code == 0
    assert json.loads(out)[0]["scenario"]["model"]["name"] == "llama-2-7b"


@pytest.mark.parametrize(
    ("name", "written", "said"),
    [
        ("utf-16.yaml", SCENARIO.encode("utf-16-le"), "in UTF-8"),
        ("utf-32.yaml", SCENARIO.encode("utf-32"), "in UTF-8"),
        ("latin-1.yaml", f"name: Übung\n{SCENARIO}".encode("latin-1"), "in UTF-8"),
        ("semicolons.csv", TABLE.replace(",", ";").encode(), "separated by ';'"),
        ("drive.yaml", SCENARIO.replace("configs/", "C:\\models\\").encode(), "does not exist"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(in_process, folder, name, written, said):
    (folder / name).write_bytes(written)
    code, out, err = in_process("predict", folder / name)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert said in err


@pytest.mark.parametrize("key", ["trace", "requests"])
def test_tables_of_requests_have_paths_of_windows_too(folder, key):
    lengths = "{count: 2, prompt_tokens: 64, output_tokens: {distribution: empirical, file: configs\\lengths.csv}}"
    (folder / "configs" / "lengths.csv").write_text("4\n4\n")
    stated = {"trace": "configs\\requests.csv", "requests": lengths}[key]
    text = f"model: llama-3.1-8b\ncluster: 1x h100-sxm-80gb\nworkload: {{task: serve, {key}: {stated}}}\n"
    (folder / "load.yaml").write_text(text)
    assert load(folder / "load.yaml").workload.task == "serve"


@pytest.mark.parametrize("name", ["with spaces.yaml", "Übung ✓.yaml", "-dash.yaml", "quote'\".yaml", "a&b$(c).yaml"])
def test_files_may_have_any_name(in_process, folder, name, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / name).write_text(SCENARIO)
    code, out, err = in_process("check", "--require", "mfu>=0", "--markdown", "Bericht ü.md", "--", name)
    assert code == 0, err
    assert "met" in out
    assert (folder / "Bericht ü.md").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "explain", "check"])
def test_a_name_may_be_bytes_that_are_no_characters(run, folder, command):
    name = "\udcff.yaml"
    try:
        (folder / name).write_text(SCENARIO)
    except OSError:
        pytest.skip("this file system has no such names")
    required = ["--require", "mfu>=0"] if command == "check" else ["--html", "report.html"]
    answer = run(command, folder / name, *required, "--markdown", "report.md")
    assert answer.returncode == 0, answer.stderr
    assert (folder / "report.md").read_text(encoding="utf-8")
