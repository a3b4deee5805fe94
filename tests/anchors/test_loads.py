"""Measured loads as anchors: logs of requests, means, saved ones, and what is refused."""

from dataclasses import replace
from pathlib import Path

import polars
import pytest
from serving_scenarios import serving

import sightline as sl
from sightline.anchors.corrected import anchored
from sightline.anchors.sources import save
from sightline.errors import InputError
from sightline.loading import to_mapping
from sightline.simulation.results.summary import request_table
from sightline.simulation.server import server_of

SCENARIO = serving(count=60, arrival={"process": "poisson", "rate": 6.0}, output_tokens=40)
TIMED = {
    "arrival_s": [1.0], "prompt_tokens": [5], "output_tokens": [5], "first_token_s": [2.0], "last_token_s": [3.0]
}  # fmt: skip


@pytest.fixture(scope="module")
def outcome():
    """What became of the load at a server that is slower than predicted."""
    return server_of(SCENARIO).at_pace(1.2, 1.2).serve(SCENARIO)


def of_log(folder: Path, table: polars.DataFrame) -> dict:
    table.write_csv(folder / "log.csv")
    return {**to_mapping(SCENARIO), "measured": {"requests": str(folder / "log.csv")}, "name": "log"}


def tpot(known) -> float:
    return sl.simulate(SCENARIO, anchor=known, intervals=False).tpot_s["mean"]


def test_a_log_and_its_saved_anchor_teach_the_same(outcome, tmp_path):
    table = request_table(outcome)
    known = anchored(of_log(tmp_path, table))
    save(known, "ours", str(tmp_path / "runs"))
    again = anchored("ours", str(tmp_path / "runs"))
    real = table["tpot_s"].mean()
    assert tpot(known) == pytest.approx(real, rel=0.03)
    assert tpot(again) == pytest.approx(tpot(known), rel=0.01)
    assert tpot(()) < 0.9 * real


@pytest.mark.parametrize(("first", "further"), [(1.3, 1.3), (0.95, 1.3), (3.0, 0.98)])
def test_a_load_anchored_with_itself_lies_between_prediction_and_measurement(first, further):
    before = sl.simulate(SCENARIO, intervals=False)
    measured = {"ttft_s": first * before.ttft_s["mean"], "tpot_s": further * before.tpot_s["mean"]}
    after = sl.simulate(SCENARIO, anchor={**to_mapping(SCENARIO), "measured": measured}, intervals=False)
    for key, seconds in measured.items():
        low, high = sorted((seconds, getattr(before, key)["mean"]))
        assert 0.985 * low <= getattr(after, key)["mean"] <= 1.015 * high


def test_times_from_arrival_say_the_same_as_times_of_a_clock(outcome, tmp_path):
    table = request_table(outcome)
    clock, since = (table.drop(*names) for names in (("ttft_s", "latency_s"), ("first_token_s", "last_token_s")))
    one, other = (anchored(of_log(tmp_path, of)).anchors[0].loads[0] for of in (clock, since))
    assert one.last_token_s == pytest.approx(other.last_token_s)


def test_words_and_numbers_tell_prefixes_of_a_log_apart(outcome, tmp_path):
    table, third = request_table(outcome), polars.int_range(60, eager=True) % 3
    words = third.replace_strict({0: "chat", 1: "code", 2: None}, return_dtype=polars.String)
    numbers = third.replace_strict({0: 7.0, 1: 3.0, 2: None}, return_dtype=polars.Float64)
    for ids in (words, numbers):
        found = anchored(of_log(tmp_path, table.with_columns(prefix_id=ids))).anchors[0].loads[0].requests
        assert found.prefix_id.tolist() == [0, 1, -1] * 20


def test_a_measured_profile_teaches(outcome):
    profile = sl.Profile(scenario=SCENARIO, source="measured", outcome=outcome)
    assert tpot([profile]) == pytest.approx(request_table(outcome)["tpot_s"].mean(), rel=0.03)


def test_stated_means_teach_and_other_keys_are_unused(outcome):
    real = request_table(outcome)["tpot_s"].mean()
    stated = replace(SCENARIO, measured={"tpot_s": {"mean": real}, "completed": 60}, name="stated")
    known = anchored(stated)
    assert known.to_dicts("generation")[0]["unused"] == ["completed"]
    assert tpot(known) == pytest.approx(real, rel=0.05)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"arrival_s": [0.0], "prompt_tokens": [5]}, "lacks the column output_tokens"),
        ({"arrival_s": [0.0], "prompt_tokens": [5], "output_tokens": [5]}, "has no column first_token_s"),
        ({"arrival_s": ["soon"], "prompt_tokens": [5], "output_tokens": [5]}, "line 2: arrival_s is 'soon'"),
        ({"arrival_s": [0.0, None], "prompt_tokens": [5, 5], "output_tokens": [5, 5]}, "line 3: arrival_s is empty"),
        (TIMED | {"arrival_s": [1e300]}, "arrival_s is '1e.300'; .* up to 1e"),
        (TIMED | {"output_tokens": [-1]}, "output_tokens is '-1'"),
        (TIMED | {"first_token_s": [0.5]}, "line 2 .* first token before its arrival"),
        (TIMED | {"last_token_s": [1.5]}, "line 2 .* last token before its first"),
    ],
)
def test_a_log_that_says_too_little_is_refused(table, said, tmp_path):
    with pytest.raises(InputError, match=said):
        anchored(of_log(tmp_path, polars.DataFrame(table)))


def test_a_log_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("")
    with pytest.raises(InputError, match=r"did you mean 'log.csv'"):
        anchored(replace(SCENARIO, measured={"requests": str(tmp_path / "lok.csv")}))


def test_a_foreign_server_is_refused(outcome):
    profile = sl.Profile(scenario=SCENARIO, source="measured", outcome=outcome)
    for other in (serving(cluster="1x a100-sxm-80gb"), serving(plan={"framework": "sglang"})):
        with pytest.raises(InputError, match="vllm on h100-sxm-80gb"):
            sl.simulate(other, anchor=[profile])


def test_what_says_no_time_is_refused():
    with pytest.raises(InputError, match="requests"):
        anchored(replace(SCENARIO, measured={"completed": 3.0}))
