"""Whatever the model: its plan is launched, or what stands in the way is said in sentences."""

import pytest
from launching.launched import asked, possible

from sightline import catalog
from sightline.errors import InputError
from sightline.launching import write
from sightline.launching.registry import WRITERS

MODELS = sorted(catalog.names("models"))[::4]
TASKS = {"torchtune": "finetune"}


@pytest.mark.parametrize("framework", WRITERS)
def test_every_model_is_launched_or_refused(framework):
    launched = 0
    for name in MODELS:
        scenario = possible(
            {"framework": framework}, model=name, cluster="8x h100-sxm-80gb", task=TASKS.get(framework, "pretrain")
        )
        if scenario is None:
            continue
        launch = _launch(scenario)
        if isinstance(launch, InputError):
            assert all(name in problem for problem in launch.problems)
            continue
        launched += 1
        assert launch.framework == framework
        assert all(text.strip() for text in launch.files.values())
    assert launched >= 5


@pytest.mark.parametrize("framework", WRITERS)
def test_nothing_of_a_default_plan_is_left_out(framework):
    scenario = asked({"framework": framework}, model="llama-3.1-8b", task=TASKS.get(framework, "pretrain"))
    assert not [s for s in write(scenario).without_counterpart if s.startswith("plan.") and "argument" in s]


@pytest.mark.parametrize("framework", WRITERS)
def test_what_is_left_out_is_said(framework):
    scenario = asked(
        {"framework": framework, "expert_skew": 0.25}, model="llama-3.1-8b", task=TASKS.get(framework, "pretrain")
    )
    (said,) = [s for s in write(scenario).without_counterpart if s.startswith("plan.expert_skew")]
    assert said.startswith("plan.expert_skew is 0.25: ")


def _launch(scenario):
    try:
        return write(scenario)
    except InputError as error:
        return error
