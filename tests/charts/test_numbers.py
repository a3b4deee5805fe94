"""The numbers in charts: that they are those of the answer, in SI units under names that say so."""

import csv
import io
from dataclasses import replace
from functools import cache

import polars as pl
import pytest
from chart_answers import ANSWERS, GENERATION, LOAD, training
from drawn_charts import texts

import sightline as sl
from sightline.charts import index
from sightline.charts.rendering import data_of
from sightline.charts.study_charts import swept_chart
from sightline.render.csv import csv_of

OF_MARKS = {"x", "y", "x2", "y2", "start", "end", "low", "high", "value", "t", "time", "top", "bottom", "at", "alone"}
"""Names of columns that say where a mark stands, not what it is."""


def tables(answer):
    return {chart.name: chart.table for chart in index.charts_of(answer)}


@cache
def tables_of(answer):
    """Of an answer by its name."""
    return tables(ANSWERS[answer]())


def table(answer, name):
    return tables_of(answer)[name]


@pytest.mark.parametrize("answer", ANSWERS)
def test_columns_say_what_they_are_and_not_where_marks_stand(answer):
    for name, rows in tables_of(answer).items():
        assert not OF_MARKS & {column for row in rows for column in row}, name


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_row_says_in_words_what_it_is_of(answer):
    for name, rows in tables_of(answer).items():
        if name not in ("heat-map", "study"):
            assert all(any(isinstance(value, str) for value in row.values()) for row in rows), name


@pytest.mark.parametrize("answer", ["step", "generation", "load", "devices", "batches", "rates"])
def test_parts_sum_to_the_whole_of_the_answer(answer):
    found = ANSWERS[answer]()
    profiles = found if isinstance(found, list) else [found]
    of_profile = tables_of(answer)
    times = [row for row in of_profile["time"] if "part" in row and row.get("panel") != "Device time by module"]
    memory = [row for row in of_profile["memory"] if "part" in row]
    for rows, unit, wholes in (
        (times, "s", [float(one.whole_s) for one in profiles]),
        (memory, "bytes", [float(one.memory_bytes["total"]) for one in profiles]),
    ):
        ends = {}
        for row in rows:
            ends[row["row"]] = max(ends.get(row["row"], 0.0), row[f"end_{unit}"])
        for whole in wholes:
            assert any(end == pytest.approx(whole, rel=1e-9) for end in ends.values())


@pytest.mark.parametrize("answer", ["step", "devices", "load"])
def test_memory_has_what_may_be_filled(answer):
    found = ANSWERS[answer]()
    profiles = found if isinstance(found, list) else [found]
    said = [row["usable_bytes"] for row in table(answer, "memory") if "usable_bytes" in row]
    assert said == pytest.approx([float(one.usable_bytes) for one in profiles])


def test_a_batch_has_its_figures_and_their_intervals_as_in_json():
    for profile in ANSWERS["batches"]():
        (row, *_) = [
            row for row in table("batches", "throughput-latency") if row["batch"] == profile.scenario.workload.batch
        ]
        result = profile.to_dict()
        for key in ("tpot_s", "ttft_s", "output_tokens_per_s"):
            assert row[key] == pytest.approx(result[key])
            assert (row[f"{key}.low"], row[f"{key}.high"]) == pytest.approx(tuple(result["interval"][key]))


def test_shares_of_requests_rise_to_all_of_them():
    for panel in ("Time to first token", "Time per output token", "Latency"):
        rows = [row for row in table("load", "latency") if row["panel"] == panel and "share" in row]
        assert [row["share"] for row in rows] == sorted(row["share"] for row in rows)
        assert [row["time_s"] for row in rows] == sorted(row["time_s"] for row in rows)
        assert rows[-1]["share"] == pytest.approx(1.0)


def test_the_cache_is_at_most_full():
    used = [row["kv_use"] for row in table("load", "over-time") if "kv_use" in row]
    assert used
    assert all(0 <= share <= 1 for share in used)


def test_roofs_are_named_and_no_operator_is_above_the_highest():
    rows = table("step", "roofline")
    roofs = {row["roof"] for row in rows if "roof" in row}
    assert {"DRAM", "L2", "bf16 peak"} <= roofs
    l2 = next(row["flop_per_s"] / row["flop_per_byte"] for row in rows if row.get("roof") == "L2")
    points = [row for row in rows if "operator" in row]
    assert all(row["flop_per_s"] <= 1.01 * l2 * row["flop_per_byte"] for row in points)


def test_the_longest_bar_of_a_sensitivity_comes_first_in_each_panel():
    by_panel = {}
    for row in table("sensitivity", "tornado"):
        by_panel.setdefault(row["panel"], []).append(abs(row["elasticity"]))
    assert all(found == sorted(found, reverse=True) for found in by_panel.values())


def test_a_map_names_its_axes_and_says_what_does_not_fit():
    profiles = ANSWERS["sweep"]()
    changed = [profiles[0].replace(fits=False), *profiles[1:]]
    (before, after) = (tables(found)["heat-map"] for found in (profiles, changed))
    assert {"tensor_parallel", "micro_batch", "tokens_per_s"} == set(before[0])
    assert len(after) == len(before) - 1
    chart = next(one for one in index.charts_of(changed) if one.name == "heat-map")
    assert "does not fit" in texts(chart.wide)


def test_a_sweep_of_one_key_is_a_line_with_its_band_and_of_two_a_map():
    profiles = ANSWERS["sweep"]()
    cells = [
        {f"plan.{name}": getattr(one.scenario.plan, name) for name in ("tensor_parallel", "micro_batch")}
        for one in profiles
    ]
    assert swept_chart((profiles, cells)) == index.chart_of("heat-map", profiles)
    chosen = [at for at, cell in enumerate(cells) if cell["plan.tensor_parallel"] == cells[0]["plan.tensor_parallel"]]
    own = [profiles[at] for at in chosen]
    rows = data_of(swept_chart((own, [{"plan.micro_batch": cells[at]["plan.micro_batch"]} for at in chosen])))
    assert {row["micro_batch"]: row["tokens_per_s"] for row in rows} == {
        int(one.scenario.plan.micro_batch): pytest.approx(one.tokens_per_s) for one in own
    }
    assert all(row["tokens_per_s.low"] < row["tokens_per_s"] < row["tokens_per_s.high"] for row in rows)
    words = [{"cluster": str(at)} for at in range(len(own))]
    assert swept_chart((own, words), key="step_time_s")
    assert swept_chart((own, [{"cluster": "one"}] * len(own))) is None


def test_scaling_tells_what_does_not_fit():
    profiles = ANSWERS["devices"]()
    changed = [profiles[0].replace(fits=False), *profiles[1:]]
    chart = next(one for one in index.charts_of(changed) if one.name == "scaling")
    assert any(one.startswith("Hollow points") for one in chart.wide["title"]["subtitle"])
    assert [row["fits"] for row in chart.table].count(False) >= 1


def test_a_single_output_token_has_no_curve_over_the_time_between_tokens():
    mapping = GENERATION | {"workload": GENERATION["workload"] | {"output_tokens": 1}}
    found = [sl.predict(one) for one in sl.load(mapping, (), {"workload.batch": [1, 4, 16]})]
    assert set(tables(found)) == {"time", "memory"}


def test_rates_at_which_nothing_is_answered_are_left_out():
    mapping = LOAD | {"model": "llama-2-70b", "cluster": "1x rtx-4090"}
    found = [sl.simulate(one) for one in sl.load(mapping, (), {"workload.arrival.rate": [1, 2, 4]})]
    assert "throughput-latency" not in tables(found)


def test_whether_something_fits_is_true_or_false_to_readers_of_csv():
    chart = next(one for one in index.charts_of(ANSWERS["batches"]()) if one.name == "throughput-latency")
    assert pl.read_csv(io.StringIO(csv_of(chart.wide)))["fits"].dtype == pl.Boolean


def test_names_of_any_kind_are_read_back_by_csv_and_by_polars():
    name = 'Zürich, 東京 | "a" <b>'
    profile = sl.predict(replace(training(), name=name))
    other = sl.predict(replace(training(micro_batch=2), name="second"))
    chart = next(one for one in index.charts_of([profile, other]) if one.name == "time")
    text = csv_of(chart.wide)
    assert name in {row["row"] for row in csv.DictReader(io.StringIO(text))}
    frame = pl.read_csv(io.StringIO(text))
    assert frame["end_s"].dtype == pl.Float64
    assert name in frame["row"].to_list()
    whole = frame.filter(pl.col("row") == name)["end_s"].max()
    assert whole == pytest.approx(float(profile.step_time_s))


@pytest.mark.parametrize("answer", ANSWERS)
def test_layout_is_no_number(answer):
    for name, rows in tables_of(answer).items():
        assert not {"middle_s", "text_at"} & {column for row in rows for column in row}, name


def test_cases_of_a_validation_have_their_figures_as_in_json():
    rows = table("validation", "parity")
    answers = [answer for part in ANSWERS["validation"]() for answer in part.answers]
    asked = [answer for answer in answers if answer.predicted is not None]
    assert [row["predicted"] for row in rows] == pytest.approx([one.predicted for one in asked], rel=1e-5)
    assert [row["measured"] for row in rows] == pytest.approx([one.case.measured for one in asked], rel=1e-5)


@pytest.mark.parametrize(("times", "drawn"), [(1, 150), (2, 150), (3, 150)])
def test_a_chart_of_very_many_cases_says_that_some_are_drawn(times, drawn):
    result, *_ = ANSWERS["validation"]()
    one = next(answer for answer in result.answers if answer.predicted)
    cases = [replace(one, predicted=one.predicted * (1 + n / 1e4)) for n in range(150 * times)]
    (chart,) = index.charts_of([replace(result, answers=cases)])
    assert len(chart.table) == drawn
    said = " ".join(chart.wide["title"]["subtitle"])
    assert ("sampled evenly" in said) == (times > 1)


def test_every_row_of_a_replay_says_of_which_time_it_is():
    rows = table("replay", "replay")
    for panel in ("Time to first token", "Time per output token", "Latency"):
        shares = [row["share"] for row in rows if row["panel"] == panel and row.get("line") == "simulated"]
        assert len(shares) == 101
    assert {row["panel"] for row in rows} == {"Time to first token", "Time per output token", "Latency"}


def test_operators_on_the_roofline_have_their_figures_as_in_json():
    step = ANSWERS["step"]()
    times = {}
    for row in step.rows:
        at = (row.phase, row.module, row.operator)
        times[at] = times.get(at, 0.0) + float(row.time_s)
    points = [row for row in table("step", "roofline") if row.get("phase") == "forward" and row["module"] == "mlp"]
    assert points
    for point in points:
        seconds = times[point["phase"], point["module"], point["operator"]]
        assert point["time_s"] == pytest.approx(seconds, rel=1e-5)
