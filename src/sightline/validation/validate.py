"""Predicted against published and measured results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args

from sightline.errors import InputError, SightlineError, nearest
from sightline.validation.quantities import QUANTITIES
from sightline.validation.statistics import Answer, Result, result_of
from sightline.validation.suite import Case, Split, Suite
from sightline.validation.tables import suites

Predict: TypeAlias = Callable[[Any], Any]
"""A scenario, of training or generation, into its profile."""


def validate(
    names: str | Sequence[str] | None = None,
    *,
    data: Path | str | None = None,
    predict: Predict | None = None,
) -> list[Result]:
    """Predict every case of the named suites (all when None) and return the errors of each suite's two splits.

    ``data`` is a folder with the public data sets; ``predict`` replaces `sightline.prediction.predict`.
    """
    chosen = _chosen(suites(data), [names] if isinstance(names, str) else names)
    return [result for suite in chosen for result in _results(suite, predict or _default_predict())]


def _default_predict() -> Predict:
    from sightline.prediction import predict

    return predict


def _chosen(known: Sequence[Suite], names: Sequence[str] | None) -> Sequence[Suite]:
    """Return the suites of these names; raise `InputError` for those there are none of."""
    by_name = {suite.name: suite for suite in known}
    if names is None:
        return known
    unknown = [name for name in names if name not in by_name]
    if unknown:
        listed = ", ".join(by_name)
        raise InputError(
            [f"unknown suite '{name}'{nearest(name, list(by_name))}; suites: {listed}" for name in unknown]
        )
    return [by_name[name] for name in names]


def _results(suite: Suite, predict: Predict) -> list[Result]:
    answers = [_answer(case, suite.quantity, predict) for case in suite.cases]
    by_split = {split: [a for a in answers if a.case.split == split] for split in get_args(Split)}
    return [result_of(suite.name, suite.quantity, split, part) for split, part in by_split.items() if part]


def _answer(case: Case, quantity: str, predict: Predict) -> Answer:
    """Return the prediction for a case; one that cannot be asked or answered says why."""
    try:
        profile = _profile(case.scenario, predict)
        value = QUANTITIES[quantity](profile)
        if case.baseline is not None:
            value /= QUANTITIES[quantity](_profile(case.baseline, predict))
    except SightlineError as error:
        return Answer(case=case, reason=str(error))
    low_high = profile.interval.get(quantity)
    interval = None if low_high is None else (float(low_high[0]), float(low_high[1]))
    return Answer(case=case, predicted=value, interval=interval)


def _profile(scenario: Mapping[str, Any], predict: Predict) -> Any:
    from sightline.loading import generation_from_mapping, scenario_from_mapping

    generates = scenario["workload"]["task"] == "generate"
    return predict(generation_from_mapping(scenario) if generates else scenario_from_mapping(scenario))
