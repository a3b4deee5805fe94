"""Cases that `sightline validate --cases --json` printed, and what a peer makes of them next to Sightline.

It is imported by the scripts that run in a peer's environment, so it needs the standard library alone.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any


@dataclass(frozen=True)
class Compared:
    """A measured case, predicted by a peer and by Sightline."""

    name: str
    measured: float
    ours: float | None
    peers: float | None
    processor_s: float
    """Processor time of the peer's prediction."""
    reason: str = ""
    """Why the peer predicts nothing."""

    @classmethod
    def timed(cls, case: dict[str, Any], predict: Callable[..., float], *asked: Any) -> "Compared":
        """Return a case after a peer's prediction of what is ``asked``, or with why there is none."""
        begun, peers, reason = time.process_time(), None, ""
        try:
            peers = predict(*asked)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is its refusal
            reason = f"{type(error).__name__}: {error}"
        taken = time.process_time() - begun
        return cls(name_of(case["scenario"]), case["measured"], case["predicted"], peers, taken, reason)


def cases_of(path: str, split: str = "", quantity: str = "") -> list[dict[str, Any]]:
    """Return the answered cases of all suites in a document, or of those that are of a ``split`` or ``quantity``."""
    suites = json.loads(Path(path).read_text(encoding="utf-8"))["suites"]
    chosen = [of for of in suites if split in ("", of["split"]) and quantity in ("", of["quantity"])]
    answers = [answer for suite in chosen for answer in suite["answers"]]
    return [answer for answer in answers if answer["predicted"] is not None]


def name_of(scenario: dict[str, Any]) -> str:
    """Return a short name of a case: its model's shape, its devices and the degrees of its plan."""
    work, cluster, plan = scenario["workload"], scenario["cluster"], scenario.get("plan", {})
    if "model" not in scenario:
        return f"{work['operator']} {work['m']} x {work['n']} x {work['k']}"
    model = scenario["model"]
    shape = model if isinstance(model, str) else f"{model['hidden_size']} x {model['num_hidden_layers']}"
    devices = cluster if isinstance(cluster, str) else cluster["devices"]
    said = [f"{key} {plan[key]}" for key in ("tensor_parallel", "pipeline_parallel", "recompute") if key in plan]
    asked = [f"{key} {work[key]}" for key in ("batch", "prompt_tokens") if key in work]
    return ", ".join([shape, str(devices), *said, *asked])


def report(peer: str, cases: str, found: Sequence[Compared]) -> None:
    """Print every case, then the errors of both over the cases that both answer.

    With the environment variable ``PEERS_RESULTS``, a JSON file that is there, the figures are kept in it too, under the
    peer and the name of the file of ``cases``.
    """
    for one in found:
        peers = one.reason[:80] if one.peers is None else f"{one.peers:.4g}"
        ours = "-" if one.ours is None else f"{one.ours:.4g}"
        print(f"{one.name}: measured {one.measured:.4g}, {peer} {peers}, Sightline {ours}")
    both = [one for one in found if one.peers is not None and one.ours is not None]
    if not both:
        raise SystemExit(f"{peer} answered none of {len(found)} cases")
    times = [one.processor_s for one in both]
    figures = {
        "cases": len(found),
        "answered": len(both),
        "peer": errors((one.peers, one.measured) for one in both),
        "sightline": errors((one.ours, one.measured) for one in both),
        "processor_s": {"first": times[0], "median": median(times[1:] or times)},
    }
    print(json.dumps(figures, indent=1))
    keep(peer, cases, figures)


def keep(tool: str, cases: str, figures: dict[str, Any]) -> None:
    """Write figures into the file that ``PEERS_RESULTS`` names, if it does, under the tool and the name of the cases."""
    if place := os.environ.get("PEERS_RESULTS"):
        kept = json.loads(Path(place).read_text(encoding="utf-8"))
        kept.setdefault(tool, {})[Path(cases).stem] = rounded(figures)
        Path(place).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def errors(pairs: Iterable[tuple[float | None, float]]) -> dict[str, float]:
    """Return mean, median and largest error relative to what was measured, and the mean with its sign."""
    signed = [predicted / measured - 1 for predicted, measured in pairs if predicted is not None]
    sizes = [abs(error) for error in signed]
    return {"mean": fmean(sizes), "median": median(sizes), "largest": max(sizes), "bias": fmean(signed)}


def rounded(value: Any) -> Any:
    """Four figures are more than is known."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    raise SystemExit("imported by the scripts beside it")
