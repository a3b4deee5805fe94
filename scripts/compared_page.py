"""Write the tables of docs/compared.md from docs/accuracy/peers.json and peer-loads.json, which benchmarks/peers fill.

Sightline's error on a source that is left out as a whole is that of docs/accuracy/left-out.json, which all pages show.

python scripts/compared_page.py
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from generated import markdown_table, replace_part

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FIGURES, LEFT_OUT = DOCS / "compared.md", DOCS / "accuracy" / "peers.json", DOCS / "accuracy" / "left-out.json"
LOADS = DOCS / "accuracy" / "peer-loads.json"
FEWEST = 5
"""Loads that say something of a quantity."""
OURS = "Sightline"
COMMITS: Mapping[str, str] = {
    "Calculon": "caa4b11",
    "SimuMax": "4dcaae5",
    "GenZ": "091bdd0",
    "LLMCompass": "2e015fd",
    "AIConfigurator": "0.12.0",
    "BLIS": "f90a1e3",
    "inference-lab": "0.2.1",
}
"""What ran, in the order of the page."""
CASES: Mapping[str, tuple[str, str]] = {
    "korthikanti-2022-table5": ("Megatron steps of 22B to 1T on A100", "source left out"),
    "narayanan-2021-table1": ("Megatron steps of 3.6B to 530B on A100", "source left out"),
    "simumax-b200-time": ("Megatron steps of cut-down models on B200", "source left out"),
    "splitwise-prefill": ("Llama 2 70B, time to first token in vLLM", "rows left out"),
    "splitwise-decode": ("Llama 2 70B, time per token in vLLM", "rows left out"),
    "nemo-llama-2-128-20": ("Llama 2 on H100, 128 tokens in and 20 out", "rows left out"),
    "llmcompass-matmul-a100": ("fp16 matmuls on A100, some rows", "table left out"),
    "aiconfigurator-aggregated": ("servers' time per token, some rows", "rows left out"),
}
"""What a suite is, and what of it Sightline's constants did not know."""


def main() -> None:
    """Fill the page's parts."""
    replace_part(PAGE, "peers", table())
    replace_part(PAGE, "loads", loads_table())


def loads_table() -> str:
    """Return a line for each peer and quantity of the loads that it answers: median errors."""
    found = json.loads(LOADS.read_text(encoding="utf-8"))
    rows = [
        [f"{peer} {COMMITS[peer]}", f"`{quantity}`", str(of["answered"]), _median(of["peer"]), _median(of["sightline"])]
        for peer, by_quantity in found.items()
        for quantity, of in by_quantity.items()
        if of["answered"] >= FEWEST
    ]
    return markdown_table(["peer", "quantity", "loads", "its median error", "Sightline's"], rows)


def _median(of: Mapping[str, float]) -> str:
    return f"{100 * of['median']:.0f} %"


def table() -> str:
    """Return a line for each peer and suite."""
    heads = [
        "peer",
        "cases",
        "its mean error (median, largest)",
        "Sightline's",
        "Sightline's constants",
        "its processor time",
        "Sightline's",
    ]
    return markdown_table(heads, list(_lines(json.loads(FIGURES.read_text(encoding="utf-8")))))


def _lines(found: Mapping[str, Any]) -> Iterator[list[str]]:
    left_out = json.loads(LEFT_OUT.read_text(encoding="utf-8"))["left_out_suites"]
    for peer, commit in COMMITS.items():
        for suite, of in found.get(peer, {}).items():
            what, known = CASES[suite]
            answered = "" if of["answered"] == of["cases"] else f" of {of['cases']}"
            yield [
                f"{peer} {commit}",
                f"{what}: {of['answered']}{answered} cases of `{suite}`",
                _error(of["peer"]),
                _error_left_out(suite, of, left_out[suite]) if suite in left_out else _error(of["sightline"]),
                known,
                _milliseconds(of["processor_s"]["median"]),
                _milliseconds(found[OURS][suite]["median"]),
            ]


def _error(of: Mapping[str, float]) -> str:
    return f"{100 * of['mean']:.1f} % ({100 * of['median']:.1f} %, {100 * of['largest']:.0f} %)"


def _error_left_out(suite: str, of: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Sightline's mean error of a suite without its source; it has to be of the cases that the peer answered."""
    if not of["cases"] == of["answered"] == ours["rows"]:
        raise SystemExit(f"{suite}: the peer answered {of['answered']} cases, and {ours['rows']} were left out")
    return f"{100 * ours['mape']:.1f} %"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms" if seconds < 0.1 else f"{seconds:,.1f} s"


if __name__ == "__main__":
    main()
