"""What is on record about the machine."""

import json
import os
import time

import pytest

from sightline.measurement import hardware, machine
from sightline.measurement.hardware import CpuWatch

FIXED = "0, NVIDIA H200, GPU-1b, 570.86.15, 143771, 700.00, 1980, 3201, 5, 16, Enabled, Disabled, [N/A]\n"
CHANGING = "0, 345, 2619, 31, 77.5, 8, 4, 0x0000000000000004\n1, 345, [N/A], 30, 75.1, 0, 4, Not Active\n"


def test_this_machine_is_on_record_as_json():
    found = machine.record_environment()
    assert json.loads(json.dumps(found)) == found
    assert found["cpu"]["logical_cpus"] == os.cpu_count()
    assert 0 < found["cpu"]["allowed_cpus"] <= os.cpu_count()
    assert found["memory"]["total_bytes"] > found["memory"]["available_bytes"] > 0
    assert found["libraries"]["numpy"]
    now = machine.conditions()
    assert json.loads(json.dumps(now)) == now
    assert len(now["load_average"]) == 3


def test_settings_are_on_record_and_secrets_are_not(monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    found = machine.record_environment()
    assert found["variables"]["NCCL_ALGO"] == "Ring"
    assert "hush" not in json.dumps(found)


def test_gpus_are_read_as_the_driver_prints_them():
    gpu = hardware.parsed(FIXED, hardware._FIXED)[0]
    assert (gpu["index"], gpu["name"], gpu["driver"]) == (0, "NVIDIA H200", "570.86.15")
    assert gpu["memory_bytes"] == 143771 * 2**20
    assert (gpu["power_limit_w"], gpu["max_clock_hz"]) == (700, 1.98e9)
    assert "ecc" not in gpu


def test_gpu_conditions_say_what_slows_them(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{CHANGING}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    first, second = hardware.gpu_conditions()
    assert first["throttled"] == "the power cap"
    assert (first["temperature_c"], first["power_w"], first["utilization"]) == (31, 77.5, 0.08)
    assert "throttled" not in second
    assert "memory_clock_hz" not in second


def test_a_driver_that_fails_is_no_gpu(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert hardware.gpus() == []


def test_a_quota_of_the_control_group_counts(tmp_path, monkeypatch):
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    (tmp_path / "fs/cgroup/cpu.max").write_text("50000 100000\n")
    monkeypatch.setattr(hardware, "SYS", tmp_path)
    assert hardware.allowed_cpus() == 0.5
    (tmp_path / "fs/cgroup/cpu.max").write_text("max 100000\n")
    assert hardware.allowed_cpus() == len(os.sched_getaffinity(0))


def test_sockets_and_cores_are_counted(tmp_path, monkeypatch):
    block = "processor\t: {}\nmodel name\t: A CPU\nphysical id\t: {}\ncore id\t: {}\nflags\t: avx2 amx_bf16\n"
    cpus = [(socket, core) for socket in range(2) for core in range(4) for _ in range(2)]
    (tmp_path / "cpuinfo").write_text("\n".join(block.format(n, *cpu) for n, cpu in enumerate(cpus)))
    monkeypatch.setattr(hardware, "PROC", tmp_path)
    found = hardware.cpu()
    assert (found["model"], found["sockets"], found["cores"]) == ("A CPU", 2, 8)
    assert found["flags"] == ["avx2", "amx_bf16"]


def test_contention_is_said_in_sentences():
    idle = {"gpus": [{"index": 0, "utilization": 0.0}]}
    assert machine.contention(idle, idle, 0.02) == []
    busy = {"gpus": [{"index": 0, "utilization": 0.6}]}
    slowed = {"gpus": [{"index": 0, "throttled": "the power cap"}]}
    assert machine.contention(busy, slowed, 0.3) == [
        "other processes used 30 % of the CPU time",
        "GPU 0 was 60 % busy before it started",
        "GPU 0 slowed its clocks: the power cap",
    ]


def test_ones_own_work_is_not_others():
    watch, end = CpuWatch(), time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert watch.ours() >= 0.05


def test_others_have_what_of_the_busy_time_is_not_ours(monkeypatch):
    cpus = os.cpu_count()
    wall, busy, ours = [100.0], [50.0], [7.0]
    monkeypatch.setattr(hardware, "_busy", lambda: busy[0])
    monkeypatch.setattr(hardware, "_ours", lambda: ours[0])
    monkeypatch.setattr(hardware.time, "monotonic", lambda: wall[0])
    watch = CpuWatch()
    wall[0], busy[0], ours[0] = 110.0, 50.0 + 4.0 * cpus, 7.0 + 3.0 * cpus
    assert watch.others() == pytest.approx(0.1)
    ours[0] = 7.0 + 5.0 * cpus
    assert watch.others() == 0.0


def test_the_class_is_what_results_depend_on():
    found = machine.record_environment()
    known = machine.environment_class(found)
    assert machine.environment_class({**found, "host": "other", "folder": "/", "memory": {}}) == known
    other_libraries = {**found, "libraries": {**found["libraries"], "torch": "0"}}
    assert machine.environment_class(other_libraries) != known
