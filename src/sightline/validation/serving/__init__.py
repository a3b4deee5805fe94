"""Engines under load: real runs, request by request, beside what the simulator makes of the same requests."""

from pathlib import Path

from sightline.validation.serving.suite import ServingSuite, serving_results, serving_suites_of

__all__ = ["ServingSuite", "serving_results", "serving_suites"]


def serving_suites(data: Path | str | None) -> tuple[ServingSuite, ...]:
    """Return the suites of engines under load that a data folder has logs for; none without one."""
    from sightline.validation.serving.aiconfigurator import aiconfigurator_pools, aiconfigurator_runs
    from sightline.validation.serving.anchored import anchored_on_requests, anchored_on_runs
    from sightline.validation.serving.llmservingsim import llmservingsim_log
    from sightline.validation.serving.vllm_figures import vllm_figures
    from sightline.validation.serving.vllm_logs import vllm_logs
    from sightline.validation.serving.vllm_saturated import vllm_saturated

    if data is None:
        return ()
    folder = Path(data)
    runs, figures, rtx4090 = vllm_logs(folder), vllm_figures(folder), llmservingsim_log(folder)
    anchored = (*anchored_on_runs(runs), *anchored_on_runs(figures), anchored_on_requests(rtx4090))
    others = (vllm_saturated(folder), aiconfigurator_runs(folder), aiconfigurator_pools(folder))
    logs = (runs, figures, rtx4090, *anchored, *others)
    return tuple(suite for log in logs for suite in serving_suites_of(log))
