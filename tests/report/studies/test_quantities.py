"""Labels, units and texts of columns, as studies state them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.answers.study_columns import NOTHING, quantity_of
from sightline.exploration.answer import BOUND_BY, Column


@pytest.mark.parametrize(
    ("column", "value", "heading", "text", "axis"),
    [
        (Column(label="step time", unit="s"), 29.1, "step time", "29.1 s", "step time (seconds)"),
        (Column(label="energy", unit="J"), 5e6, "energy", "1.39 kWh", "energy (kWh)"),
        (
            Column(label="rent", unit="USD", per="per million tokens"),
            0.02,
            "rent per million tokens",
            "$0.0200",
            "rent (USD per million tokens)",
        ),
        (Column(label="energy", unit="J", per="per token"), 0.3, "energy per token", "0.300 J", "energy (J per token)"),
        (Column(label="price", unit="USD"), 1599, "price", "$1,599", "price (USD)"),
        (Column(label="FLOP/s", unit="FLOP/s", per="per USD"), 6e8, "FLOP/s per USD", "600 MFLOP/s", "MFLOP/s per USD"),
        (Column(label="peak FLOP/s", unit="FLOP/s"), 2e12, "peak FLOP/s", "2 TFLOP/s", "peak (TFLOP/s)"),
        (Column(label="bandwidth", unit="B/s"), 2e12, "bandwidth", "2 TB/s", "bandwidth (TB/s)"),
        (Column(label="latency", unit="s"), 2e-6, "latency", "2.00 us", "latency (microseconds)"),
        (Column(label="memory", unit="B"), 80 * 2**30, "memory", "80.0 GiB", "memory (GiB)"),
        (Column(label="MFU", unit="share"), 0.5, "MFU", "50.0 %", "MFU (%)"),
        (Column(label="launched", unit="year"), 2006.0, "launched", "2006", "launched"),
        (Column(label="die area", unit="m2"), 814e-6, "die area", "814 mm2", "die area (mm2)"),
        (Column(label="pin rate", unit="bit/s"), 6.4e9, "pin rate", "6.4 Gbit/s", "pin rate (Gbit/s)"),
        (Column(label="gain"), 35.13, "gain", "35.1", "gain"),
        (Column(label="devices"), 100_000, "devices", "100,000", "devices"),
    ],
)
def test_values_have_the_unit_that_suits_them(column, value, heading, text, axis):
    quantity = quantity_of("key", {"key": column})
    assert quantity.heading == heading
    assert quantity.text(value) == text
    assert quantity.titled(quantity.scaled(value)[1]) == axis


def test_a_column_that_nobody_states_has_its_key_and_no_unit():
    quantity = quantity_of("plan.virtual_stages", {})
    assert quantity.heading == "plan virtual stages"
    assert quantity.text(3) == "3"


def test_readers_may_see_another_name():
    quantity = quantity_of("latency_s", {"latency_s": Column(label="latency", unit="s")}, "time of an answer")
    assert quantity.titled(quantity.scaled(2.0)[1]) == "time of an answer (seconds)"


@pytest.mark.parametrize(
    ("value", "words"), [("dram", "DRAM"), ("l2", "L2"), ("compute", "compute"), ("host-1", "host-1"), (True, "yes")]
)
def test_values_are_said_in_the_words_of_their_column(value, words):
    assert quantity_of("bound_level", {"bound_level": BOUND_BY}).text(value) == words


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_is_not_there_is_a_dash(value):
    assert quantity_of("step_time_s", {}).text(value) == NOTHING


@given(
    st.sampled_from(["s", "B", "B/s", "FLOP/s", "J", "W", "USD", "share", "tokens", "m2", "bit/s", "kg", ""]),
    st.floats(1e-9, 1e24),
)
def test_values_of_any_size_have_a_short_text(unit, value):
    quantity = quantity_of("key", {"key": Column(label="key", unit=unit)})
    assert 0 < len(quantity.text(value)) < 40
    assert quantity.scaled(value)[0] > 0
