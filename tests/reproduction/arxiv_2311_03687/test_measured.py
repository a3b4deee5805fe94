"""Tables measured here: what was measured is called so, what could not be is not."""

from dataclasses import replace

import pytest

from sightline.answers.study import columns_of
from sightline.errors import InputError
from sightline.progress import SILENT
from sightline.reproduction.arxiv_2311_03687 import measured
from sightline.reproduction.arxiv_2311_03687.measured import Answered, Cell, Table, tables_at_hand


def _cell(row):
    return Cell(row=row, column="llama-2-7b", scenario={})


def _at_hand(monkeypatch, suite):
    monkeypatch.setattr(measured, "hardware_at_hand", lambda: None)
    monkeypatch.setattr(measured, "measured_suite", lambda *_, **__: suite)
    return tables_at_hand(None, small=True, progress=SILENT)


def _tables(monkeypatch, *answers):
    suite = [(Table(name=one.cell.row, title="Rates", cells=[one.cell]), [one]) for one in answers]
    return {one.id: one for one in _at_hand(monkeypatch, suite)}


def _table(monkeypatch, *answers):
    (only,) = _at_hand(monkeypatch, [(Table(name="N", title="Rates", cells=[one.cell for one in answers]), answers)])
    return only


RAN = Answered(cell=_cell("N"), status="ok", measured={"tokens_per_s": 90.0}, predicted={"tokens_per_s": 99.0})
MISSING = Answered(cell=_cell("Z2"), status="unsupported", reason="DeepSpeed is not installed")
FULL = Answered(cell=_cell("Z3"), status="out_of_memory")


def test_a_table_is_called_measured_where_something_of_it_was(monkeypatch):
    tables = _tables(monkeypatch, RAN, MISSING, FULL)
    assert [one.status for one in tables.values()] == ["measured", "not measured", "measured"]
    rates = tables["measured-N"].answer.table.row(0, named=True)
    assert rates["ratio"] == pytest.approx(1.1)
    assert tables["measured-Z2"].answer.table["reason"][0] == "DeepSpeed is not installed"


def test_a_reason_of_several_rows_is_told_once(monkeypatch):
    only = _table(monkeypatch, RAN, *(replace(MISSING, cell=_cell(f"Z{stage}")) for stage in range(3)), FULL)
    assert only.answer.reading == ("3 cases, not installed: DeepSpeed is not installed",)
    assert set(only.answer.columns["reason"]) == {"", "DeepSpeed is not installed"}
    (why,) = [one.cells for one in columns_of(only.answer) if one.key == "reason"]
    assert set(why) == {"", "see above"}


def test_a_reason_of_cases_that_ended_unlike_is_told_with_all_of_their_endings(monkeypatch):
    ended = [replace(MISSING, reason="no room", status=status) for status in ("unsupported", "crashed", "crashed")]
    only = _table(monkeypatch, *ended, replace(RAN, refused="no room"))
    assert only.answer.reading == ("4 cases, unsupported or crashed or ok: no room",)
    (why,) = [one.cells for one in columns_of(only.answer) if one.key == "reason"]
    assert set(why) == {"see above"}


def test_a_missing_package_is_no_lack_of_support(monkeypatch):
    refused = replace(MISSING, cell=_cell("Z3"), reason="plan.adapter is 'lora'; allowed: none")
    tables = _tables(monkeypatch, RAN, MISSING, refused)
    assert tables["measured-Z2"].answer.table["status"][0] == "not installed"
    assert tables["measured-Z3"].answer.table["status"][0] == "unsupported"


def test_a_refused_prediction_says_why_beside_its_measurement(monkeypatch):
    refused = Answered(cell=_cell("N"), status="ok", measured={"tokens_per_s": 90.0}, refused="no such technique")
    tables = _tables(monkeypatch, refused)
    assert tables["measured-N"].answer.table["reason"][0] == "no such technique"


def test_where_nothing_can_be_measured_the_first_reason_is_told(monkeypatch):
    with pytest.raises(InputError, match="DeepSpeed is not installed"):
        _tables(monkeypatch, MISSING)
