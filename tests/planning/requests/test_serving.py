"""What people ask of plans that serve a load, and what of it makes no sense."""

import pytest
from planning.serving.questions import QUESTION

from sightline.errors import InputError
from sightline.planning.search import plan


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"objective": "latency"}, "objective is 'latency'; allowed for serving: goodput, cost, users, energy"),
        ({"overrides": {"workload.slo": None}}, "workload.slo is missing"),
        ({"pareto": ["cost", "users"]}, "pareto applies to training and workload.task generate"),
        ({"deadline": "30d"}, "deadline applies to training"),
        ({"max_memory": "70 GB"}, "plan.memory_fraction"),
        ({"budget": "1M"}, "objective cost"),
        ({"workers": "local"}, "one process"),
        ({"think_time": "soon"}, "think_time"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, sentence) -> None:
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        plan(QUESTION, **asked)
