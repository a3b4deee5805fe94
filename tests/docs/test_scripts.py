"""The scripts that continuous integration leans on."""

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"

REPORT = """<testsuites><testsuite tests="{tests}" failures="{failures}" errors="0" skipped="{skipped}" time="{time}"/></testsuites>"""


def summary(*paths):
    command = [sys.executable, SCRIPTS / "test_summary.py", *paths]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_runs_are_added_up_in_pytest_words(tmp_path):
    first, second = tmp_path / "a.xml", tmp_path / "b.xml"
    first.write_text(REPORT.format(tests=10, failures=0, skipped=2, time=1.25))
    second.write_text(REPORT.format(tests=3, failures=1, skipped=0, time=2.5))
    assert summary(first, second) == "======== 1 failed, 10 passed, 2 skipped in 3.75s ========"


def test_a_run_without_a_report_counts_nothing(tmp_path):
    first = tmp_path / "a.xml"
    first.write_text(REPORT.format(tests=4, failures=0, skipped=0, time=1))
    assert summary(first, tmp_path / "none.xml") == "======== 4 passed in 1.00s ========"
