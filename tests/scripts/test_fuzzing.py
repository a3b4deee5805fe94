"""The search for defects of readers finds one of each kind, keeps it, and says what it does not keep."""

import json
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("processes are limited as Linux does", allow_module_level=True)

SCRIPTS = Path(__file__).parents[2] / "scripts"
ONE_INPUT = 0.0
"""Seconds: a search asks about one input whatever its time is."""


@pytest.fixture
def fuzz(monkeypatch):
    """The script, whose processes have the planted verb."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import fuzz
    import planted_defects
    from fuzzing import campaign

    monkeypatch.setattr(campaign, "serve", planted_defects.serve)
    monkeypatch.setattr(campaign, "CPU_S", planted_defects.CPU_S)
    return fuzz


@pytest.fixture
def look(fuzz, monkeypatch, tmp_path, capsys):
    """Search one input, and return the exit code, what was printed, and the folder of defects."""

    def searched(*arguments):
        def reader():
            return lambda _: fuzz.Input(verb="planted", arguments=arguments, files={"a/table.csv": b"1,2"})

        monkeypatch.setattr(fuzz, "READERS", {"reader": reader})
        code = fuzz.look(["reader"], ONE_INPUT, None, 7, 1, tmp_path / "kept")
        return code, capsys.readouterr().out, tmp_path / "kept"

    return searched


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("traceback", "KeyError: 'a key that nobody looked for'"),
        ("loop", "TooLong: more than "),
        ("wait", "no answer"),
        ("memory", "MemoryError"),
        ("much", "Defect: more than 0.1 GB of memory"),
        ("warning", "RuntimeWarning: divide by zero"),
        ("death", "the process died"),
    ],
)
def test_a_planted_defect_is_found_and_kept(fuzz, look, capsys, monkeypatch, kind, problem):
    if kind == "wait":
        monkeypatch.setattr("fuzzing.campaign.IDLE_S", 2.0)
    code, out, kept = look(kind)
    assert (code, out.splitlines()[0].split()) == (1, ["reader", "1", "defect"])
    assert f"{kept}/reader-7-0: 1 x " in out
    assert problem in out
    folder = kept / "reader-7-0"
    again = fuzz.Input.read(folder)
    assert (again.arguments, dict(again.files)) == ((kind,), {"a/table.csv": b"1,2"})
    assert json.loads((folder / "input.json").read_text(encoding="utf-8"))["problem"].startswith(problem)
    assert fuzz.again([folder]) == 1
    assert capsys.readouterr().out.startswith(f"{folder}: defect\n{problem}")


@pytest.mark.parametrize(("kind", "word"), [("answer", "answered"), ("refuse", "refused")])
def test_what_is_answered_or_refused_is_no_defect(look, kind, word):
    code, out, kept = look(kind)
    assert (code, out.split()) == (0, ["reader", "1", word])
    assert not kept.exists()


def test_a_folder_without_a_kept_input_is_a_sentence(fuzz, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--again", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="2"):
        fuzz.main()
    assert f"no kept input in {tmp_path}/none; needed: a folder with input.json" in capsys.readouterr().err


def test_a_defect_that_a_fresh_process_does_not_show_is_counted_and_said(look, tmp_path):
    code, out, kept = look("once", str(tmp_path / "asked"))
    first, _, *said = out.splitlines()
    assert (code, first.split()) == (0, ["reader", "1", "answered,", "1", "unstable"])
    assert said[0].startswith("reader: 1 x KeyError at ")
    assert not kept.exists()
