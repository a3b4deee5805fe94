"""``sightline catalog``."""

import json

from sightline import __version__
from sightline.catalog import KINDS, entry, names
from sightline.cli.catalog import _meaning
from sightline.profile.results import SCHEMA
from sightline.report.terminal.catalog import entry_table


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
            assert entry_table(kind, name, dict(entry(kind, name)), _meaning(kind, name)), (kind, name)


def test_entries_of_every_kind_are_shown(in_process):
    for kind in KINDS:
        for name in names(kind)[::10]:
            code, out, err = in_process("catalog", kind, name)
            assert code == 0, err
            assert name in out


def test_packed_tables_are_left_to_programs(in_process):
    code, out, _ = in_process("catalog", "calibrations", "h100-sxm/matmul")
    assert code == 0
    assert "characters, shown" in out
    assert len(out) < 50_000


def test_prices_are_listed_with_what_providers_ask(in_process):
    code, out, _ = in_process("catalog", "prices")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert list(lines) == list(names("prices"))
    assert "2.69 - 12.29" in lines["h100-sxm-80gb"]
    assert "estimated" in lines["gaudi2"]
    code, out, _ = in_process("catalog", "prices", "h100-sxm-80gb")
    assert code == 0
    for said in ("median", "CoreWeave", "spot", "2026-09-20"):
        assert said in out
