"""What nccl-tests prints, as a table."""

import re
from pathlib import Path

import polars as pl

from sightline.calibration.readers.words import PROGRAMS
from sightline.errors import InputError

_PROGRAM = re.compile(rf"\b({'|'.join(PROGRAMS)})_perf\b")
_RANK = re.compile(r"^#\s+Rank\s+(\d+).*?\bon\s+(\S+)\s+device\s+\d+\s+\[\w+\]\s+(.*\S)", re.MULTILINE)
_VERSION = re.compile(r"NCCL version:?\s*([\d.]+)", re.IGNORECASE)
_RESULT = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(?:(?:sum|prod|max|min|avg|none)\s+)?(?:-?\d+\s+)?([\d.]+)\s+([\d.]+)\s+([\d.]+)"
)


def read_log(path: Path) -> pl.DataFrame:
    """Return the out-of-place times of a run, with the kind, the ranks, the device and NCCL's version with them."""
    text = path.read_text(encoding="utf-8")
    ranks = _RANK.findall(text)
    found = [match.groups() for line in text.splitlines() if (match := _RESULT.match(line))]
    if not ranks or not found:
        raise InputError(f"'{path}' looks like nccl-tests, but has no list of ranks with a table of times below it")
    hosts = {host for _, host, _ in ranks}
    version = _VERSION.search(text)
    rows = {
        "nccl_tests": [_program(text, path, found, len(ranks))] * len(found),
        "bytes": [size for size, *_ in found],
        "time_us": [time for _, _, _, time, _, _ in found],
        "ranks": [str(len(ranks))] * len(found),
        "ranks_per_node": [str(len(ranks) // len(hosts))] * len(found),
        "device": [ranks[0][2]] * len(found),
        "library": [f"NCCL {version[1]}" if version else "NCCL"] * len(found),
    }
    frame = pl.DataFrame(rows)
    return frame.filter(pl.col("bytes") != "0")


def _program(text: str, path: Path, found: list[tuple[str, ...]], ranks: int) -> str:
    """The program's name where the log holds it.

    An all-reduce also shows in its ratio of bus to algorithm bandwidth.
    """
    if named := _PROGRAM.search(text):
        return PROGRAMS[named[1]]
    _, _, _, _, algorithm, bus = max(found, key=lambda row: float(row[4]))
    if ranks > 2 and abs(float(bus) / float(algorithm) - 2 * (ranks - 1) / ranks) < 0.05:
        return "all_reduce"
    raise InputError(f"'{path}' does not say which program of nccl-tests wrote it, such as all_gather_perf")
