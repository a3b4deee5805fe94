"""Prices of devices: those that somebody gives in place of the catalog's, and what each is said to rest on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.quantities import USD_PER_HOUR, parse_quantity
from sightline.scenario import Cluster, Device
from sightline.scenario.cluster import Question

Asked = TypeVar("Asked", bound=Question)
PRICE_OF = "price of "
"""What the name of an assumption about a device's price begins with."""


def read_prices(texts: Iterable[str], own: Iterable[str] = ()) -> dict[str, float]:
    """Return dollars per hour by device from texts such as "h100-sxm-80gb=2.50".

    ``own`` are the devices of a scenario, those that it writes out too, whose names no catalog knows.

    Raises:
        InputError: a text has another form, names no device or no price; all of them at once.
    """
    found, problems = {}, []
    theirs = tuple(own)
    known = (*theirs, *catalog.names("devices"))
    for text in texts:
        name, equals, price = text.partition("=")
        device = _device(name.strip(), theirs, known)
        if not equals:
            problems.append(f"price is '{text}'; allowed: NAME=USD_PER_HOUR, such as h100-sxm-80gb=2.50")
        elif device not in known:
            near = nearest(device, known)
            problems.append(f"price names the device '{name.strip()}'{near}; `sightline catalog devices` lists all")
        else:
            try:
                found[device] = parse_quantity(price.strip(), USD_PER_HOUR, zero=True)
            except InputError as error:
                problems += [f"price of {device} {problem}" for problem in error.problems]
    if problems:
        raise InputError(problems)
    return found


def _device(name: str, own: Sequence[str], known: Sequence[str]) -> str:
    """The device that a name stands for: the only one of a scenario's that begins so, before any of the catalog."""
    if name in known:
        return name
    begun = [one for one in dict.fromkeys(own) if one.startswith(f"{name.lower()}-")]
    return begun[0] if len(begun) == 1 else catalog.name_of("devices", name)


def priced(cluster: Cluster, prices: Mapping[str, float]) -> Cluster:
    """Return the cluster with the prices of those of its devices that are given."""
    price = prices.get(cluster.device.name)
    groups = tuple(priced(part, prices) for part in cluster.groups)
    device = cluster.device if price is None else replace(cluster.device, usd_per_hour=price)
    return replace(cluster, device=device, groups=groups) if groups or price is not None else cluster


def with_prices(scenario: Asked, prices: Mapping[str, float]) -> Asked:
    """Return the scenario with the prices of those of its devices that are given."""
    return replace(scenario, cluster=priced(scenario.cluster, prices))


def price_assumptions(devices: Mapping[str, Device]) -> dict[str, str]:
    """Return what the price of each device is and rests on, by the name of the assumption."""
    return {f"{PRICE_OF}{name}": said_of_price(device) for name, device in devices.items()}


def said_of_price(device: Device) -> str:
    """Return what a device's price is and rests on, with its date; that nobody knows one, if so."""
    price = device.usd_per_hour
    if price is None:
        return "unknown; --price gives one"
    amount = f"{float(price):.2f} USD per hour"
    known = catalog.entry("devices", device.name) if device.name in catalog.names("devices") else {}
    if "price" not in known or parse_quantity(known["price"], USD_PER_HOUR) != price:
        return f"{amount}, as given"
    source, evidence = (known.get(key, {}).get("price", "") for key in ("sources", "evidences"))
    return ", ".join(part for part in (amount, evidence, source) if part)
