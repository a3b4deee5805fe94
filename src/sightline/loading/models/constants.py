"""Constants of a model's formulas that change no time and no memory, but belong to the model that is launched."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sightline.loading.input.checks import Complaints
from sightline.quantities import show

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "rope_theta": ("rope_theta", "rotary_emb_base", "rotary_base"),
    "norm_eps": ("norm_eps", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"),
}
"""Keys of configs for each of the constants."""
_ROPE: Final = ("rope_parameters", "rope_scaling", "attn_config")
"""Mappings in which the base of rotary positions may stand instead."""
_OF_FULL_ATTENTION: Final = "full_attention"
"""Where that is stated for each kind of layer."""


def constants_of(config: Mapping[str, Any], complaints: Complaints) -> dict[str, float]:
    """Return the constants that a config states; those that have several values, one a layer, are left out."""
    found: dict[str, float] = {}
    for name, keys in _SPELLINGS.items():
        stated = [(key, config[key]) for key in keys if config.get(key) is not None]
        stated += [*_nested(config)] if name == "rope_theta" else []
        for key, value in stated[:1]:
            if isinstance(value, bool | str) or (isinstance(value, int | float) and not value > 0):
                complaints.add(f"model.{key} is {show(value)}; allowed: a number above 0")
            elif isinstance(value, int | float):
                found[name] = float(value)
    return found


def _nested(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for outer in _ROPE:
        inside = config.get(outer)
        if not isinstance(inside, Mapping):
            continue
        whole = inside.get(_OF_FULL_ATTENTION)
        stated = whole if isinstance(whole, Mapping) else inside
        if stated.get("rope_theta") is not None:
            yield f"{outer}.rope_theta", stated["rope_theta"]
