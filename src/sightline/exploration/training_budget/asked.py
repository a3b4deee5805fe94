"""What a study of budgets is asked: a law, devices, money and time, and what a budget rents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, floor, log2
from typing import Any

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.exploration.footprint import Electricity, read_electricity, rent_usd
from sightline.exploration.training_budget.laws import LAWS, ChinchillaLaw
from sightline.exploration.training_budget.trained import Rented
from sightline.loading.checks import Complaints, Keys, check
from sightline.quantities import COUNT, DAY, USD, USD_PER_HOUR, parse_quantity, show
from sightline.validators import Kind, choice, quantity

DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb")
LAW = "chinchilla-2024"
FOLLOWED = {name: law for name, law in LAWS.items() if isinstance(law, ChinchillaLaw)}
"""Laws that the study may follow: those whose loss has a best size."""
BUDGETS_USD = (1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
"""Budgets of money, unless `budget_usd` is set."""
DAYS = (7, 30, 90)
"""Budgets of time, of `TIMED_DEVICES` devices, unless `days` is set."""
TIMED_DEVICES = 1024
SHORTEST_DAYS = 60
"""A budget rents the largest power of two of devices that it pays for this long: a run of 60 to 120 days. Where `days`
is set with `budget_usd`, it rents the smallest that spends the money within them."""
NODE = 8
"""Devices that are rented at least."""

Budget = Mapping[str, Any]
"""Its kind, ``money`` or ``time``, and its ``budget_usd`` or ``deadline_s`` or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the study is asked."""

    law: ChinchillaLaw
    devices: tuple[str, ...]
    """Names of the catalog."""
    budgets: Sequence[Budget]
    electricity: Electricity

    @property
    def axes(self) -> dict[str, Sequence[Any]]:
        """What is varied, and its values."""
        varied = {key: [one[key] for one in self.budgets if key in one] for key in ("budget_usd", "deadline_s")}
        return {"cluster.device": self.devices, **{key: sorted(set(of)) for key, of in varied.items() if of}}

    @property
    def sentence(self) -> str:
        """What the study assumes of what budgets rent."""
        rent = "at the rent of the catalog (`sightline catalog prices`), and nothing fails."
        of_money = [budget for budget in self.budgets if "budget_usd" in budget]
        if not of_money:
            return f"Budgets of time have {TIMED_DEVICES:,} devices, {rent}"
        if all("deadline_s" in budget for budget in of_money):
            return (
                "A budget rents the smallest power of two of devices, one server at least, that spends it within the "
                f"days that are set, {rent}"
            )
        longer = "" if len(of_money) == len(self.budgets) else f" Budgets of time have {TIMED_DEVICES:,} devices."
        return (
            "A budget rents the largest power of two of devices, one server at least, that it pays for "
            f"{SHORTEST_DAYS} days, {rent}{longer}"
        )


def _devices(value: object) -> tuple[str, ...]:
    """Catalog names of devices that have a rent and a peak in bf16."""
    problems, found = [], []
    for name in map(str, value if isinstance(value, list | tuple) else [value]):
        device = catalog.name_of("devices", name)
        if device not in catalog.names("devices"):
            near = nearest(device, catalog.names("devices"))
            problems.append(f"names {show(name)}{near}; `sightline catalog devices` lists all")
        elif "price" not in (entry := catalog.entry("devices", device)) or "bf16" not in entry["peak_flops"]:
            problems.append(f"names {show(name)}, of which the catalog knows no rent or no bf16 peak")
        else:
            found.append(device)
    if problems or not found:
        raise InputError(", and ".join(problems) or "is empty; allowed: names of `sightline catalog devices`")
    return tuple(dict.fromkeys(found))


def _each(kind: Kind) -> Kind:
    """One value of a kind or a list of them, in order."""

    def read(value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        if not values:
            raise InputError("is empty; allowed: a value or a list of them")
        return tuple(sorted(set(map(kind, values))))

    return read


STATED: Keys = {
    "law": choice(*FOLLOWED),
    "devices": _devices,
    "budget_usd": _each(quantity(USD)),
    "days": _each(quantity(COUNT)),
}
"""What is asked of the study itself."""


def read_asked(base: Mapping[str, Any], *, quick: bool) -> tuple[Asked, dict[str, Any]]:
    """Return what the study is asked, and the rest of its base: the scenario that all trainings share.

    Raises:
        InputError: every mistake in what is asked.
    """
    complaints = Complaints()
    stated = check(STATED, {key: base[key] for key in STATED if key in base}, "", complaints).values
    electricity = read_electricity(base.get("electricity"), complaints)
    complaints.raise_any()
    devices = stated.get("devices", DEVICES)
    asked = Asked(
        law=FOLLOWED[stated.get("law", LAW)],
        devices=devices[-2:] if quick else devices,
        budgets=_budgets(stated.get("budget_usd"), stated.get("days"), quick=quick),
        electricity=electricity,
    )
    return asked, {key: value for key, value in base.items() if key not in (*STATED, "electricity")}


def _budgets(money: Sequence[float] | None, days: Sequence[float] | None, *, quick: bool) -> list[Budget]:
    """Budgets of money and of time; of one where only that is set; of money within a time where both are."""
    if money and days:
        return [{"budget": "money", "budget_usd": usd, "deadline_s": time * DAY} for usd, time in product(money, days)]
    if not money and not days:
        money, days = (BUDGETS_USD[::2], DAYS[1:2]) if quick else (BUDGETS_USD, DAYS)
    return [
        *({"budget": "money", "budget_usd": usd} for usd in money or ()),
        *({"budget": "time", "deadline_s": time * DAY} for time in days or ()),
    ]


def usd_per_hour(device: str) -> float:
    """Return the rent of a device."""
    return parse_quantity(catalog.entry("devices", device)["price"], USD_PER_HOUR)


def rented_by(device: str, budget: Budget) -> Rented:
    """Return the devices that a budget rents, and for how long."""
    if "budget_usd" not in budget:
        return Rented(device=device, count=TIMED_DEVICES, seconds=float(budget["deadline_s"]))
    device_seconds = budget["budget_usd"] / rent_usd(1, 1, usd_per_hour(device))
    longest = budget.get("deadline_s")
    doublings = log2(device_seconds / ((longest or SHORTEST_DAYS * DAY) * NODE))
    count = NODE * 2 ** max(floor(doublings) if longest is None else ceil(doublings), 0)
    return Rented(device=device, count=count, seconds=float(device_seconds / count))
