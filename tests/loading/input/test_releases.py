"""Releases stay as they are written, whatever file they are in: 0.10 is another than 0.1."""

from pathlib import Path

import pytest

from sightline import load
from sightline.errors import InputError

REST = "model: llama-2-7b\ncluster: 8x a100-sxm-80gb\nworkload: {task: pretrain, sequence_length: 2048, global_batch: 64}\n"
JSON = (
    '{"model": "llama-2-7b", "cluster": "8x a100-sxm-80gb", '
    '"workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64}, '
)


@pytest.mark.parametrize(
    ("stated", "line"),
    [("0.10", "0.10"), ("0.1", "0.2"), ("'0.10'", "0.10"), ("25.10", "0.14"), ("2022-03-01", "2022"), ("2024", "0.8")],
)
def test_an_unquoted_release_of_yaml_is_the_one_that_is_written(stated: str, line: str) -> None:
    scenario = load(f"{REST}plan: {{framework: megatron, framework_version: {stated}}}")
    assert scenario.plan.framework.version == line


def test_so_is_each_of_a_sweep() -> None:
    swept = load(f"{REST}plan: {{framework: megatron}}\nsweep:\n  plan.framework_version: [0.10, 0.2, 2025-09]\n")
    assert [one.plan.framework.version for one in swept] == ["0.10", "0.2", "0.14"]
    listed = load(f"{REST}plan: {{framework: megatron}}", sweeps=["plan.framework_version=[0.10, 0.12]"])
    assert [one.plan.framework.version for one in listed] == ["0.10", "0.12"]


def test_json_keeps_them_too(tmp_path: Path) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(JSON + '"plan": {"framework": "megatron", "framework_version": 0.10}}')
    assert load(file).plan.framework.version == "0.10"
    file.write_text(JSON + '"plan": {"framework": "megatron"}, "sweep": {"plan.framework_version": [0.10, 0.2]}}')
    assert [one.plan.framework.version for one in load(file)] == ["0.10", "0.2"]


@pytest.mark.parametrize("stated", ["2022-13", "2022-00", "2022-02-31", "2022-3", "2018-12"])
def test_dates_that_are_none_and_before_the_framework_are_refused(stated: str) -> None:
    with pytest.raises(InputError, match=rf"plan.framework_version is '{stated}'; megatron: allowed: .*date"):
        load(f"{REST}plan: {{framework: megatron, framework_version: {stated}}}")


@pytest.mark.parametrize(("framework", "line"), [("megatron", "release line 0.18"), ("fsdp", "its one release line")])
def test_a_date_later_than_the_catalog_knows_is_the_newest_line_with_a_remark(framework: str, line: str) -> None:
    plan = f"plan: {{framework: {framework}, framework_version: 2031-05}}"
    (remark,) = [one for one in load(REST + plan).warnings if "2031-05" in one]
    assert line in remark
    assert "2026-11" in remark
    assert not [one for one in load(REST + plan.replace("2031-05", "2026-11")).warnings if "is newer than" in one]
