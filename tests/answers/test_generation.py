"""Predictions of generation as text, as pictures, as a page and as CSV."""

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from generation_scenarios import generation
from rendered import profile_text
from rendered import profiles_page as page

from sightline.answers import labels, summary
from sightline.charts.profile_charts import profile_chart
from sightline.charts.rendering import draw
from sightline.render.csv import to_csv


def texts(profiles):
    svg = ET.fromstring(draw(profile_chart(profiles), "chart.svg"))
    return ["".join(element.itertext()) for element in svg.iter("{http://www.w3.org/2000/svg}text")]


def plan_of(profile, **changes):
    return profile.replace(scenario=replace(profile.scenario, plan=replace(profile.scenario.plan, **changes)))


def test_one_prediction_says_everything_a_reader_asks(generation):
    text = " ".join(profile_text(generation).split())
    for said in (
        "Llama-2-7B on 2 x H100",
        "batch 8, 512 tokens in, 101 out",
        "vllm · tp 2 · bf16",
        "500 ms",
        "20.0 ms",
        "2.50 s",
        "323 tokens/s",
        "memory",
        "yes · 10.0 of 73.3 GiB",
        "per million tokens",
        "TTFT 500 ms (80 %: 400 to 625 ms)",
        "TPOT 20.0 ms (80 %: 16.0 to 25.0 ms)",
        "calibrated: constants of this engine",
        "60.0 %",
        "decode: mlp",
        "KV cache",
    ):
        assert said in text


def test_without_spreads_nothing_is_said_of_intervals(generation):
    assert "80 %" not in profile_text(generation.replace(interval={}))


def test_formats_are_named_where_they_are_not_plain(generation):
    def how(**changes):
        return labels.subtitle(plan_of(generation, **changes).scenario)[1]

    assert how(quantization=("fp8", "kv-fp8")).endswith("bf16, fp8, kv-fp8")
    assert how(quantization=()).endswith("bf16, not quantized")
    published = replace(generation.scenario, model=replace(generation.scenario.model, weights="fp8-block"))
    assert labels.subtitle(published)[1].endswith("bf16, weights in fp8-block")


def test_of_very_many_modules_the_rest_is_added_up(generation):
    row = generation.rows[0]
    rows = [replace(row, module=f"module {n}").lasting(1.0 + n) for n in range(20)]
    parts = summary.longest_modules(generation.replace(rows=rows))
    assert parts[-1].label == "other modules"
    assert sum(part.value for part in parts) == pytest.approx(sum(r.time_s for r in rows))


def test_one_prediction_is_drawn_with_both_phases(generation):
    shown = texts([generation])
    for label in ("Latency by phase", "Device time by module", "prefill", "1.50 s · 60.0 %", "1.20 s"):
        assert label in shown
    assert "73.3 GiB engine limit" in shown


def test_over_the_batch_throughput_is_drawn_against_time_per_token(generations):
    shown = texts(generations)
    assert "TPOT" in " ".join(shown)
    assert {"1", "4", "16", "64"} <= set(shown)


def test_curves_of_several_plans_are_named(generations):
    quantized = [plan_of(p, quantization=("fp8",)) for p in generations]
    shown = texts([*generations, *quantized])
    assert any(text.startswith("quantization fp8") for text in shown)


def test_what_is_no_curve_is_drawn_as_bars(generation):
    shown = texts([generation, plan_of(generation, quantization=("fp8",))])
    assert "TTFT 500 ms · TPOT 20.0 ms · 323 tokens/s" in shown


def test_the_page_holds_the_figures_and_the_scenario(generation):
    text = page([generation])
    for said in ("TTFT 500 ms (80\u00a0%: 400 to 625 ms)", "tensor_parallel: 2", "Time by module and phase", "1 Wh"):
        assert said in text


def test_a_page_of_several_compares_first(generations):
    assert "4 scenarios compared" in page(generations)


def test_csv_names_the_model_and_the_results(generations):
    lines = list(csv.DictReader(io.StringIO(to_csv(generations))))
    assert [line["workload.batch"] for line in lines] == ["1", "4", "16", "64"]
    assert {line["model"] for line in lines} == {"llama-2-7b"}
    assert [line["fits"] for line in lines] == ["true"] * 3 + ["false"]


@pytest.mark.parametrize("cache", [True, False])
def test_a_prefix_is_called_cached_only_where_there_is_a_cache(cache):
    scenario = generation(prefix_tokens=128, plan={"prefix_cache": cache})
    assert ("128 cached" in labels.subtitle(scenario)[0]) == cache
