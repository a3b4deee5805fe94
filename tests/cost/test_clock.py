"""The clock that a power cap leaves a device."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.cost.clock import VOLTAGE_FLOOR, VOLTAGE_SLOPE, clock_share, under_cap


@given(active=st.floats(0.01, 1.0))
def test_the_share_draws_what_it_may(active):
    share = clock_share(active)
    voltage = max(VOLTAGE_FLOOR, 1 - VOLTAGE_SLOPE * (1 - share))
    assert share * voltage**2 == pytest.approx(active, rel=1e-6)
    # Voltage falls with the clock, so less power costs less speed.
    assert share >= active - 1e-9


def test_many_caps_at_once_are_each_their_own():
    active = np.array([0.2, 0.5, 0.9, 1.0, 2.0])
    np.testing.assert_allclose(clock_share(active), [clock_share(float(a)) for a in active])
    assert clock_share(2.0) == 1.0


def _capped(scenario, watts):
    return replace(scenario, cluster=replace(scenario.cluster, power_cap_w=watts))


def _generation():
    workload = {"task": "generate", "batch": 1, "prompt_tokens": 2048, "output_tokens": 64}
    return sl.load({"model": "llama-2-7b", "cluster": "1x h100-sxm-80gb", "workload": workload})


def test_without_a_lower_cap_nothing_changes():
    scenario = _generation()
    assert under_cap(scenario.cluster) is scenario.cluster
    assert sl.predict(_capped(scenario, 700.0)).ttft_s == sl.predict(scenario).ttft_s


def test_a_cap_is_applied_once():
    capped = _capped(_generation(), 350.0).cluster
    slower = under_cap(capped)
    assert slower.power_cap_w is None
    assert slower.device.peak_flops["bf16"] < capped.device.peak_flops["bf16"]
    assert under_cap(slower) is slower


def test_a_cap_of_half_the_power_slows_prefill_and_hardly_decoding():
    scenario = _generation()
    free, capped = sl.predict(scenario), sl.predict(_capped(scenario, 350.0))
    assert 1.15 < capped.ttft_s / free.ttft_s < 1.6
    assert 1.0 <= capped.tpot_s / free.tpot_s < 1.05
    assert capped.energy_j < free.energy_j


def test_a_lower_cap_is_never_quicker_and_utilization_stays_of_the_datasheet():
    scenario = sl.load(
        {
            "model": "llama-2-7b",
            "cluster": "8x a100-sxm-80gb",
            "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 16},
            "plan": {"zero_stage": 2, "micro_batch": 2},
        }
    )
    steps = [sl.predict(_capped(scenario, watts)) for watts in (400.0, 300.0, 200.0, 120.0)]
    times = [s.step_time_s for s in steps]
    assert times == sorted(times)
    assert times[-1] > 1.3 * times[0]
    assert steps[0].peak_flops == steps[-1].peak_flops == 312e12


def test_an_operator_is_capped_as_a_step_is():
    keys = {"task": "operator", "operator": "matmul", "m": 8192, "n": 8192, "k": 8192, "dtype": "bf16"}
    free = sl.load({"cluster": "1x a100-sxm-80gb", "workload": keys})
    ratio = sl.predict(_capped(free, 200.0)).time_s / sl.predict(free).time_s
    assert ratio == pytest.approx(1 / clock_share((200 - 60) / (400 - 60)), rel=0.05)
