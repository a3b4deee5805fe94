"""Add up test runs, and tell unstable tests from failing ones.

    test_summary.py [--unstable FILE] REPORT.xml ...    print one closing line, as pytest words it
    test_summary.py --may-run-again REPORT.xml          exit code 0 if the tests that failed may run once more

A test is unstable if it failed in REPORT.xml and passed in REPORT.again.xml, where it ran alone. The exit code is 1 if a
test failed and did not pass then, if more than three are unstable, or if one is that FILE names. FILE holds the unstable
tests of the last run and is rewritten with those of this one; without it nothing is known of the last run.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

MOST_UNSTABLE = 3
NO_TESTS = {"crashed while running": "a worker crashed", "collection failure": "a file of tests cannot be imported"}
"""What a report says of problems that are no test's own, and what they are."""
FORMS = {"failure": "failed", "error": "errors", "skipped": "skipped"}
"""How a report marks a test that did not pass, and pytest's word for it."""


def main() -> int:
    """Judge the reports, or decide whether the tests that failed may run again; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT.xml")
    parser.add_argument("--may-run-again", action="store_true")
    parser.add_argument("--unstable", type=Path, metavar="FILE")
    options = parser.parse_args()
    return may_run_again(options.reports[0]) if options.may_run_again else judge(options.reports, options.unstable)


def may_run_again(report: Path) -> int:
    """Return 0 if only a few tests failed and no worker crashed, else 1 after a line that gives the reason."""
    found = list(problems(report))
    names = {name for name, word, _ in found if word != "skipped"}
    if reasons := [reason for mark, reason in NO_TESTS.items() if any(mark in text for _, _, text in found)]:
        print(f"not run again: {reasons[0]}")
    elif not 1 <= len(names) <= MOST_UNSTABLE:
        print(f"not run again: {len(names)} tests failed; 1 to {MOST_UNSTABLE} may be unstable")
    else:
        return 0
    return 1


def judge(reports: list[Path], memory: Path | None) -> int:
    """Print the unstable tests and the closing line; return 1 if a test failed or too many are unstable."""
    found = [problem for report in reports for problem in problems(report)]
    unstable = {name for report in reports for name in unstable_tests(report)}
    before = set(memory.read_text(encoding="utf-8").splitlines()) if memory is not None and memory.exists() else set()
    for name in sorted(unstable):
        print(f"unstable: {name} failed, then passed alone{', as in the last run' if name in before else ''}")
    if len(unstable) > MOST_UNSTABLE:
        print(f"{len(unstable)} tests are unstable, and at most {MOST_UNSTABLE} may be")
    forgiven = unstable - before if len(unstable) <= MOST_UNSTABLE else set()
    counts = Counter(word for name, word, _ in found if name not in forgiven)
    cases, seconds = totals(reports)
    counts["passed"] = cases - counts.total()
    words = [f"{counts[word]} {word}" for word in ("failed", "passed", "skipped", "errors") if counts[word]]
    print(f"======== {', '.join(words)} in {seconds:.2f}s ========")
    if memory is not None:
        with suppress(OSError):  # without a folder to write to, the next run knows nothing of this one
            memory.parent.mkdir(parents=True, exist_ok=True)
            memory.write_text("".join(f"{name}\n" for name in sorted(unstable)), encoding="utf-8")
    return int(bool(counts["failed"] or counts["errors"]))


def unstable_tests(report: Path) -> set[str]:
    """Return the tests that failed in a report and passed in the one beside it."""
    again = report.with_suffix(".again.xml")
    passed = {name_of(case) for case in cases_of(again)} - {name for name, *_ in problems(again)}
    return passed & {name for name, word, _ in problems(report) if word != "skipped"}


def problems(report: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each test that did not pass: its name, pytest's word for that, and the message."""
    for case in cases_of(report):
        for mark in case:
            if mark.tag in FORMS:
                yield name_of(case), FORMS[mark.tag], f"{mark.get('message')} {mark.text}"


def totals(reports: list[Path]) -> tuple[int, float]:
    """Return how many tests ran, and the seconds that the runs took together."""
    suites = [suite for report in reports for suite in tree(report).iter("testsuite")]
    return sum(len(list(suite.iter("testcase"))) for suite in suites), sum(
        float(suite.get("time", "0")) for suite in suites
    )


def cases_of(report: Path) -> Iterator[ET.Element]:
    """Yield the tests of a report; none if there is no report."""
    return tree(report).iter("testcase")


def tree(report: Path) -> ET.Element:
    """Return what a report holds; nothing if there is no report."""
    return ET.parse(report).getroot() if report.exists() else ET.Element("testsuites")  # noqa: S314 - our own files


def name_of(case: ET.Element) -> str:
    """Return the name by which two reports mean the same test."""
    return f"{case.get('classname')}::{case.get('name')}"


if __name__ == "__main__":
    sys.exit(main())
