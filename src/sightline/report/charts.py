"""The picture of a prediction: where its time goes, and the fullest device's memory against what there is."""

from collections.abc import Sequence
from typing import Any

from sightline.profile import GENERATION, TRAINING, Profile
from sightline.report import look, panels, summary, units
from sightline.report.comparison_chart import comparison_chart
from sightline.report.generation_charts import generation_chart, generations_chart

_COMPUTE_PHASES = ("forward", "backward", "recompute")


def prediction_chart(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Return the Vega-Lite specification for one prediction, or for several of one kind side by side."""
    generations = [p for p in profiles if p.task is GENERATION]
    steps = [p for p in profiles if p.task is TRAINING]
    if len(profiles) == 1:
        return single_chart(profiles[0])
    return comparison_chart(steps) if steps else generations_chart(generations)


def single_chart(profile: Profile, *, titled: bool = True) -> dict[str, Any]:
    """Return one prediction as three panels: time by phase, time by module, memory by part."""
    if profile.task is GENERATION:
        return generation_chart(profile, titled=titled)
    import altair as alt

    total_s = float(profile.step_time_s)
    drawn = [
        panels.time_panel(summary.phases(profile), total_s, "Where a step's time goes", "step"),
        panels.module_panel(summary.modules(profile), _COMPUTE_PHASES, total_s),
        panels.memory_panel(profile),
    ]
    chart = alt.vconcat(*(panel for panel in drawn if panel is not None)).resolve_scale(color="independent")
    if not titled:
        return look.configure(chart)
    lines = [*summary.subtitle(profile.scenario), _headline(profile)]
    return look.configure(chart, summary.title(profile.scenario), lines)


def _headline(profile: Profile) -> str:
    figures = (
        f"{units.seconds(float(profile.step_time_s))} per step",
        f"{units.digits(float(profile.tokens_per_s))} tokens/s",
        f"MFU {units.percent(float(profile.mfu))}",
        f"bound by {profile.bottleneck}",
        summary.fit_sentence(profile),
    )
    return " · ".join(figures)
