"""The command of a question is what a shell and the command line read back as the question."""

import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.loading.loader import read_overrides
from sightline.planning.request_spaces import plan_command

PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("runs/one.yaml", "runs/one.yaml"),
        (Path("my runs") / "one.yaml", "my runs/one.yaml"),
        ("-", "FILE"),
        ("model: gpt-125m\ncluster: 8x h100-sxm-80gb\n", "FILE"),
        ({"model": "gpt-125m"}, "FILE"),
    ],
)
def test_only_a_file_is_named(source, named):
    assert shlex.split(plan_command(source, (), (), {}, {})) == ["sightline", "plan", named]


def test_options_that_are_not_stated_are_left_out_and_switches_have_no_value():
    options = {"objective": "cost", "budget": None, "launchable": True, "pareto": False, "top": 0}
    assert plan_command("a.yaml", (), (), {}, options) == "sightline plan a.yaml --objective cost --launchable --top 0"


def test_devices_replace_the_stated_cluster():
    words = shlex.split(plan_command("a.yaml", ["cluster=8x a100-sxm-80gb"], ["16x h100-sxm-80gb"], {}, {}))
    settings = [after for before, after in pairwise(words) if before == "--set"]
    assert read_overrides(settings) == {"cluster": "16x h100-sxm-80gb"}


@given(value=PRINTABLE, price=st.floats(0.01, 1000))
def test_a_shell_reads_every_value_as_it_was_stated(value, price):
    words = shlex.split(plan_command("a.yaml", (), (), {value: price}, {"anchor": value}))
    assert words[3:5] == ["--anchor", value]
    name, _, paid = words[words.index("--price", 5) + 1].rpartition("=")
    assert name == value
    assert float(paid) == pytest.approx(price, rel=1e-4)
