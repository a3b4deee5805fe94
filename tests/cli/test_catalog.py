"""``sightline catalog``."""

import json
import re

import pytest

from sightline import __version__
from sightline.answers.catalog import entry_outline
from sightline.catalog import KINDS, entry, names
from sightline.profile.results import SCHEMA


def test_the_kinds_are_listed_with_their_numbers(in_process):
    code, out, err = in_process("catalog")
    assert (code, err) == (0, "")
    for kind in KINDS:
        assert any(line.split()[:2] == [kind, str(len(names(kind)))] for line in out.splitlines())


def test_a_kind_is_a_table_of_its_entries(in_process):
    code, out, _ = in_process("catalog", "devices")
    assert code == 0
    lines = [line.split()[0] for line in out.splitlines()]
    assert lines[lines.index("name") + 1 :] == list(names("devices"))


def test_the_singular_will_do(in_process):
    assert in_process("catalog", "device") == in_process("catalog", "devices")


@pytest.mark.parametrize(("kind", "singular"), [("memories", "memory"), ("launches", "launch"), ("dies", "die")])
def test_the_singular_is_that_of_the_language(in_process, kind, singular):
    assert in_process("catalog", singular) == in_process("catalog", kind)
    code, _, err = in_process("catalog", singular, "nothing-like-it")
    assert (code, f"unknown {singular} 'nothing-like-it'" in err) == (2, True)


def test_technology_is_listed_in_order_of_time(in_process):
    out = in_process("catalog", "launches")[1]
    dates = re.findall(r"\b20[0-2]\d-[01]\d\b", out)
    assert len(dates) == len(names("launches"))
    assert dates == sorted(dates)
    out = in_process("catalog", "memories")[1]
    assert out.index("hbm2e") < out.index("hbm3") < out.index("hbm4") < out.index("lpddr4x")
    assert "2.74 TB/s" in out


def test_what_follows_from_an_entry_is_shown_with_its_sources(in_process):
    out = in_process("catalog", "memories", "hbm3e")[1]
    for said in ("bandwidth of one stack or chip", "1.02 TB/s", "2024", "8 Gbit/s", "estimated"):
        assert said in out
    assert "900 GB/s" in in_process("catalog", "links", "nvlink5")[1]
    assert "51.6" in in_process("catalog", "launches", "geforce-rtx-4090")[1]
    assert "per USD" not in in_process("catalog", "launches", "mi355x")[1]


def test_an_entry_shows_its_figures_and_sources(in_process):
    code, out, _ = in_process("catalog", "devices", "a100-sxm-80gb")
    assert code == 0
    for said in ("memory_bandwidth", "2039 GB/s", "312 TFLOP/s", "estimated"):
        assert said in out


def test_json_gives_the_same_entries(in_process):
    assert json.loads(in_process("catalog", "--json")[1])["devices"] == list(names("devices"))
    assert [e["name"] for e in json.loads(in_process("catalog", "models", "--json")[1])] == list(names("models"))
    entry = json.loads(in_process("catalog", "devices", "h100-sxm-80gb", "--json")[1])
    for document in (entry, *json.loads(in_process("catalog", "engines", "--json")[1])):
        assert (document["version"], document["schema"]) == (__version__, SCHEMA)
    assert (entry["kind"], entry["name"]) == ("devices", "h100-sxm-80gb")
    assert entry["source"]


def test_every_entry_has_a_table():
    for kind in KINDS:
        for name in names(kind):
            assert entry_outline(kind, name, dict(entry(kind, name))), (kind, name)


def test_entries_of_every_kind_are_shown(in_process):
    for kind in KINDS:
        for name in names(kind)[::10]:
            code, out, err = in_process("catalog", kind, name)
            assert code == 0, err
            assert name in out


def test_packed_tables_are_left_to_programs(in_process):
    code, out, _ = in_process("catalog", "calibrations", "h100-sxm/matmul", "-v")
    assert code == 0
    assert "characters" in out
    assert len(out) < 50_000


def test_prices_are_listed_with_what_providers_ask(in_process):
    code, out, _ = in_process("catalog", "prices")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert list(lines) == list(names("prices"))
    assert "2.69 - 12.29" in lines["h100-sxm-80gb"]
    assert "estimated" in lines["gaudi2"]
    code, out, _ = in_process("catalog", "prices", "h100-sxm-80gb", "-v")
    assert code == 0
    for said in ("median", "CoreWeave", "spot", "2026-09-20"):
        assert said in out
