"""The parts of a cluster - device, links, network, host - by catalog name, by mapping, or a mapping over a name."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from sightline import catalog
from sightline.content import record
from sightline.errors import InputError, nearest
from sightline.loading.checks import Checked, Complaints, check, dotted, each, needs_of, require
from sightline.quantities import BYTES_PER_SECOND, FLOPS, parse_quantity, show
from sightline.scenario import Device, Host, Interconnect, Network
from sightline.validators import Keys, anything, as_stated, declared, description_of, keys_of, quantity, text

Values = dict[str, Any]
"""A part's figures by the catalog's keys, in SI units."""

SYNTHESIZED = "synthesized from"
"""How the source of a device begins that is made of technology."""
SOURCED: Keys = {**each(text, "name same_as source date evidence"), **each(anything, "sources evidences"), "note": text}
"""Keys of a catalog entry, or of an inline mapping in its place: a name, and where its figures come from."""


@record
class Part:
    """A kind of part: its key in ``cluster``, its folder in the catalog, and its keys."""

    key: str
    folder: str
    description: type
    keys: Keys

    def build(self, values: Values) -> Any:
        """Return the part's description."""
        named = {key: values[key] for key in keys_of(self.description) if key in values}
        if "relatives" in named:
            named["relatives"] = tuple(named["relatives"])
        if "beyond" in named:
            named["beyond"] = self.build(_of_catalog(self.folder, named["beyond"]))
        return description_of(self.description, named)


def stated_fields(part: Part, mapping: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a part's description that a mapping states figures of."""
    return frozenset(field for key, (field, _) in declared(part.description).items() if mapping.get(key) is not None)


def device_to_mapping(device: Device) -> dict[str, Any]:
    """Return a device under the keys that a catalog entry states it with."""
    return as_stated(device) | {"peak_flops": dict(device.peak_flops)}


def _part(key: str, folder: str, description: type, *further: str) -> Part:
    """A kind of part, with ``further`` keys that are no figures of the description."""
    keys = {**SOURCED, **keys_of(description), **dict.fromkeys(further, anything)}
    return Part(key=key, folder=folder, description=description, keys=keys)


DEVICE = _part("device", "devices", Device, "server", "technology")
INTERCONNECT = _part("intra_node", "interconnects", Interconnect)
NETWORK = _part("network", "networks", Network)
HOST = _part("host", "hosts", Host)


def read_part(part: Part, stated: object, below: object, complaints: Complaints) -> Values | None:
    """Return the figures of what the scenario states over what lies ``below`` it (the usual server's), or None.

    Either may be a catalog name, a mapping or None; a stated mapping changes single figures of what lies below.
    """
    key = f"cluster.{part.key}"
    if stated is None:
        if below is None:
            complaints.add(f"{key} is missing; needed: {_allowed(part)}")
            return None
        stated, below = below, None
    if isinstance(stated, str):
        known = catalog.names(part.folder)
        stated = catalog.name_of(part.folder, stated)
        if stated in known:
            return _of_catalog(part.folder, stated)
        meant = catalog.name_of(part.folder, stated.rpartition("-")[2])
        near = f" - did you mean '{meant}'?" if meant in known else nearest(stated, known)
        near = _rate_alone(part, stated) or near
        complaints.add(f"{key} is {show(stated)}; allowed: {_allowed(part)}{near}")
        return None
    return _mapped(part, stated, below, key, complaints)


_RATES = {"network": ("bandwidth_per_node", "all ports of a node together"), "intra_node": ("bandwidth", "of a device")}
"""The key of a link's rate, by part, and what the rate is of."""


def _rate_alone(part: Part, stated: str) -> str:
    """How to state a rate that stands alone: nobody knows whether it is a port's, a device's or a node's."""
    try:
        parse_quantity(stated, BYTES_PER_SECOND)
    except InputError:
        return ""
    key, whose = _RATES.get(part.key, ("", ""))
    return f", such as {{{key}: {stated}}} ({whose}, per direction)" if key else ""


def _allowed(part: Part) -> str:
    return f"a catalog name (`sightline catalog {part.folder}`) or a mapping"


@cache
def _of_catalog(folder: str, name: str) -> Values:
    part = next(p for p in (DEVICE, INTERCONNECT, NETWORK, HOST) if p.folder == folder)
    complaints = Complaints()
    values = _checked(part, catalog.entry(folder, name), f"catalog.{folder}.{name}", complaints)
    if "technology" in values:
        complaints.add(
            f"catalog.{folder}.{name}.technology is not allowed in catalog entries; set it in cluster.device"
        )
    require(Checked(values=values), needs_of(part.keys), f"catalog.{folder}.{name}", complaints)
    complaints.raise_any()
    return {**values, "name": name}


def _mapped(part: Part, stated: object, below: object, key: str, complaints: Complaints) -> Values | None:
    read = stated_over(part, stated, below, key, complaints)
    return None if read is None else merged(part, *read, key, complaints)


def stated_over(
    part: Part, stated: object, below: object, key: str, complaints: Complaints
) -> tuple[Values, Values] | None:
    """Return the figures that a mapping states, and those of what lies below it; None with mistakes noted."""
    before = len(complaints.problems)
    values = _checked(part, stated, key, complaints)
    base_name = values.pop("same_as", below)
    if "server" in values:
        complaints.add(
            f"{dotted(key, 'server')} is not a known key; set per_node, intra_node, network and host in cluster"
        )
    base = read_part(part, base_name, None, complaints) if base_name is not None else {}
    return None if base is None or len(complaints.problems) > before else (values, base)


def merged(part: Part, values: Values, base: Values, key: str, complaints: Complaints) -> Values | None:
    """Return stated figures over those below them; None where one that is needed is missing, which is noted."""
    before = len(complaints.problems)
    whole = base | values
    if "peak_flops" in base and "peak_flops" in values:
        whole["peak_flops"] = base["peak_flops"] | values["peak_flops"]
    if values:
        whole["source"] = values.get("source", "stated in the scenario")
    require(Checked(values=whole), needs_of(part.keys), key, complaints)
    return {"name": part.key, **whole} if len(complaints.problems) == before else None


def _checked(part: Part, mapping: object, key: str, complaints: Complaints) -> Values:
    memory = mapping.get("memory") if isinstance(mapping, Mapping) and part is DEVICE else None
    if isinstance(memory, str) and memory in catalog.names("memories"):
        complaints.add(f"{key}.memory is a size; set {key}.technology to {{node: 4nm, memory: {memory}}}")
        return {}
    values = check(part.keys, mapping, key, complaints, partial=True).values
    if "peak_flops" in values:
        values["peak_flops"] = _peaks(values["peak_flops"], dotted(key, "peak_flops"), complaints)
    return values


def _peaks(peaks: object, key: str, complaints: Complaints) -> dict[str, float]:
    if not isinstance(peaks, Mapping) or not peaks or not all(isinstance(k, str) for k in peaks):
        complaints.add(
            f"{key} is {show(peaks)}; allowed: a mapping from dtype to FLOP/s, such as {{bf16: 312 TFLOP/s}}"
        )
        return {}
    return check(dict.fromkeys(peaks, quantity(FLOPS)), peaks, key, complaints).values
