import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading import load, load_all
from sightline.loading.sources import read_source
from sightline.scenario import Scenario

YAML = """\
model: llama-2-7b
cluster: 8x a800-sxm-80gb
workload: {task: pretrain, sequence_length: 350, global_batch: 16, total_tokens: 2e12}
plan: {framework: deepspeed, zero_stage: 2}
"""
TABLE = """\
name,model,cluster,cluster.network.bandwidth_per_node,workload.task,workload.sequence_length,workload.global_batch,plan.zero_stage,plan.micro_batch,measured.step_time_s
first,llama-2-7b,8x a800-sxm-80gb,,pretrain,350,16,2,2,1.1

"second, quoted",llama-2-7b,16x a800-sxm-80gb,50 GB/s,pretrain,1e3,32,,,
"""


def one(source: object) -> Scenario:
    scenario = load(source)
    assert isinstance(scenario, Scenario)
    return scenario


def many(source: object) -> list[Scenario]:
    scenarios = load(source)
    assert isinstance(scenarios, list)
    return scenarios


def problems(source: object) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        load(source)
    return caught.value.problems


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_yaml_file_text_and_stream(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", YAML)
    for source in (path, str(path), YAML, io.StringIO(YAML), io.BytesIO(YAML.encode())):
        assert one(source).workload.total_tokens == 2e12


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    assert one(written(tmp_path, "a.yaml", YAML.encode(encoding))).cluster.devices == 8


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("2e12", 2e12),
        ("0o17", 15),
        ("017", 17),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("off", "off"),
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("2024-01-31", "2024-01-31"),
        ("12:30", "12:30"),
        ("~", None),
        (".5", 0.5),
        ("'2e12'", "2e12"),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_scalars_are_those_of_yaml_1_2(scalar: str, value: object) -> None:
    (document,) = read_source(f"key: {scalar}\nother: 1\n").documents
    assert document.mapping["key"] == value
    assert type(document.mapping["key"]) is type(value)


def test_json_file_and_text(tmp_path: Path) -> None:
    mapping = {
        "model": "llama-2-7b",
        "cluster": "8x a800-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 16},
    }
    assert one(written(tmp_path, "a.json", json.dumps(mapping, indent="\t"))).cluster.devices == 8
    assert one(json.dumps(mapping)).cluster.devices == 8
    assert len(many(json.dumps([mapping, mapping]))) == 2
    assert len(many([mapping])) == 1


def test_many_documents_and_lists() -> None:
    documents = f"---\n{YAML}---\n{YAML.replace('8x', '16x')}---\n"
    assert [s.cluster.devices for s in many(documents)] == [8, 16]
    listed = "".join(f"- {line}\n" if n == 0 else f"  {line}\n" for n, line in enumerate(YAML.splitlines()))
    assert [s.cluster.devices for s in many(listed + listed)] == [8, 8]
    assert len(many(listed)) == 1


def test_table(tmp_path: Path) -> None:
    for source in (written(tmp_path, "rows.csv", TABLE), TABLE, io.StringIO(TABLE)):
        first, second = many(source)
        assert (first.name, second.name) == ("first", "second, quoted")
        assert (first.plan.zero_stage, first.plan.micro_batch, first.measured) == (2, 2, {"step_time_s": 1.1})
        assert (second.plan.zero_stage, second.plan.micro_batch, second.measured) == (0, None, {})
        assert second.workload.sequence_length == 1000
        assert (first.cluster.network.bandwidth_per_node, second.cluster.network.bandwidth_per_node) == (200e9, 50e9)


def test_table_columns_in_any_order() -> None:
    text = "workload.task,cluster.per_node,cluster,model,workload.sequence_length,workload.global_batch\n"
    (scenario,) = many(text + "pretrain,4,8x a100-sxm-80gb,llama-2-7b,350,16\n")
    assert (scenario.cluster.devices, scenario.cluster.per_node) == (8, 4)


@pytest.mark.parametrize("text", [YAML, TABLE], ids=["yaml", "csv"])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    class Stdin:
        buffer = io.BytesIO(text.encode())

    monkeypatch.setattr(sys, "stdin", Stdin())
    scenario = load("-")
    assert (scenario[0] if isinstance(scenario, list) else scenario).cluster.devices == 8


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config: dict[str, Any] = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 8, "vocab_size": 100}
    written(tmp_path, "config.json", json.dumps(config))
    assert one(written(tmp_path, "a.yaml", YAML.replace("llama-2-7b", "./config.json"))).model.layers == 2


def test_load_all_keeps_the_order_and_collects_problems(tmp_path: Path) -> None:
    good = written(tmp_path, "good.yaml", YAML)
    table = written(tmp_path, "rows.csv", TABLE)
    assert [s.cluster.devices for s in load_all([table, good])] == [8, 16, 8]
    bad = written(tmp_path, "bad.yaml", YAML.replace("zero_stage: 2", "zero_stage: 7"))
    with pytest.raises(InputError) as caught:
        load_all([bad, good, tmp_path / "none.yaml"])
    assert caught.value.problems == (
        f"{bad}: plan.zero_stage is 7; allowed: 0, 1, 2, 3",
        f"file '{tmp_path / 'none.yaml'}' does not exist",
    )


def test_problems_say_which_scenario(tmp_path: Path) -> None:
    table = written(tmp_path, "rows.csv", TABLE.replace("350,16,2", "350,17,2").replace("1e3,32", "x,32"))
    assert problems(table) == (
        f"{table}, row 1: workload.global_batch is 17; allowed: a multiple of plan.data_parallel 8 x plan.micro_batch 2 = 16",
        f"{table}, row 2: workload.sequence_length is 'x'; allowed: a whole number of 1 or more",
    )
    (problem,) = problems(f"---\n{YAML}---\n{YAML}typo: 1\n")
    assert problem.startswith("scenario 2: typo is not a known key")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.yaml", b"", "is empty"),
        ("a.yaml", b" \n\n", "is empty"),
        ("a.csv", b"", "is empty"),
        ("a.json", b"", "is empty"),
        ("a.yaml", b"# only a remark\n", "contains no scenario"),
        ("a.yaml", b"---\n---\n", "contains no scenario"),
        ("a.yaml", b"[]", "is empty"),
        ("a.yaml", b"just words", "a scenario is 'just words'"),
        ("a.yaml", b"- 1\n", "scenario 1: a scenario is 1"),
        ("a.yaml", b"a: b: c\n", "not valid YAML at line 1, column 5: mapping values are not allowed"),
        ("a.yaml", b"a: 1\na: 2\n", "key 'a' appears twice"),
        ("a.yaml", b"a: [1,\n", "not valid YAML"),
        ("a.yaml", b"a: &x [*x]\n", "not valid YAML"),
        ("a.yaml", b"a: !!python/object:os.system x\n", "not valid YAML"),
        ("a.yaml", b"a: " + b"9" * 5000, "not valid YAML: a whole number has more than 4,300 digits"),
        ("a.yaml", b"[" * 100_000, "nested more than"),
        ("a.json", b'{"a":' * 100_000, "not valid JSON: nested too deeply"),
        ("a.json", b"{'a': 1}", "not valid JSON at line 1, column 2"),
        ("a.json", b'{"a": 1, "a": 2}', "key 'a' appears twice"),
        ("a.json", b'{"a": NaN}', "not valid JSON: NaN is not a number"),
        ("a.json", b'{"a": "\\ud800"}', "surrogate"),
        ("a.json", b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON: a whole number has more than 4,300 digits"),
        ("a.yaml", b"\x89PNG\r\n\x1a\n\x00\x00", "is not a text file"),
        ("a.yaml", b"PK\x03\x04\x00\x00", "is not a text file"),
        ("a.yaml", b"name: caf\xe9\n", "is not a text file"),
        ("a.csv", b"model,model\n1,2\n", "column 'model' appears twice"),
        ("a.csv", b"model,,x\n1,2,3\n", "column 2 "),
        ("a.csv", b"model,cluster\n", "no rows"),
        ("a.csv", b"model,cluster\na,b,c\n", "row 1: 3 cells for 2 columns"),
        ("a.csv", b"model,plan.\na,b\n", "'plan.' is not a key"),
        ("a.csv", b"plan,plan.x\na,b\n", "plan.x cannot be set"),
        ("a.csv", b'model,plan\na,"[1"\n', "not valid YAML"),
        ("a.csv", b"model\n" + b"x" * 200_000 + b"\n", "not valid CSV at line 2: field larger than"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    path = written(tmp_path, name, content)
    (problem,) = problems(path)
    assert str(path) in problem
    assert sentence in problem


def test_what_is_no_file(tmp_path: Path) -> None:
    assert problems(tmp_path)[0].startswith(f"{tmp_path} is a folder")
    assert problems(tmp_path / "none.yaml") == (f"file '{tmp_path / 'none.yaml'}' does not exist",)
    assert problems(str(tmp_path / ("x" * 300))) == (f"cannot read {tmp_path / ('x' * 300)}: file name too long",)
    assert problems("a\x00b") == ("cannot read 'a\\x00b': embedded null byte",)
    assert problems("") == ("the text is empty",)
    assert problems(3) == ("a scenario must be a path, '-', a text or a mapping, not int",)


def test_a_file_that_is_far_too_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sightline.loading.sources.LARGEST_FILE", 2**20)
    (problem,) = problems(written(tmp_path, "a.yaml", b"#" * (2**20 + 1)))
    assert "a.yaml is larger than 1 MiB" in problem
