"""Collectives by torch.distributed: a process per rank on this machine, gloo between processors and NCCL between GPUs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sightline.errors import InputError, WorkError
from sightline.measurement.operator_case import chosen
from sightline.measurement.timing import Rule, Timing
from sightline.measurement.torch_machine import Machine
from sightline.scenario import CollectiveOperation

START_S = 120.0
"""What starting processes and importing PyTorch may take."""
LIBRARIES = {"cpu": "gloo", "cuda": "nccl"}


def measure_collective(
    x: CollectiveOperation,
    machine: Machine,
    implementation: str | None,
    rule: Rule,
    on_sample: Callable[[float], None] = lambda _: None,
) -> tuple[Timing, str]:
    """Return the slowest rank's times and the library's name.

    Raises:
        InputError: there is but one rank, or the library is another one.
        WorkError: a process failed or hung.
    """
    library = chosen(x.operator, implementation, (LIBRARIES[machine.kind],))
    if machine.ranks < 2:
        raise InputError(
            f"cluster is one device; {x.operator} needs two or more, such as --set cluster='2x this-machine'"
        )
    with tempfile.TemporaryDirectory(prefix="sightline-") as folder:
        asked = {
            "operator": x.operator,
            "bytes": int(x.bytes),
            "kind": machine.kind,
            "library": library,
            "ranks": machine.ranks,
            "threads": machine.threads,
            "meeting_point": str(Path(folder) / "ranks"),
            "rule": {name: getattr(rule, name) for name in rule.__dataclass_fields__},
        }
        said = _run(asked, START_S + 4 * (rule.warm_up_s + rule.longest_s))
    for seconds in said["samples"]:
        on_sample(seconds)
    return Timing(**said), library


def _run(asked: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
    """Start the ranks, wait for the first one's answer, and leave none behind."""
    threads = str(asked["threads"])
    environment = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    command = [sys.executable, "-m", "sightline.measurement.collective_rank"]
    ranks = [
        subprocess.Popen(  # noqa: S603 - our own module
            [*command, json.dumps({**asked, "rank": rank})],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(asked["ranks"])
    ]
    try:
        answers = [rank.communicate(timeout=limit_s) for rank in ranks]
    except subprocess.TimeoutExpired:
        raise WorkError(f"{asked['operator']}: the ranks did not finish within {limit_s:.0f} s") from None
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    failed = [i for i, rank in enumerate(ranks) if rank.returncode]
    if failed:
        lines = answers[failed[0]][1].strip().splitlines() or [f"exit code {ranks[failed[0]].returncode}"]
        raise WorkError(f"{asked['operator']} over {asked['library']}: rank {failed[0]} failed: {lines[-1]}")
    said: dict[str, Any] = json.loads(answers[0][0].splitlines()[-1])
    return said
