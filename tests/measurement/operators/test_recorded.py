"""Operators as training calls them: recorded forward passes and backward passes run, of every chain of the suite."""

import pytest

from sightline.errors import InputError
from sightline.loading import operation_from_mapping
from sightline.measurement.operators import operator_suite
from sightline.measurement.operators.operator_suite import asked, measure_operator, standard_suite
from sightline.measurement.timing import Rule

BRIEFEST = Rule(warm_up_s=0.0, block=1, drift=1.0, precision=1.0, least=1, most=2, longest_s=0.0)


def smallest() -> list[dict[str, object]]:
    """The suite's smallest operator of every kind and way."""
    found: dict[tuple[object, ...], dict[str, object]] = {}
    for mapping in standard_suite("fp32", quick=True):
        what = asked(mapping)
        key = (mapping["workload"]["operator"], what.get("implementation"))
        found.setdefault(key, what)
    return list(found.values())


@pytest.mark.parametrize(
    "what", smallest(), ids=lambda w: f"{w['scenario']['workload']['operator']}-{w.get('implementation')}"
)
def test_every_kind_of_the_suite_runs(what) -> None:
    pytest.importorskip("torch")
    scenario = operation_from_mapping(what["scenario"])
    profile = measure_operator(scenario, what.get("implementation"), BRIEFEST, cached=what.get("cached", False))
    assert profile.time_s > 0
    assert not what.get("cached") or profile.measurement["sets"] == 1 or scenario.workload.operator == "adam"


def test_caches_are_flushed_before_each_call_of_one_set_of_operands(monkeypatch) -> None:
    pytest.importorskip("torch")
    flushes: list[int] = []
    monkeypatch.setattr(operator_suite, "cache_flush", lambda _: lambda: flushes.append(1))
    mapping = {"cluster": "this-machine", "workload": {"task": "operator", "operator": "residual", "elements": 2**16}}
    scenario, rule = operation_from_mapping(mapping), Rule(warm_up_s=0.05, least=5, most=10)
    warm = measure_operator(scenario, "recorded", rule, cached=True)
    assert not flushes
    cold = measure_operator(scenario, "recorded", rule, flushed=True)
    assert len(flushes) == cold.measurement["repeats"] + cold.measurement["warm_up"]
    assert (warm.measurement["flushed"], cold.measurement["flushed"]) == (False, True)
    assert warm.measurement["sets"] == cold.measurement["sets"] == 1


def test_a_kernel_without_a_backward_pass_says_so() -> None:
    pytest.importorskip("torch")
    mapping = {"cluster": "this-machine", "workload": {"task": "operator", "operator": "copy", "elements": 64}}
    with pytest.raises(InputError, match="copy does not support"):
        measure_operator(operation_from_mapping(mapping), "backward", BRIEFEST)
