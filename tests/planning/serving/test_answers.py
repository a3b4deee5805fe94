"""What is said of plans that serve a load: the nearest ones, charts, tables, launches."""

import json
from io import StringIO

import pytest
from planning.serving.questions import SMALL
from rich.console import Console

from sightline.answers import plan_columns, units
from sightline.answers.best_plans import plan_outline
from sightline.charts.plan_chart import plan_chart
from sightline.launching import write
from sightline.planning.plan_answer import plans_to_dict
from sightline.planning.search import plan
from sightline.render.terminal import outline_text


def test_an_objective_that_nobody_keeps_leads_to_the_nearest() -> None:
    found = plan(SMALL, top=1, tpot="1 ms")
    assert not found.plans
    assert found.feasible == 0
    near = found.nearest[0]
    assert set(near.set) == {"workload.slo.tpot"}
    assert near.sentence.startswith("no rate meets the SLO")
    assert near.command.endswith(f"--set 'workload.slo.tpot={near.set['workload.slo.tpot']}'")
    assert plan(SMALL, top=1, tpot=near.set["workload.slo.tpot"]).plans


@pytest.mark.parametrize("percentile", [50, 95])
def test_limits_are_drawn_against_the_percentile_that_has_to_keep_them(percentile) -> None:
    found = plan(SMALL, top=1, overrides={"workload.slo.percentile": percentile})
    drawn, times = json.dumps(plan_chart(found)), found.plans[0].profile.ttft_s
    assert f"P{percentile} of TTFT" in drawn
    assert units.seconds(times[f"p{percentile}"]) in drawn
    assert f"TTFT p{percentile}" in [column.heading for column in plan_columns.figures(found)]


def test_an_answer_is_shown_drawn_and_launched(answer) -> None:
    shown = StringIO()
    Console(width=140, file=shown).print(outline_text(plan_outline(answer)))
    text = shown.getvalue()
    assert all(heading in text for heading in ("capacity/device", "capacity", "users", "p90"))
    assert plan_chart(answer)
    document = plans_to_dict(answer)
    assert document["plans"][0]["goodput_requests_per_s_per_device"] == answer.plans[0].value
    rent = answer.plans[0].figures["usd_per_hour"]
    assert text.count(f"${rent:.2f} per hour") == 1
    assert "per million output tokens at the capacity" in text
    assert "cost per million tokens" not in text
    launched = write(answer.plans[0].profile.scenario)
    assert "vllm serve" in launched.command + " ".join(launched.files.values())
