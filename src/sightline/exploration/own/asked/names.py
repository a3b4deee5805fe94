"""Names of an axis's values that are mappings or lists, such as a device of one's own next to one of the catalog."""

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.quantities import show


def named(values: Sequence[Any]) -> list[Any]:
    """Return values as a table has them, no two alike: words and numbers as they are, a mapping by a short name.

    That is its ``name``, else its device with their number ("1024x 3nm-hbm4"), else what only this mapping states.
    """
    mappings = [one for one in values if isinstance(one, Mapping)]
    names = [_name(one, mappings) for one in values]
    alike = [isinstance(one, Mapping | list) and names.count(name) > 1 for one, name in zip(values, names, strict=True)]
    told = [
        f"{name}, {own}" if again and (own := _own(one, mappings)) else name
        for one, name, again in zip(values, names, alike, strict=True)
    ]
    return [
        f"{name} ({place + 1})" if isinstance(one, Mapping | list) and told.count(name) > 1 else name
        for place, (one, name) in enumerate(zip(values, told, strict=True))
    ]


def _name(value: Any, among: Sequence[Mapping[str, Any]]) -> Any:
    if isinstance(value, list | tuple):
        return ", ".join(str(_name(one, ())) for one in value)
    if not isinstance(value, Mapping):
        return value
    return _stated(value) or _own(value, among) or show(dict(value))


def _stated(value: Mapping[str, Any]) -> str:
    """The name that a mapping states, of itself or of the device that it has or is."""
    if value.get("name"):
        return str(value["name"])
    if "device" in value:
        device = value["device"]
        name = _stated(device) if isinstance(device, Mapping) else str(device)
        return f"{value['devices']}x {name}" if name and "devices" in value else name
    technology = value.get("technology")
    if isinstance(technology, Mapping):
        return "-".join(str(technology[key]) for key in ("node", "memory") if technology.get(key))
    return str(value.get("same_as", ""))


def _own(value: Any, among: Sequence[Mapping[str, Any]]) -> str:
    """What a mapping states and not every other does: "stacks 8"."""
    if not isinstance(value, Mapping):
        return ""
    mine, others = _flat(value), [_flat(one) for one in among if one is not value]
    own = {key: of for key, of in mine.items() if not others or any(one.get(key) != of for one in others)}
    return ", ".join(f"{key.rpartition('.')[2].replace('_', ' ')} {of}" for key, of in own.items())


def _flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, of in value.items():
        found |= _flat(of, f"{above}{key}.") if isinstance(of, Mapping) else {f"{above}{key}": of}
    return found
