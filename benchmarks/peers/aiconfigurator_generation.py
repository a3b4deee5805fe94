"""Estimate published times per token of servers with AIConfigurator, and compare with what was measured.

    python -m venv aic-env && aic-env/bin/pip install aiconfigurator==0.12.0
    sightline validate aiconfigurator-aggregated --data DIR --cases --json > cases.json
    aic-env/bin/python benchmarks/peers/aiconfigurator_generation.py cases.json DIR/aiconfigurator/silicon_sample.csv [EVERY]

The measurements are those that AIConfigurator publishes; its package holds its tables of operators. Only rows that
Sightline's constants were not fitted to (the part test) count, one in EVERY. Each is asked with its own backend, the
version that its tables have, and its formats.
"""

import contextlib
import csv
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from comparison import Compared, cases_of, report


def main(cases: str, table: str, every: str = "10") -> None:
    """Estimate every case and print both errors."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with Path(table).open(encoding="utf-8", newline="") as lines:
        rows = {round(float(row["silicon_tpot_ms"]), 6): row for row in csv.DictReader(lines) if row["mode"] == "agg"}
    chosen = list(joined(cases_of(cases, "test"), rows))[:: int(every)]
    report("AIConfigurator", cases, [Compared.timed(case, tpot_seconds, row) for case, row in chosen])


def joined(
    cases: list[dict[str, Any]], rows: dict[float, dict[str, str]]
) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield each case with its line of the table, found by what was measured."""
    for case in cases:
        row = rows.get(round(1e3 * case["measured"], 6))
        if row is not None:
            yield case, row


def tpot_seconds(row: dict[str, str]) -> float:
    """Return AIConfigurator's seconds of a further token."""
    from aiconfigurator.cli.api import cli_estimate

    sizes = {
        name: int(row[name] or 1) for name in ("isl", "osl", "batch_size", "tp_size", "pp_size", "attention_dp_size")
    }
    experts = {name: int(row[name]) for name in ("moe_tp_size", "moe_ep_size") if row[name]}
    formats = {name: row[name] for name in ("gemm_quant_mode", "moe_quant_mode") if row[name]}
    model = row["model_path"].replace("meta-llama/Llama-3.1", "meta-llama/Meta-Llama-3.1")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = cli_estimate(model, row["system"], backend_name=row["backend"], **sizes, **experts, **formats)
    return float(found.tpot) / 1e3


if __name__ == "__main__":
    main(*sys.argv[1:])
