"""What a study's table comes to: best points, break-evens, shares of levels, pictures and assumptions."""

import numpy as np
import pytest
from study_bases import GENERATION, OPERATOR, TRAINING

from sightline.exploration.run import explore
from sightline.progress import Progress

BANDWIDTH = "cluster.device.memory_bandwidth"


@pytest.fixture(scope="module")
def answer():
    axes = {BANDWIDTH: {"from": "1 TB/s", "to": "16 TB/s", "factor": 2}, "workload.batch": [1, 64]}
    report = ["tpot_s", "output_tokens_per_s", "cost_usd_per_million_tokens"]
    return explore({"study": "memory", "base": GENERATION, "axes": axes, "view": "both", "report": report})


def test_the_best_point_does_most_work_per_second(answer):
    for view, best in answer.summary["best"].items():
        rows = [row for row in answer.rows if row["view"] == view]
        assert best["output_tokens_per_s"] >= 0.999 * max(row["output_tokens_per_s"] for row in rows)
        assert any(all(row[key] == value for key, value in best.items()) for row in rows)


def test_at_break_even_both_values_cost_the_same_per_token(answer):
    rent = 2 * 3600.0  # seconds of an hour, on two devices
    for step in answer.summary["break_even"]:
        rows = [row for row in answer.rows if (row["view"], row["workload.batch"]) == (step["view"], 1)]
        low, high = (next(row for row in rows if row[step["key"]] == step[end]) for end in ("from", "to"))
        usd_per_hour = low["cost_usd_per_million_tokens"] * low["output_tokens_per_s"] / 1e6 * rent / 4
        more = (usd_per_hour + step["usd_per_hour"]) / high["output_tokens_per_s"]
        assert more == pytest.approx(usd_per_hour / low["output_tokens_per_s"], rel=1e-6)
        assert step["gain"] >= 1.0


def test_shares_of_levels_are_those_of_the_table(answer):
    for view, shares in answer.summary["bound_level"].items():
        levels = [row["bound_level"] for row in answer.rows if row["view"] == view]
        assert shares == {level: pytest.approx(levels.count(level) / len(levels)) for level in set(levels)}


def test_elasticities_are_of_the_base(answer):
    for of in answer.summary["elasticities"].values():
        assert of["device.memory_bandwidth"] < 0
        assert set(of) > {"device.peak_flops", "intra_node.bandwidth"}


def test_two_axes_are_a_map_lines_and_a_tornado(answer):
    assert [figure.kind for figure in answer.figures] == ["map", "lines", "tornado", "lines"]
    for figure in answer.figures:
        columns = figure.columns or answer.columns
        ys = (figure.y,) if isinstance(figure.y, str) else figure.y
        assert {figure.x, *ys, *filter(None, (figure.series, figure.panel))} <= set(columns)


def test_the_view_is_the_first_assumption(answer):
    assert answer.assumptions[0].startswith("Ideal view")
    assert answer.assumptions[1].startswith("Calibrated view")


def test_sentences_have_the_numbers_of_the_table(answer):
    text = " ".join(answer.reading)
    assert "20 points" in text
    assert "memory bandwidth from 1 TB/s to 16 TB/s takes" in text
    assert "pays off below" in text


def test_one_axis_is_drawn_as_lines():
    figures = explore({"base": TRAINING, "axes": {BANDWIDTH: ["1x", "2x"]}}).figures
    assert [figure.kind for figure in figures] == ["lines", "tornado"]


def test_names_are_drawn_as_bars():
    figures = explore({"base": TRAINING, "axes": {"cluster.device": ["a100-sxm-80gb", "h100-sxm-80gb"]}}).figures
    assert figures[0].kind == "bars"


def test_prices_add_to_the_rent():
    prices = {BANDWIDTH: "0.5 USD/hour per TB/s"}
    asked = {"base": TRAINING, "axes": {BANDWIDTH: ["1 TB/s", "4 TB/s"]}, "report": ["usd_per_hour"]}
    free, paid = (explore({**asked, **more}).columns["usd_per_hour"] for more in ({}, {"prices": prices}))
    assert np.diff(paid) == pytest.approx(32 * 0.5 * 3)
    assert free[0] == free[1]


def test_a_single_operator_has_no_memory_and_no_rent():
    answer = explore({"base": OPERATOR, "axes": {BANDWIDTH: ["1 TB/s", "4 TB/s"]}})
    assert "fits" not in answer.columns
    assert answer.summary["break_even"] == []
    assert answer.summary["best"]["calibrated"][BANDWIDTH] == 4e12


def test_a_study_that_is_stopped_keeps_what_is_there():
    progress = Progress()
    axes = {"cluster.device": ["a100-sxm-80gb", "h100-sxm-80gb"], BANDWIDTH: ["1x", "2x"]}

    def stop(state):
        if state.what == "exploring" and state.done:
            progress.cancel()

    progress = Progress(stop, every_s=0)
    answer = explore({"base": TRAINING, "axes": axes}, progress=progress)
    assert [row["cluster.device"] for row in answer.rows] == ["a100-sxm-80gb"] * 2
    assert answer.warnings[0].startswith("stopped after 2 of 4 points")
    assert answer.reading[0].startswith("Stopped after 2 of 4 points")
    assert (answer.summary["stopped_before"], "best" in answer.summary) == (2, False)
    assert answer.summary["best_so_far"]["calibrated"]["cluster.device"] == "a100-sxm-80gb"


def test_a_study_that_is_stopped_at_once_says_nothing_of_its_points():
    progress = Progress()
    progress.cancel()
    answer = explore({"base": TRAINING, "axes": {BANDWIDTH: ["1x", "2x"]}}, progress=progress)
    assert len(answer) == 0
    assert answer.reading == ["Stopped after 0 of 2 points."]


def test_the_table_is_a_data_frame(answer):
    assert answer.table.columns[:3] == ["view", BANDWIDTH, "workload.batch"]
    assert len(answer.table) == len(answer)


def test_columns_have_the_units_of_axes_and_results():
    technology = "cluster.device.technology"
    axes = {f"{technology}.die_area": ["400 mm2", "800 mm2"], f"{technology}.pin_rate": ["4 Gbit/s", "6 Gbit/s"]}
    report = ["latency_s", "limits.memory", "levels.dram", "phases.prefill", "cost_usd_per_million_tokens"]
    answer = explore({"base": GENERATION, "axes": axes, "report": report})
    assert {key: column.unit for key, column in answer.about.items() if key in answer.columns} == {
        f"{technology}.die_area": "m2",
        f"{technology}.pin_rate": "bit/s",
        **dict.fromkeys(("latency_s", "limits.memory", "levels.dram", "phases.prefill"), "s"),
        "cost_usd_per_million_tokens": "USD",
        "fits": "",
        "bound_level": "",
    }
    assert answer.about["levels.dram"].label == "time bound by DRAM"
    assert "levels" not in " ".join(answer.reading)


def test_prices_are_drawn_as_where_more_pays_and_as_what_a_step_may_add():
    axes = {BANDWIDTH: ["1 TB/s", "2 TB/s", "8 TB/s"], "workload.batch": [1, 64]}
    prices = {BANDWIDTH: "0.5 USD/hour per TB/s"}
    report = ["tpot_s", "cost_usd_per_million_tokens"]
    answer = explore({"base": GENERATION, "axes": axes, "prices": prices, "view": "both", "report": report})
    paying = next(figure for figure in answer.figures if figure.break_even == 1.0)
    rows = list(answer.rows)
    for place, gain in enumerate(paying.columns[paying.series]):
        same = (row for row in rows if all(row[key] == rows[place][key] for key in ("view", "workload.batch")))
        least = min(same, key=lambda row: row[BANDWIDTH])
        cost = "cost_usd_per_million_tokens"
        assert gain == pytest.approx(least[cost] / rows[place][cost])
    steps = answer.figures[-1]
    lines = ["may cost, ideal view", "may cost, calibrated view", "costs at its price"]
    assert list(dict.fromkeys(steps.columns["rent"])) == lines
    assert steps.columns["more_usd_per_hour"][-2:] == pytest.approx([0.5, 3.0])


def test_figures_of_a_load_draw_what_is_reported():
    clusters = ["1x a100-sxm-80gb", "1x h100-sxm-80gb"]
    work = {
        "task": "serve",
        "requests": {"count": 4, "prompt_tokens": 64, "output_tokens": 4},
        "arrival": {"process": "poisson", "rate": 8},
    }
    base = {"model": "llama-3.1-8b", "cluster": clusters[0], "workload": work, "plan": {"framework": "vllm"}}
    answer = explore({"base": base, "axes": {"cluster": clusters}, "report": ["ttft_s.p90", "output_tokens_per_s"]})
    assert [(figure.kind, figure.y) for figure in answer.figures] == [("bars", "ttft_s.p90")]


def test_of_many_values_a_few_have_lines():
    axes = {BANDWIDTH: ["1x", "2x"], "workload.batch": {"from": 1, "to": 20, "steps": 20}}
    answer = explore({"base": GENERATION, "axes": axes})
    lines = next(figure for figure in answer.figures if figure.kind == "lines")
    assert lines.series == "workload.batch"
    assert len(lines.where["workload.batch"]) == 8
    assert {1, 20} <= set(lines.where["workload.batch"])


def paying(axes, *, view="ideal", **asked):
    report = ["tpot_s", "cost_usd_per_million_tokens"]
    return explore({"base": GENERATION, "axes": axes, "view": view, "report": report, **asked})


def test_a_break_even_says_from_where_on_nothing_pays_and_what_holds_at_the_price():
    axes = {BANDWIDTH: {"from": "2 TB/s", "to": "32 TB/s", "factor": 2}, "workload.batch": [4, 1]}
    answer = paying(axes, prices={BANDWIDTH: "0.1 USD/hour per TB/s"})
    (sentence,) = [one for one in answer.reading if "pays off below" in one]
    nothing = [step["from"] for step in answer.summary["break_even"] if step["gain"] < 1.001]
    assert sentence.startswith("Ideal view, batch 4: ")
    assert f"beyond {min(nothing) / 1e12:g} TB/s not at any extra cost" in sentence
    rows = [row for row in answer.rows if row["workload.batch"] == 4]
    least = min(rows, key=lambda row: row["cost_usd_per_million_tokens"])
    assert f"work is cheapest at {least[BANDWIDTH] / 1e12:g} TB/s" in sentence


def test_a_number_that_brings_nothing_pays_at_no_price():
    answer = paying({"cluster.device.memory": ["80 GB", "160 GB", "320 GB"]})
    assert any("no step along memory pays off" in sentence for sentence in answer.reading)


def test_another_memory_by_name_may_cost_more_too():
    axes = {"cluster.device.technology.memory": ["hbm3", "hbm3e", "hbm4"]}
    answer = paying(axes)
    steps = answer.summary["break_even"]
    assert [(step["from"], step["to"]) for step in steps] == [("hbm3", "hbm3e"), ("hbm3", "hbm4")]
    rows = list(answer.rows)
    for step, row in zip(steps, rows[1:], strict=True):
        cost = "cost_usd_per_million_tokens"
        assert step["gain"] == pytest.approx(rows[0][cost] / row[cost])
    assert any("compared with memory hbm3" in sentence for sentence in answer.reading)


def test_rents_that_another_technology_does_not_change_are_warned_of():
    axes = {"cluster.device.technology.memory": ["hbm3", "hbm4"]}
    assert any("every device has the price of" in warning for warning in paying(axes).warnings)
    priced = paying(axes, prices={BANDWIDTH: "0.1 USD/hour per TB/s"})
    assert not any("every device has the price of" in warning for warning in priced.warnings)
    assert not paying({BANDWIDTH: ["1x", "2x"]}).warnings


def test_of_points_that_tie_that_with_the_least_hardware_is_the_fastest():
    axes = {"cluster.device.memory": ["320 GB", "80 GB", "160 GB"], "cluster.intra_node.latency": ["1 us", "1.001 us"]}
    best = paying(axes).summary["best"]["ideal"]
    assert (best["cluster.device.memory"], best["cluster.intra_node.latency"]) == (80e9, 1.001e-6)


def test_a_minimum_inside_an_axis_is_said():
    technology = "cluster.device.technology"
    base = {**TRAINING, "cluster": {"devices": 32, "device": {"technology": {"node": "3nm", "memory": "hbm3"}}}}
    axes = {f"{technology}.split.l2": [0.03, 0.1, 0.2, 0.4]}
    answer = explore({"base": base, "axes": axes, "view": "ideal", "report": ["step_time_s"]})
    times = answer.columns["step_time_s"]
    assert min(times) < min(times[0], times[-1])
    least = axes[f"{technology}.split.l2"][int(np.argmin(times))]
    assert any("lowest " in one and f"at {100 * least:.1f} %" in one for one in answer.reading)


def test_axes_along_which_nothing_changes_are_said_together_and_not_drawn():
    still = {"cluster.device.memory": ["1x", "2x"], "cluster.host.device_bandwidth": ["1x", "2x"]}
    answer = explore({"base": GENERATION, "axes": {**still, BANDWIDTH: ["1x", "4x"], "workload.batch": [1, 64]}})
    (sentence,) = [one for one in answer.reading if "changes by less than" in one]
    assert all(word in sentence for word in ("memory", "host device bandwidth"))
    assert not any("memory from" in one for one in answer.reading)
    drawn = answer.figures[0]
    assert {drawn.x, drawn.y[0]} == {BANDWIDTH, "workload.batch"}


def test_points_that_do_not_fit_do_not_count_in_shares_of_levels():
    axes = {"cluster.device.memory": ["4 GB", "80 GB"], BANDWIDTH: ["1 TB/s", "100 TB/s"]}
    answer = explore({"base": GENERATION, "axes": axes})
    fitting = [row["bound_level"] for row in answer.rows if row["fits"]]
    assert len(fitting) == 2
    shares = answer.summary["bound_level"]["calibrated"]
    assert shares == {level: fitting.count(level) / 2 for level in set(fitting)}
    assert any(sentence.endswith("of the points that fit.") for sentence in answer.reading)
