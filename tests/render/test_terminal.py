"""Predictions as text."""

from dataclasses import replace

import pytest
from generation_scenarios import generation
from rendered import profile_text, text

from sightline.answers import labels, summary
from sightline.answers.several import profiles_outline
from sightline.loading import load
from sightline.loading.operations import operation_from_mapping
from sightline.prediction.changes import RUNS_OUT_LATER
from sightline.profile import Profile
from sightline.render import terminal_parts


def test_one_prediction_says_everything_a_reader_asks(profile):
    text = profile_text(profile)
    for said in (
        "Llama-2-7B, ZeRO-2, 8 x A800",
        "1.25 s",
        "17,920 tokens/s",
        "compute",
        "yes · 60.0 of 80.0 GiB",
        "exposed communication",
        "300 ms",
        "24.0 %",
        "activations",
        "20.0 GiB",
        "2 T tokens",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("ends", "said", "fits"),
    [((50.0, 70.0), "yes · 60.0 of 80.0 GiB", "yes"), ((50.0, 80.5), "tight · 60.0 of 80.0 GiB", "tight")],
)
def test_memory_is_tight_where_its_interval_holds_the_limit(build, ends, said, fits):
    low, high = (end * 2**30 for end in ends)
    near = build(interval={"step_time_s": (1.0, 1.5), "memory_bytes.total": (low, high)})
    text = profile_text(near, 120)
    assert said in text
    assert f"80 %: {ends[0]:.1f} to {ends[1]:.1f} GiB" in text
    assert ("89 % likely to fit" in text) == near.tight
    assert (RUNS_OUT_LATER[:40] in text) == near.tight
    cells = {column.key: column.cells for column in summary.compared([near])}
    assert (cells["fits"], cells["interval"]) == ([fits], ["± 20 %"])


def test_what_takes_nothing_is_not_shown(profile, generation):
    training, generated = (profile_text(p) for p in (profile, generation))
    assert "bubble" not in training
    assert "KV cache" not in training
    assert "transfer" not in generated
    assert "gradients" not in generated


def test_what_would_fit_is_said(too_large):
    text = profile_text(too_large)
    assert "no · needs 1.4 x the memory of these devices: 110.0 of 80.0 GiB" in text
    assert "recompute full would fit" in text


def test_hosts_too_small_for_what_is_offloaded_are_told_from_devices(build):
    assert "host memory" in summary.times_of_memory(build(fits=False, host_fits=False))
    assert "host memory" not in profile_text(build(fits=True))


def test_a_measurement_is_set_against_the_prediction(build, make_scenario):
    measured = {"step_time_s": 1.0, "memory_bytes": {"total": 50 * 2**30}, "source": "a paper"}
    text = profile_text(build(scenario=replace(make_scenario(), measured=measured)), 120)
    assert "measured step_time_s 1.000 (a paper): predicted +25.0 %" in text
    assert "memory_bytes.total" in text
    assert "predicted +20.0 %" in text


def test_every_measured_key_is_compared_or_said_not_to_be(build, make_scenario):
    measured = {"memory_bytes": 50 * 2**30, "fits": True, "bottleneck": "host", "requests_per_s": 3.0, "note": "mine"}
    text = profile_text(build(scenario=replace(make_scenario(), measured=measured)), 200)
    assert "measured memory_bytes" in text
    assert "predicted +20.0 %" in text
    assert "measured fits true: predicted true" in text
    assert "measured bottleneck host: predicted compute" in text
    assert "measured requests_per_s: not predicted" in text
    assert "note" not in text


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("task", ["profile", "generation"])
def test_no_line_is_wider_than_the_terminal(task, width, request):
    text = profile_text(request.getfixturevalue(task), width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width


def test_labels_leave_out_what_a_scenario_does_not_have():
    scenarios = [generation(batch=1), generation(batch=8, plan={"speculative": {"tokens": 3, "acceptance": 0.7}})]
    assert labels.variant_labels(scenarios) == ["batch 1", "batch 8, tokens 3, acceptance 0.7"]


@pytest.mark.parametrize(
    ("sweep", "first"),
    [
        ({"plan.tensor_parallel": [1, 2], "workload.batch": [1, 8]}, "tensor_parallel 1, batch 1"),
        ({"workload.batch": [1, 8], "plan.tensor_parallel": [1, 2]}, "batch 1, tensor_parallel 1"),
    ],
)
def test_labels_of_a_sweep_have_its_order(sweep, first):
    work = {"task": "generate", "batch": 8, "prompt_tokens": 512, "output_tokens": 101}
    swept = load({"model": "llama-2-7b", "cluster": "2x h100-sxm-80gb", "workload": work}, sweeps=sweep)
    assert labels.variant_labels(swept)[0] == first


def test_labels_are_distinct_even_for_equal_scenarios(build):
    found = labels.variant_labels([build().scenario, build().scenario, build().scenario])
    assert len(set(found)) == 3


@pytest.mark.parametrize("width", [80, 60])
def test_no_figure_is_cut(too_large, too_large_generation, width):
    for profile, said in ((too_large, "110.0 of 80.0 GiB"), (too_large_generation, "2.45 min")):
        text = profile_text(profile, width)
        assert "…" not in text
        assert said in text
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width


def test_bars_grow_with_the_share():
    lengths = [len(terminal_parts.Bar(share, "blue").drawn().plain) for share in (0.0, 0.25, 0.5, 1.0)]
    assert lengths == sorted(lengths)
    assert lengths[-1] == terminal_parts.BAR_WIDTH


def test_measured_steps_are_listed_by_what_bounds_them_and_operators_by_what_ran(build):
    steps = [build(source="measured", measurement={"implementation": "ddp", "repeats": 3}) for _ in range(2)]
    assert "bound by" in text(profiles_outline(steps), 100)
    asked = {"task": "operator", "operator": "matmul", "m": 8, "n": 8, "k": 8}
    matmul = operation_from_mapping({"cluster": "1x a100-sxm-80gb", "workload": asked})
    how = {"implementation": "addmm", "repeats": 20}
    run = Profile(scenario=matmul, source="measured", time_s=1e-5, flops=1024.0, bytes=384.0, measurement=how)
    assert "made by addmm · evidence: 20 repeats" in text(profiles_outline([run, run]), 120)
    lines = text(profiles_outline([run, run.replace(measurement={**how, "implementation": "linear"})]), 120)
    assert [line.split()[-1] for line in lines.splitlines()[-2:]] == ["addmm", "linear"]
    assert "20 repeats" in lines


def test_communication_that_compute_hides_is_said_in_one_line_and_apart_from_the_time(profile):
    row = replace(profile.rows[0], phase="communication_exposed", module="data parallel", time_s=0.5, exposed_s=0.3)
    (line,) = [
        one for one in profile_text(profile.replace(rows=[*profile.rows, row])).splitlines() if "overlapped" in one
    ]
    assert line.split()[2:5] == ["200", "ms", "16.0"]
    assert "overlapped" not in profile_text(profile)


def test_a_module_of_training_is_named_once_and_collectives_apart(profile):
    row = replace(profile.rows[0], phase="communication_exposed", module="data parallel", time_s=0.3, exposed_s=0.3)
    named = {part.label: part.value for part in summary.longest_modules(profile.replace(rows=[*profile.rows, row]))}
    assert named["mlp"] == pytest.approx(0.48)
    assert named["communication: data parallel"] == pytest.approx(0.3)
    assert list(named.values()) == sorted(named.values(), reverse=True)


@pytest.mark.parametrize("example", ["gpt-3-175b-1024xa100", "mixtral-8x7b-expert-parallel-16xh100"])
def test_a_prediction_of_training_is_one_screen(example):
    import sightline as sl

    assert len(profile_text(sl.predict(sl.load(f"examples/{example}.yaml"))).splitlines()) <= 42
