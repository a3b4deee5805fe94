"""Print one closing line for several test runs, as pytest words it: ``test_summary.py REPORT.xml...``."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def main(paths: list[str]) -> None:
    """Add up the runs that left a report."""
    suites = [suite for path in paths if Path(path).exists() for suite in ET.parse(path).iter("testsuite")]  # noqa: S314 - our own files

    def total(key: str) -> int:
        return sum(int(suite.get(key, "0")) for suite in suites)

    failed, errors, skipped = total("failures"), total("errors"), total("skipped")
    counts = {
        "failed": failed,
        "passed": total("tests") - failed - errors - skipped,
        "skipped": skipped,
        "errors": errors,
    }
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    seconds = sum(float(suite.get("time", "0")) for suite in suites)
    print(f"======== {said} in {seconds:.2f}s ========")


if __name__ == "__main__":
    main(sys.argv[1:])
