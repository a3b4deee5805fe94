"""What people ask of plans that serve a load, and what of it makes no sense."""

import pytest
from planning.serving.questions import QUESTION

from sightline.errors import InputError
from sightline.planning.search import plan


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"objective": "latency"}, "objective is 'latency'; allowed of serving: goodput, cost, users, energy"),
        ({"overrides": {"workload.slo": None}}, "workload.slo is missing"),
        ({"overrides": {"plan.disaggregate": True}}, "plan.disaggregate is stated"),
        ({"pareto": ["cost", "users"]}, "pareto is for training and workload.task generate"),
        ({"deadline": "30d"}, "deadline is for training; a load has no end; workload.task is serve"),
        ({"max_memory": "70 GB"}, "plan.memory_fraction"),
        ({"budget": "1M"}, "objective cost finds the least rent"),
        ({"workers": "local"}, "runs in one process"),
        ({"think_time": "soon"}, "think_time"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, sentence) -> None:
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        plan(QUESTION, **asked)


def test_only_engines_that_can_be_launched() -> None:
    with pytest.raises(InputError, match="for which no launch is written"):
        plan({**QUESTION, "plan": {"framework": "mlc"}}, launchable=True)
