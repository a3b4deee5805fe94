"""What ``predict`` says where a plan does not fit and no single change helps."""

from training_scenarios import training

import sightline as sl
from sightline.planning.unfit import nearest_to

TOO_LARGE = {"model": "llama-3-8b", "cluster": "1x rtx-4090", "global_batch": 8, "plan": {"framework": "transformers"}}


def test_where_a_single_change_is_enough_no_other_is_looked_for(monkeypatch):
    def never(*_):
        raise AssertionError("a search was started")

    monkeypatch.setattr("sightline.planning.unfit._nearest", never)
    plan = {"framework": "deepspeed", "zero_stage": 1, "micro_batch": 8}
    single = sl.predict(
        training(model="llama-2-7b", cluster="8x a100-sxm-80gb", sequence_length=4096, global_batch=64, plan=plan)
    )
    fitting = sl.predict(training(model="gpt-125m", plan={"micro_batch": 1}))
    assert (single.fits, fitting.fits) == (False, True)
    assert not nearest_to(single)
    assert not nearest_to(fitting)
    nearest_to(sl.predict(training(**TOO_LARGE)))  # nothing runs before it is read


def test_predict_and_plan_lead_to_the_same_plans():
    stated = {"framework": "transformers", "micro_batch": 1, "recompute": "none", "offload": "none", "zero_stage": 0}
    stated |= {"compile": False}
    work = {"task": "finetune", "sequence_length": 1024, "global_batch": 8}
    asked = {
        "model": "llama-2-7b",
        "cluster": "1x rtx-4090",
        "workload": work,
        "plan": {**stated, "attention": "flash"},
    }
    predicted, searched = sl.predict(sl.load(asked)), sl.plan(asked)
    assert (predicted.fits, searched.plans) == (False, [])
    assert "sightline plan" in predicted.advice[-1]
    near = searched.nearest
    assert [one.set for one in nearest_to(predicted)] == [one.set for one in near]
    assert all(one.plan.profile.fits and one.plan.launchable for one in near)
