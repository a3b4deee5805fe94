"""Release lines: what a version that a user states stands for."""

import pytest

from sightline.catalog import entry, names
from sightline.errors import InputError
from sightline.frameworks import read_framework
from sightline.frameworks.lines import line_of, newest

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
        ("2018-12", "plan.framework_version is '2018-12'; mine: allowed: a date from 2019-01 on"),
        ("3.0", "plan.framework_version is '3.0'; mine: allowed: 1.0, 0.2, 0.10, a release or a date"),
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
    assert read_framework("megatron", "24.07").since == "2024-02"


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
