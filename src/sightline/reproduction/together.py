"""How many findings a source's one choice of every open setting reproduces: its findings together, not one by one."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product

from sightline.reproduction.open_settings import ChoiceBySetting
from sightline.reproduction.outcome import Outcome


def best_choices(outcomes: Sequence[Outcome]) -> ChoiceBySetting:
    """Return the choice of every open setting with which most findings are reproduced.

    Of equal ones it is the first. Settings that no finding has in common are independent, so that each group of the
    others is searched by itself.
    """
    choices: dict[str, str] = {}
    for settings, concerned in _independent(outcomes):
        candidates: list[ChoiceBySetting] = [
            dict(zip(settings, names, strict=True)) for names in product(*settings.values())
        ]
        best = max(candidates, key=partial(_reproduced, concerned))
        choices.update(best)
    return {setting: choices[setting] for outcome in outcomes for setting in outcome.settings}


def _reproduced(outcomes: Sequence[Outcome], choices: ChoiceBySetting) -> int:
    """How many findings hold with these choices."""
    return sum(outcome.holds_with(choices) for outcome in outcomes)


def _independent(outcomes: Sequence[Outcome]) -> Iterator[tuple[Mapping[str, list[str]], list[Outcome]]]:
    """Groups of settings that findings have in common, with their choices, and the findings of each."""
    left = [outcome for outcome in outcomes if outcome.settings]
    while left:
        names, concerned = set(left[0].settings), [left.pop(0)]
        while joined := [outcome for outcome in left if names & set(outcome.settings)]:
            left = [outcome for outcome in left if not names & set(outcome.settings)]
            names.update(*(outcome.settings for outcome in joined))
            concerned += joined
        yield _choices_of(concerned), concerned


def _choices_of(outcomes: Sequence[Outcome]) -> Mapping[str, list[str]]:
    """The choices of each setting that are predicted, in their order."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        for setting, names in outcome.settings.items():
            found[setting] = list(dict.fromkeys([*found.get(setting, ()), *names]))
    return found
