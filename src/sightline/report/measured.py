"""What somebody measured of a scenario against its prediction, as sentences."""

from collections.abc import Mapping
from typing import Any

from sightline.profile import Profile
from sightline.profile.results import answer_to_dict, flatten
from sightline.quantities import percent
from sightline.report import units

_ABOUT = ("source", "note", "date", "evidence")
"""Measured keys that say where figures come from."""


def measured_sentences(profile: Profile) -> list[str]:
    """Return, for each figure that somebody measured, how far the prediction is from it, or that it has none."""
    measured, predicted = flatten(profile.scenario.measured), flatten(answer_to_dict(profile))
    source = f" ({measured['source']})" if "source" in measured else ""
    found = {key: (value, _counterpart(key, predicted)) for key, value in measured.items() if key not in _ABOUT}
    sentences = [
        f"measured {key} {_stated(value)}{source}: predicted {_against(value, prediction)}"
        for key, (value, prediction) in found.items()
        if prediction is not None and value is not None
    ]
    without = [key for key, (_, prediction) in found.items() if prediction is None]
    if without:
        can = (
            *profile.task.headline,
            *profile.task.details,
            *(["memory_bytes", "fits"] if profile.memory_bytes else []),
        )
        sentences.append(f"measured {', '.join(without)}: not predicted; compared: {', '.join(can)}")
    return sentences


def _counterpart(key: str, predicted: Mapping[str, Any]) -> Any:
    """What is predicted of a measured key: a plain figure is a whole, and a mean that of all requests."""
    return next(
        (
            predicted[same]
            for same in (key, f"{key}.total", f"{key}.mean", key.removesuffix(".mean"))
            if same in predicted
        ),
        None,
    )


def _stated(value: Any) -> str:
    return units.digits(float(value), 4) if _is_number(value) else str(value).lower()


def _against(value: Any, prediction: Any) -> str:
    """A prediction next to what was measured: the difference of numbers, else the prediction."""
    if _is_number(value) and _is_number(prediction) and value:
        return percent(float(prediction) / float(value) - 1, 1, signed=True)
    return _stated(prediction)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
