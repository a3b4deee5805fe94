"""What an engine's cases are off by where nothing like them was fitted, and how wide that makes an interval."""

from dataclasses import replace

import numpy as np
import pytest
from engine_fit import PRIORS, EngineSet, InferenceFit, MeasuredGeneration, supported_fit
from engine_terms import LeftOut, further, terms_of, without
from generation_scenarios import generation

from sightline.calibration.fits import Prior
from sightline.prediction.generation.policies import price_workers
from sightline.quantities import FOUR_IN_FIVE

WORKERS = price_workers(generation(plan={"framework": "vllm"}))
SCALE = {"scale": Prior(value=1.0, spread=1.0, low=0.1, high=10.0)}


def fit(values, sources, spread=0.1, devices=(), contexts=()):
    """A fit of one scale to measured values; ``devices`` and ``contexts`` by case, or all the same."""
    shape = np.arange(1.0, len(values) + 1)
    cases = []
    for place, (value, source) in enumerate(zip(values, sources, strict=True)):
        changes = {"cluster": f"1x {devices[place]}"} if devices else {}
        changes |= {"prompt_tokens": contexts[place]} if contexts else {}
        scenario = generation(plan={"framework": "vllm"}, **changes)
        workers = replace(WORKERS, scenario=scenario)
        cases.append(MeasuredGeneration(workers=workers, quantity="tpot_s", value=value, source=source))

    def predict(constants):
        return constants.get("scale", 1.0) * shape

    found = supported_fit(predict, np.array(values), np.ones(len(values)), SCALE)
    spreads = {name: prior.value for name, prior in PRIORS.items()} | {"ttft_spread": spread, "tpot_spread": spread}
    return InferenceFit(
        cases=cases, predict=predict, supported=found, asked=SCALE, constants=spreads, residuals={"fit": {}}
    )


def sets(**lines):
    """Fits of vLLM by release line, as `terms_of` takes them; its own set is called by no name."""
    named = {line.replace("own", ""): found for line, found in lines.items()}
    return {
        line: (EngineSet(engine="vllm", line=line, suites=(), free=("scale",)), found) for line, found in named.items()
    }


def two_sources(rows=6, apart=2.0):
    values = np.arange(1.0, 2 * rows + 1) * np.repeat([1.0, apart], rows)
    return fit(list(values), ["one"] * rows + ["other"] * rows)


def test_a_source_is_predicted_by_the_others_alone():
    """Each source's scale is the other's: the errors are the whole distance, not what a joint fit leaves of it."""
    left = without(two_sources(apart=2.0), "source")
    assert left.errors[:6] == pytest.approx(np.full(6, np.log(2.0)), abs=0.02)
    assert left.errors[6:] == pytest.approx(np.full(6, -np.log(2.0)), abs=0.02)
    assert left.groups == ["one"] * 6 + ["other"] * 6


def test_a_source_says_nothing_where_too_few_rows_are_left():
    assert without(two_sources(rows=4), "source") is None
    assert without(fit([1.0, 2.0, 3.0], ["one"] * 3), "source") is None


def test_a_term_is_what_intervals_lack_to_hold_four_in_five():
    errors = np.linspace(0.01, 1.0, 100)
    alone = LeftOut(errors, ["x"] * 100, np.full(100, 0.3), np.ones(100))
    term = further([alone])
    assert np.hypot(0.3, FOUR_IN_FIVE * term) == pytest.approx(0.8, abs=0.011)
    assert np.mean(errors <= np.hypot(0.3, FOUR_IN_FIVE * term) + 1e-9) == pytest.approx(0.8, abs=0.011)


def test_a_term_is_nothing_where_intervals_hold_without_it():
    wide = LeftOut(np.full(10, 0.2), ["x"] * 10, np.full(10, 0.3), np.ones(10))
    assert further([wide]) == 0.0
    assert further([]) == 0.0


def test_everything_left_out_counts_alike_whatever_its_rows():
    """One device of 90 rows that fit and four of one row that do not: the four decide."""
    many = LeftOut(np.zeros(90), ["big"] * 90, np.full(90, 0.1), np.ones(90))
    few = LeftOut(np.full(4, 0.5), list("abcd"), np.full(4, 0.1), np.ones(4))
    assert np.hypot(0.1, FOUR_IN_FIVE * further([many, few])) == pytest.approx(0.5)


def test_a_term_per_doubling_is_smaller_where_cases_are_farther():
    near, far = (LeftOut(np.full(5, 0.4), ["x"] * 5, np.full(5, 0.1), np.full(5, times)) for times in (1.0, 2.0))
    assert further([near]) == pytest.approx(2.0 * further([far]))


def test_devices_are_left_out_each_by_itself():
    """A device whose rows are slower is predicted as the others; the others' errors have none of its slowness."""
    names = ["h100-sxm-80gb"] * 10 + ["h200-sxm-141gb"] * 10
    values = list(np.arange(1.0, 21.0) * np.repeat([1.0, 1.1], 10))
    left = without(fit(values, ["one"] * 20, devices=names), "device")
    assert left.errors[10:] == pytest.approx(np.full(10, -np.log(1.1)), abs=0.02)
    assert set(left.groups) == {"h100-sxm-80gb", "h200-sxm-141gb"}


def test_the_longest_contexts_are_left_out_together_and_counted_in_doublings():
    contexts = [512] * 10 + [8064] * 3
    values = list(np.arange(1.0, 14.0) * np.repeat([1.0, 1.5], [10, 3]))
    found = terms_of([sets(own=fit(values, ["one"] * 13, contexts=contexts))])
    assert found["residuals"]["context left out"]["rows"] == 3
    doublings = np.log2((8064 + 128) / (512 + 128))
    off = np.sqrt(np.log(1.5) ** 2 - 0.1**2) / FOUR_IN_FIVE / doublings
    assert off * 0.95 < found["beyond"]["context"] < off * 1.4  # one linear step overstates what leaving out does
    assert found["beyond"]["kind"] == 0.0


def test_lines_are_also_predicted_with_their_engine_s_constants():
    line = fit([1.5 * x for x in range(1, 13)], ["one"] * 12)
    assert terms_of([sets(own=line)])["residuals"]["release left out"] == {"rows": 0}
    found = terms_of([sets(line=line)])
    assert found["residuals"]["release left out"]["mean"] == pytest.approx(1 / 3, abs=0.01)
    assert found["beyond"]["release"] > 0.1


def test_published_intervals_have_the_source_s_term_too():
    found = terms_of([sets(own=two_sources())])
    assert found["residuals"]["source left out"]["groups"] == 2
    assert found["residuals"]["source left out"]["coverage"] >= 0.8
    assert found["beyond"]["source"] == pytest.approx(np.sqrt(np.log(2.0) ** 2 - 0.01) / FOUR_IN_FIVE, rel=0.03)
