"""Release lines: what a version that a user states stands for."""

import pytest

from sightline.catalog import entry, names
from sightline.errors import InputError
from sightline.frameworks import read_engine, read_framework
from sightline.frameworks.behavior import line_of, measured_line, newest

ENTRY = {
    "since": "2019-01",
    "versions": {
        "1.0": {"since": "2019-01", "releases": ["1.0", "1.4"]},
        "0.2": {"since": "2023-06", "releases": ["0.1", "0.2"]},
        "0.10": {"since": "2025-02", "releases": ["0.10"]},
    },
    "aliases": {"old": {"version": "0.2", "defaults": {"fused_loss": True}}},
    "containers": "by year and month",
}


@pytest.mark.parametrize(
    ("stated", "line"),
    [
        ("", "0.10"),
        ("0.2", "0.2"),
        ("old", "0.2"),
        ("0.9.3", "0.2"),
        ("v0.11.0rc2", "0.10"),
        ("1.2", "1.0"),
        ("2019-01", "1.0"),
        ("2023", "0.2"),
        ("2022-12-24", "1.0"),
        ("2025-02", "0.10"),
        ("25.01", "0.2"),
        ("25.02.01", "0.10"),
    ],
)
def test_a_version_is_a_line_a_release_a_date_or_a_container(stated: str, line: str) -> None:
    assert line_of("mine", ENTRY, stated).name == line


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("2018-12", "plan.framework_version is '2018-12'"),
        ("3.0", "plan.framework_version is '3.0'"),
        ("odl", "a date such as 2024-06 - did you mean 'old'?"),
        ("2023-13", "plan.framework_version is '2023-13'; mine: allowed: 1.0"),
    ],
)
def test_what_nobody_released_is_refused(stated: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        line_of("mine", ENTRY, stated)
    assert said in str(refused.value)


def test_a_framework_of_one_line_takes_its_releases_and_dates() -> None:
    one = {"since": "2022-03"}
    assert line_of("mine", one, "2.4").name == line_of("mine", one, "2024-01").name == ""
    with pytest.raises(InputError, match="it has one release line"):
        line_of("mine", one, "amp")


def test_an_old_spelling_brings_its_defaults() -> None:
    assert line_of("mine", ENTRY, "old").defaults == {"fused_loss": True}
    serial = read_framework("megatron", "core-serial")
    assert serial.defaults["overlap_gradient_reduce"] is False


@pytest.mark.parametrize("name", names("frameworks"))
def test_lines_of_the_catalog_are_dated_in_order_and_known_by_their_aliases(name: str) -> None:
    stated = entry("frameworks", name)
    lines = stated.get("versions") or {}
    dates = [line["since"] for line in lines.values()]
    assert dates == sorted(dates)
    assert read_framework(name).version == newest(lines)
    assert all((alias or {}).get("version", "") in {"", *lines} for alias in (stated.get("aliases") or {}).values())


def test_megatron_changes_its_lineage_with_megatron_core() -> None:
    assert [read_framework("megatron", date).lineage for date in ("2021-04", "2022-05", "2023-06", "")] == [
        "megatron-lm",
        "megatron-lm",
        "megatron-core",
        "megatron-core",
    ]
    assert read_framework("fsdp").lineage == "fsdp"
    assert read_framework("megatron", "24.05").since == "2024-02"
    assert read_framework("megatron", "24.07").since == "2024-07"


def test_what_a_process_of_megatron_deepspeed_holds_does_not_depend_on_the_line() -> None:
    """One source stated it, of one line, and nothing says that another needs less."""
    lines = [read_framework("megatron-deepspeed", version).memory.context_bytes for version in ("2021", "2023", "")]
    assert len(set(lines)) == 1


@pytest.mark.parametrize(
    ("name", "stated", "attention"),
    [
        ("megatron", "2022-03", "eager"),
        ("megatron", "2.6", "eager"),
        ("megatron", "2023-01", "eager"),
        ("megatron", "2023-06", "flash"),
        ("megatron-deepspeed", "2021", "eager"),
        ("deepspeed", "2022-04", "eager"),
        ("deepspeed", "2022-05", "flash"),
        ("deepspeed", "0.14", "flash"),
        ("fsdp", "2022-03", "eager"),
        ("fsdp", "", "flash"),
    ],
)
def test_attention_is_eager_where_there_was_no_flash_attention(name: str, stated: str, attention: str) -> None:
    assert read_framework(name, stated).defaults.get("attention", "flash") == attention


@pytest.mark.parametrize(
    ("engine", "stated", "release"),
    [
        ("vllm", "2023-10", "0.2"),
        ("vllm", "2024-02", "0.3"),
        ("vllm", "2026", "0.31"),
        ("tensorrt-llm", "2023-12", "0.6"),
        ("tensorrt-llm", "2024-01", "0.7"),
        ("tensorrt-llm", "2024-03", "0.8"),
        ("lmdeploy", "2024-02", "0.2"),
        ("litgpt", "2024-02", ""),
        ("vllm", "0.10.1.post1", "0.10.1.post1"),
        ("vllm", "v0.6.3", "0.6.3"),
        ("llama.cpp", "b1671", "b1671"),
        ("sglang", "nightly-dev-20260402", "nightly-dev-20260402"),
        ("vllm", "", ""),
    ],
)
def test_an_engine_s_version_is_a_release_a_build_or_a_date(engine: str, stated: str, release: str) -> None:
    assert read_engine(engine, stated).version == release


def test_releases_between_lines_behave_as_the_nearest_before_them() -> None:
    old, between, new = (read_engine("vllm", version) for version in ("0.1.4", "0.18", ""))
    assert old.defaults["cuda_graphs"] is False
    assert (between.since, between.defaults) == ("2026-03", new.defaults)
    assert read_engine("tensorrt-llm", "0.11").since == read_engine("tensorrt-llm", "0.8").since == "2024-02"


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("", ""),
        ("0.1", "0.2"),
        ("0.2.7", "0.2"),
        ("0.6.3", "0.2"),
        ("0.8.0", ""),
        ("0.10", ""),
        ("0.11", ""),
        ("0.13", "0.12"),
        ("0.33", ""),
        ("1.0", ""),
    ],
)
def test_constants_are_those_of_the_nearest_measured_release(version: str, line: str) -> None:
    stated = {"releases": ["0.11", "0.15"], "versions": {"0.2": {"releases": ["0.2"]}, "0.12": {"releases": ["0.12"]}}}
    assert measured_line(version, stated) == line


@pytest.mark.parametrize("name", names("engines"))
def test_lines_of_engines_are_dated_in_order(name: str) -> None:
    dates = [line["since"] for line in (entry("engines", name).get("versions") or {}).values()]
    assert dates == sorted(dates)
