"""Figures are required by their result key or by a short name; anything else is refused with the nearest name."""

import pytest

from sightline.errors import InputError
from sightline.profile import GENERATION, SERVING, TASKS, TRAINING
from sightline.profile.metrics import OPERATOR
from sightline.requirements.expression import figures_of, named, names, short


@pytest.mark.parametrize(
    ("task", "name", "key"),
    [
        (TRAINING, "fits", "fits"),
        (TRAINING, "mfu", "mfu"),
        (TRAINING, "MFU", "mfu"),
        (TRAINING, "step_time", "step_time_s"),
        (TRAINING, "step_time_s", "step_time_s"),
        (TRAINING, "memory", "memory_bytes.total"),
        (TRAINING, "memory_bytes.activations", "memory_bytes.activations"),
        (TRAINING, "memory.activations", "memory_bytes.activations"),
        (TRAINING, "phases.host", "phases.host"),
        (TRAINING, "tokens_per_s", "tokens_per_s"),
        (TRAINING, "cost", "cost_usd"),
        (TRAINING, "energy", "energy_j"),
        (GENERATION, "tokens_per_s", "output_tokens_per_s"),
        (GENERATION, "ttft", "ttft_s"),
        (SERVING, "ttft_p90", "ttft_s.p90"),
        (SERVING, "ttft_s.p90", "ttft_s.p90"),
        (SERVING, "goodput", "goodput_requests_per_s"),
        (SERVING, "capacity", "capacity_requests_per_s"),
        (SERVING, "cost_per_million_tokens", "cost_usd_per_million_tokens"),
        (OPERATOR, "bytes", "bytes"),
        (OPERATOR, "bound", "bound"),
    ],
)
def test_a_figure_has_its_key_and_a_short_name(task, name, key):
    assert named(name, figures_of(task), task.name).key == key


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_no_two_figures_of_a_task_have_the_same_short_name(task):
    figures = figures_of(task)
    assert len({short(key) for key in figures}) == len(figures)


@pytest.mark.parametrize(
    ("task", "name", "said"),
    [
        (TRAINING, "mfuu", "did you mean 'mfu'?"),
        (TRAINING, "ttft", "not a figure of task training; allowed: fits, step_time"),
        (SERVING, "ttft", "allowed: ttft_mean, ttft_p50, ttft_p90, ttft_p99"),
        (SERVING, "ttft_p95", "allowed: ttft_p50, ttft_p90, ttft_p99; add it with --set workload.slo.percentile=95"),
        (SERVING, "tpot_s.p99.9", "--set workload.slo.percentile=99.9"),
        (TRAINING, "step_time_p95", "not a figure"),
        (SERVING, "mfu", "ttft_mean/p50/p90/p99"),
        (OPERATOR, "fits", "not a figure of task operator"),
        (TRAINING, "", "not a figure"),
        (SERVING, "pools", "not a figure"),
    ],
)
def test_another_name_is_refused(task, name, said):
    with pytest.raises(InputError) as refused:
        named(name, figures_of(task), task.name)
    assert said in str(refused.value)


def test_times_of_a_load_have_the_percentile_of_its_objective():
    assert "ttft_s.p95" not in figures_of(SERVING)
    assert named("ttft_p95", figures_of(SERVING, 95.0), "serving").key == "ttft_s.p95"
    assert named("tpot_p99.9", figures_of(SERVING, 99.9), "serving").key == "tpot_s.p99.9"


def test_names_of_all_tasks_are_listed_once():
    assert {"fits", "mfu", "ttft_p90", "memory", "goodput"} <= set(names())
    assert len(names()) == len(set(names()))
