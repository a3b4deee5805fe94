"""Continuous integration: what it adds up, which failures it runs once more, and which it forgives."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARKS = {"failed": "<failure message='no'/>", "error": "<error message='no'/>", "skipped": "<skipped/>", "passed": ""}
CRASH = "<error message='failed on setup'>worker 'gw0' crashed while running 'tests/test_a.py::test_a'</error>"


def report(path, seconds=1.0, **tests):
    """Write a report in which each test ended as it says."""
    cases = (f'<testcase classname="a" name="{name}">{MARKS.get(end, end)}</testcase>' for name, end in tests.items())
    path.write_text(f'<testsuites><testsuite time="{seconds}">{"".join(cases)}</testsuite></testsuites>')
    return path


def summary(*arguments):
    """Return the exit code and the printed lines."""
    command = [sys.executable, ROOT / "scripts" / "test_summary.py", *arguments]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert not ended.stderr
    return ended.returncode, ended.stdout.splitlines()


@pytest.fixture
def judged(tmp_path):
    """Judge a run, and what its failed tests did when they ran again; what was unstable is remembered."""

    def judge(first, again=None):
        path = report(tmp_path / "a.xml", **first)
        (tmp_path / "a.again.xml").unlink(missing_ok=True)
        if again is not None:
            report(tmp_path / "a.again.xml", **again)
        return summary("--unstable", tmp_path / "cache" / "unstable.txt", path)

    return judge


def test_runs_are_added_up_in_pytest_words(tmp_path):
    first = report(tmp_path / "a.xml", seconds=1.25, one="passed", two="passed", three="skipped")
    second = report(tmp_path / "b.xml", seconds=2.5, four="passed", five="failed")
    assert summary(first, second) == (1, ["======== 1 failed, 3 passed, 1 skipped in 3.75s ========"])


def test_a_run_without_a_report_counts_nothing(tmp_path):
    first = report(tmp_path / "a.xml", one="passed")
    assert summary(first, tmp_path / "none.xml") == (0, ["======== 1 passed in 1.00s ========"])


def test_an_unstable_test_is_named_and_forgiven_once(judged):
    code, lines = judged({"one": "failed", "two": "passed"}, {"one": "passed"})
    assert code == 0
    assert "a::one" in lines[0]
    assert lines[-1] == "======== 2 passed in 1.00s ========"
    code, lines = judged({"one": "error", "two": "passed"}, {"one": "passed"})
    assert code == 1
    assert lines[-1] == "======== 1 passed, 1 errors in 1.00s ========"


def test_a_stable_run_between_two_unstable_ones_is_remembered(judged):
    for first, again in (({"one": "failed"}, {"one": "passed"}), ({"one": "passed"}, None)) * 2:
        assert judged(first, again)[0] == 0


@pytest.mark.parametrize(
    "again", [None, {}, {"one": "failed"}, {"one": "error"}, {"one": "skipped"}, {"two": "passed"}]
)
def test_what_did_not_pass_alone_is_a_failure(judged, again):
    code, lines = judged({"one": "failed", "two": "passed"}, again)
    assert (code, lines) == (1, ["======== 1 failed, 1 passed in 1.00s ========"])


@pytest.mark.parametrize(("count", "code"), [(3, 0), (4, 1)])
def test_three_may_be_unstable(judged, count, code):
    names = [f"test{number}" for number in range(count)]
    assert judged(dict.fromkeys(names, "failed"), dict.fromkeys(names, "passed"))[0] == code


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path):
    (tmp_path / "file").touch()
    first = report(tmp_path / "a.xml", one="passed")
    assert summary("--unstable", tmp_path / "file" / "unstable.txt", first)[0] == 0


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        ({"one": "failed", "two": "error", "three": "skipped", "four": "passed"}, 0),
        ({"one": CRASH}, 1),
        ({"one": "passed"}, 1),
        ({f"test{number}": "failed" for number in range(4)}, 1),
    ],
)
def test_few_failures_may_run_again_and_crashes_may_not(tmp_path, tests, code):
    found, lines = summary("--may-run-again", report(tmp_path / "a.xml", **tests))
    assert (found, len(lines)) == (code, code)


STAGE = """
set -euo pipefail
work=$PWD/work
{tests}
tests stage ".venv/bin/python -m pytest -n 2 {options}"
.venv/bin/python scripts/test_summary.py "$work/stage.xml"
"""
BODIES = {
    "passing": "pass",
    "unstable": "path = Path(__file__).with_suffix('.mark'); ran = path.exists(); path.touch(); assert ran",
    "failing": "assert False",
    "crashing": "path = Path(__file__).with_suffix('.mark'); ran = path.exists(); path.touch(); ran or os.abort()",
}


@pytest.fixture
def stage(tmp_path):
    """Run a stage of ``.ci/run`` with the tests of a file; return its exit code and what it printed."""
    function = re.search(r"^tests\(\) \{.*?^\}", (ROOT / ".ci" / "run").read_text(), re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")

    def run(text, options=""):
        (tmp_path / "test_it.py").write_text(f"import os\nfrom pathlib import Path\n{text}")
        script = STAGE.format(tests=function, options=options)
        alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        ended = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
        )
        return ended.returncode, ended.stdout

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tests", "code", "closing"),
    [
        (("passing",), 0, "= 1 passed in "),
        (("passing", "unstable"), 0, "= 2 passed in "),
        (("passing", "failing"), 1, "= 1 failed in "),
        (("unstable", "failing"), 1, "= 1 failed, 1 passed in "),
        (("passing", "crashing"), 1, "not run again: a worker crashed"),
        (("failing", "failing", "failing", "failing"), 1, "not run again: 4 tests failed"),
    ],
)
def test_a_stage_forgives_the_unstable_alone(stage, tests, code, closing):
    found, out = stage("".join(f"\ndef test_{n}_{name}(): {BODIES[name]}\n" for n, name in enumerate(tests)))
    assert found == code, out
    assert closing in out.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "options", "code"),
    [("import nothing_of_that_name", "", 1), ("", "", 5), ("", "--no-such-option", 4)],
)
def test_what_is_no_failing_test_ends_a_stage(stage, text, options, code):
    found, out = stage(text, options)
    assert found == code, out
    assert "once more" not in out
