"""Results are remembered by what their arguments say, and not for ever."""

import copy
import json
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.content import FixedMapping, LargeArrayError, Results, content, forget, remembered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Described:
    number: Any = 1.0
    numbers: dict[str, Any] = field(default_factory=dict)


VALUES = st.one_of(st.floats(allow_nan=False), st.text(max_size=3), st.lists(st.integers(), max_size=3).map(np.array))


@given(one=VALUES, other=VALUES)
def test_keys_are_equal_where_contents_are(one, other):
    keys = [content(Described(number=x, numbers={"a": x}), 10) for x in (one, other, one)]
    assert keys[0] == keys[2]
    assert hash(keys[0]) == hash(keys[2])
    same = np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype
    assert (keys[0] == keys[1]) == same


def test_large_arrays_have_no_key():
    described = Described(number=np.ones(3))
    assert content(described, 3) == content(Described(number=np.ones(3)), 3)
    with pytest.raises(LargeArrayError):
        content(described, 2)


def test_what_was_used_last_is_kept():
    held: Results[str] = Results(entries=2, kind="test")
    for name in "ab":
        held.put(name, name)
    held.get("a")
    held.put("c", "c")
    assert [held.get(name) for name in "abc"] == ["a", None, "c"]
    forget("test")
    assert held.get("a") is None


def test_a_function_is_called_once_for_arguments_that_say_the_same():
    calls = []

    @remembered(entries=4, kind="test")
    def double(x: Described) -> float:
        calls.append(x)
        return 2.0 * x.number

    assert double(Described(number=2.0)) == double(Described(number=2.0)) == 4.0
    assert len(calls) == 1
    assert double(Described(number=np.ones(2))) is not double(Described(number=np.ones(2)))
    assert len(calls) == 3


TRAINING = {
    "model": "llama-2-7b",
    "cluster": "8x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 16},
    "plan": {"zero_stage": 2, "micro_batch": 2},
}
GENERATION = {
    "model": "llama-2-7b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 1, "prompt_tokens": 2048, "output_tokens": 64},
}


def _halved(scenario):
    device = scenario.cluster.device
    peaks = {dtype: rate / 2 for dtype, rate in device.peak_flops.items()}
    return replace(scenario, cluster=replace(scenario.cluster, device=replace(device, peak_flops=peaks)))


@pytest.mark.parametrize(("document", "metric"), [(TRAINING, "step_time_s"), (GENERATION, "ttft_s")])
def test_a_mapping_of_a_description_cannot_be_changed_and_another_is_predicted_anew(document, metric):
    scenario = sl.load(document)
    before = getattr(sl.predict(scenario), metric)
    with pytest.raises(TypeError, match=r"dataclasses\.replace"):
        scenario.cluster.device.peak_flops["bf16"] /= 2
    assert getattr(sl.predict(scenario), metric) == before
    assert getattr(sl.predict(_halved(scenario)), metric) > before


def test_a_description_does_not_follow_the_dictionary_it_was_made_of():
    device = sl.load(TRAINING).cluster.device
    peaks = dict(device.peak_flops)
    made = replace(device, peak_flops=peaks)
    peaks["bf16"] /= 2
    assert made.peak_flops == device.peak_flops != peaks


@pytest.mark.parametrize("document", [TRAINING, GENERATION])
def test_no_description_holds_what_can_be_changed(document):
    def held(value):
        yield value
        if is_dataclass(value):
            parts = [getattr(value, f.name) for f in fields(value)]
        else:
            parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()
        for part in parts:
            yield from held(part)

    everything = list(held(sl.load(document)))
    assert sum(type(x) is FixedMapping for x in everything) > 3
    assert [x for x in everything if isinstance(x, dict | list | set) and type(x) is not FixedMapping] == []


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_as_fixed(copied):
    device = sl.load(TRAINING).cluster.device
    again = copied(device)
    assert content(again, 0) == content(device, 0)
    assert type(again.peak_flops) is FixedMapping
    assert json.loads(json.dumps(asdict(again))) == json.loads(json.dumps(asdict(device)))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.update(a=2),
        lambda x: x.pop("a"),
        lambda x: x.popitem(),
        lambda x: x.clear(),
        lambda x: x.setdefault("b", 1),
        lambda x: x.__delitem__("a"),
        lambda x: x.__ior__({"a": 2}),
        lambda x: x["of"].update(b=2),
    ],
)
def test_a_fixed_mapping_stays_as_it_is(change):
    fixed = FixedMapping({"a": 1, "of": {"b": 1}})
    with pytest.raises(TypeError):
        change(fixed)
    assert fixed == {"a": 1, "of": {"b": 1}}
    assert type(fixed | {"c": 1}) is dict


def test_an_array_that_changes_in_place_has_another_key():
    described = Described(number=np.ones(3))
    before = content(described, 3)
    described.number[0] = 2.0
    assert content(described, 3) != before
