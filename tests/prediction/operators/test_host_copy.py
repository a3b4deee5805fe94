"""Copies between host and device: over the host's link, pinned or pageable."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.loading.operations import operation_from_mapping
from sightline.prediction import predict
from sightline.scenario import HostCopyOperation, OperatorScenario

ELEMENTS = 2**29


def asked(cluster: Any = "1x a100-sxm-80gb", **workload: Any) -> OperatorScenario:
    stated = {"task": "operator", "operator": "copy", "elements": ELEMENTS, **workload}
    return operation_from_mapping({"cluster": cluster, "workload": stated})


@pytest.mark.parametrize("direction", ["host-to-device", "device-to-host"])
def test_a_pinned_copy_goes_at_what_the_host_exchanges_with_a_device(direction):
    scenario = asked(direction=direction)
    assert isinstance(scenario.workload, HostCopyOperation)
    profile = predict(scenario)
    assert profile.bytes == 2 * ELEMENTS
    assert profile.bytes / profile.time_s == pytest.approx(scenario.cluster.host.device_bandwidth, rel=0.01)
    assert profile.bound == "network"
    assert profile.interval["time_s"][0] < profile.time_s < profile.interval["time_s"][1]


def test_pageable_memory_waits_for_a_thread():
    pinned, pageable = (asked(direction="host-to-device", host_memory=kind) for kind in ("pinned", "pageable"))
    assert predict(pageable).time_s > 2 * predict(pinned).time_s
    host = replace(pageable.cluster.host, speed=2.0)
    faster = replace(pageable, cluster=replace(pageable.cluster, host=host))
    assert predict(faster).time_s == pytest.approx(predict(pageable).time_s / 2, rel=0.01)


def test_small_copies_take_their_start_and_arrays_are_answered_alike():
    scenario = asked(direction="device-to-host")
    sizes = np.array([1.0, 2.0**20, 2.0**30])
    times = predict(replace(scenario, workload=replace(scenario.workload, elements=sizes))).time_s
    assert 1e-6 < times[0] < 1e-4
    for size, time_s in zip(sizes, times, strict=True):
        alone = predict(replace(scenario, workload=replace(scenario.workload, elements=float(size)))).time_s
        assert alone == pytest.approx(time_s)


def test_within_a_device_a_copy_is_a_kernel_as_ever():
    plain, stated = asked(), asked(direction="device-to-device")
    assert not isinstance(stated.workload, HostCopyOperation)
    assert predict(stated).time_s == predict(plain).time_s < predict(asked(direction="host-to-device")).time_s / 10


def test_where_the_memory_is_the_host_s_a_copy_stays_in_it():
    plain, across = (asked("this-machine", **more) for more in ({}, {"direction": "host-to-device"}))
    assert predict(across).time_s == predict(plain).time_s


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        ({"direction": "host-to-devise"}, "did you mean 'host-to-device'"),
        ({"direction": "host-to-device", "host_memory": "locked"}, "workload.host_memory"),
        ({"host_memory": "pageable"}, "with direction device-to-device"),
        ({"operator": "norm", "direction": "host-to-device"}, "direction is not a known key"),
    ],
)
def test_wrong_keys_are_named(workload, sentence):
    with pytest.raises(InputError, match=sentence):
        asked(**workload)
