"""Engines under load: real runs, request by request, beside what the simulator makes of the same requests."""

from pathlib import Path
from typing import TYPE_CHECKING

from sightline.validation.serving.suite import ServingSuite, serving_results, serving_suites_of

if TYPE_CHECKING:
    from sightline.validation.serving.suite import Log

__all__ = ["ServingSuite", "serving_logs", "serving_results", "serving_suites"]


def serving_suites(data: Path | str | None) -> tuple[ServingSuite, ...]:
    """Return the suites of engines under load that a data folder has logs for; none without one."""
    from sightline.validation.serving.anchored import anchored_on_requests, anchored_on_runs

    if data is None:
        return ()
    runs, figures, rtx4090, *others = serving_logs(data)
    anchored = (*anchored_on_runs(runs), *anchored_on_runs(figures), anchored_on_requests(rtx4090))
    return tuple(suite for log in (runs, figures, rtx4090, *anchored, *others) for suite in serving_suites_of(log))


def serving_logs(data: Path | str) -> "tuple[Log, ...]":
    """Return the logs of real servers in a data folder, each with its runs."""
    from sightline.validation.serving.aiconfigurator import aiconfigurator_pools, aiconfigurator_runs
    from sightline.validation.serving.vllm import llmservingsim_log, vllm_figures, vllm_logs, vllm_saturated

    folder = Path(data)
    logs = (vllm_logs(folder), vllm_figures(folder), llmservingsim_log(folder))
    return (*logs, vllm_saturated(folder), aiconfigurator_runs(folder), aiconfigurator_pools(folder))
