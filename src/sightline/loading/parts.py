"""``measured``: what somebody measured, under the keys of results and in any unit of its quantity."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sightline import quantities
from sightline.content import remembered
from sightline.errors import InputError
from sightline.loading.checks import Complaints, check, each, require, with_value
from sightline.loading.clusters import forgotten_units, made_of_technology, read_as, read_cluster
from sightline.loading.models import ReadModel, resolve_model
from sightline.loading.plans import ReadPlan
from sightline.loading.sources import check_file, files_allowed, numbered, opened_file, stated_path
from sightline.loading.traces.clients import failures
from sightline.scenario import Cluster
from sightline.scenario.rules import known_facts
from sightline.validators import Keys, Kind, anything, flag, name_or_mapping, share, text, texts


def _amount(dimension: quantities.Dimension) -> Kind:
    """An amount of 0 or more; a plain number stays as it is."""

    def check(value: Any) -> float:
        amount = quantities.parse_quantity(value, dimension, zero=True)
        return amount if isinstance(value, str) else value

    return check


def _parts(of: Kind) -> Kind:
    """A mapping of parts to amounts."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InputError(f"is {quantities.show(value)}; allowed: a mapping from part to amount")
        return {str(part): _named(str(part), of, amount) for part, amount in value.items()}

    return check


def _named(part: str, of: Kind, amount: Any) -> Any:
    try:
        return of(amount)
    except InputError as error:
        raise InputError(f"has {part}, which {error}") from None


def _whole_or_parts(dimension: quantities.Dimension) -> Kind:
    """One amount, or a mapping of its parts to amounts."""
    whole, parts = _amount(dimension), _parts(_amount(dimension))
    return lambda value: parts(value) if isinstance(value, Mapping) else whole(value)


def _words(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"is {quantities.show(value)}; allowed: text")
    return value


TEXTS = ("source", "bottleneck", "evidence", "note", "date", "requests")
NO_FIGURES = (*TEXTS, "fits", "steps")
"""Keys whose values are no figures of a result."""
MEASURED: Keys = {
    **each(_words, " ".join(TEXTS)),
    **each(_amount(quantities.SECONDS), "step_time_s run_time_s forward_pass_s time_s"),
    **each(
        _amount(quantities.TOKENS_PER_SECOND),
        "tokens_per_s tokens_per_s_per_device output_tokens_per_s output_tokens_per_s_per_device",
    ),
    **each(_amount(quantities.FLOPS), "model_flops_per_s_per_device flops_per_s_per_device flops_per_s"),
    **each(share, "mfu hfu"),
    **each(_amount(quantities.JOULES), "energy_j energy_per_step_j"),
    **each(_amount(quantities.USD), "cost_usd cost_usd_per_million_tokens"),
    **each(_amount(quantities.BYTES), "layer_activation_bytes bytes"),
    "bytes_per_s": _amount(quantities.BYTES_PER_SECOND),
    **each(
        _amount(quantities.COUNT),
        "relative_layer_activations requests_per_s goodput_requests_per_s completed failed flops steps",
    ),
    "memory_bytes": _whole_or_parts(quantities.BYTES),
    **each(_whole_or_parts(quantities.SECONDS), "ttft_s tpot_s itl_s latency_s"),
    "phases": _parts(_amount(quantities.SECONDS)),
    "fits": flag,
}
"""``measured``."""


SCENARIO: Keys = {
    "name": text,
    **each(name_or_mapping, "model cluster"),
    **each(anything, "workload plan measured"),
    "unread": texts,
}
"""The top of a scenario."""
MODEL = {"model": "a catalog name, a path or a mapping"}
CLUSTER = {"cluster": "'<count>x <device>', a catalog name or a mapping"}


class Parts(NamedTuple):
    """What scenarios of all tasks have, as far as it could be read."""

    name: str
    model: ReadModel | None
    cluster: Cluster | None
    measured: Mapping[str, Any]
    workload: Any
    plan: Any
    remarks: tuple[str, ...] = ()
    """What is answered of the cluster although it may not be meant, and what of a launch was not understood."""
    unread: tuple[str, ...] = ()

    @property
    def described(self) -> dict[str, Any]:
        """The fields that descriptions of all scenarios with a model have."""
        model = None if self.model is None else self.model.model
        shared = {"name": self.name, "cluster": self.cluster, "measured": self.measured, "unread": self.unread}
        return {**shared, "model": model}


def read_parts(
    mapping: Mapping[str, Any], needed: Mapping[str, str], base: Path | str | None, complaints: Complaints
) -> Parts:
    """Return the parts of a scenario, mistakes noted; a model is read only where one is ``needed``."""
    top = check(SCENARIO, mapping, "", complaints)
    if isinstance(mapping, Mapping):
        require(top, needed, "", complaints)
    named, stated = top.values.get("model") if "model" in needed else None, top.values.get("cluster")
    model = None if named is None else complaints.note(resolve_model, named, Path(base or ""))
    cluster = None if stated is None else complaints.note(read_cluster, stated)
    stated_figures, sent = _of_file(top.values.get("measured"), Path(base or ""), complaints)
    measured = check(MEASURED, _nested(stated_figures, complaints), "measured", complaints).values
    other = _other_load(sent, top.values.get("workload"))
    unread = tuple(top.values.get("unread", ()))
    said = [f"{top.values['measured']} was measured with {', '.join(other)}{UNLIKE}"] if other else []
    said += [f"measured: {failed}"] if (failed := failures(measured)) else []
    said += [f"not read from the launch: {quantities.listed(unread)}; the prediction is less certain"] if unread else []
    return Parts(
        name=top.values.get("name", ""),
        model=model,
        cluster=cluster,
        measured=measured,
        workload=top.values.get("workload"),
        plan=top.values.get("plan"),
        remarks=(*said, *(() if cluster is None or stated is None else _remarks(stated, cluster))),
        unread=unread,
    )


def _of_file(measured: Any, base: Path, complaints: Complaints) -> tuple[Any, Mapping[str, Any]]:
    """What a file says was measured, and of a load client's result how it was sent; else a log of requests."""
    if not isinstance(measured, str) or not (files_allowed() or opened_file(measured)):
        return measured, {}
    check_file("measured", measured)
    path = stated_path(base, measured)
    if not numbered(path)[0].is_file():
        complaints.add(f"measured is {quantities.show(measured)}; allowed: figures by name, or a file of results")
        return None, {}
    from sightline.loading.traces import measured_in

    figures = complaints.note(measured_in, path) or {"requests": str(path.resolve())}
    return figures, figures.pop("sent", {})


UNLIKE = ", unlike the workload"
"""How a warning ends that a measurement is of another load; no anchor has one."""


def _other_load(sent: Mapping[str, Any], workload: Any) -> list[str]:
    """The rate or concurrency of a measurement where a workload states another load."""
    if not isinstance(workload, Mapping):
        return []
    at_once = {"rate": None} if workload.get("task") == "serve" and "trace" not in workload else {}
    arrival, batch = workload.get("arrival", at_once), workload.get("batch")
    stated = {"concurrency": batch} if isinstance(batch, int) else arrival if isinstance(arrival, Mapping) else {}
    return [
        f"{key} {value:g}"
        for key, value in sent.items()
        if stated and key in ("rate", "concurrency") and str(stated.get(key)) not in (str(value), f"{value:g}")
    ]


def _nested(measured: Any, complaints: Complaints) -> Any:
    """What was measured, with dotted keys such as ``ttft_s.mean`` as parts of their figure."""
    if not isinstance(measured, Mapping):
        return measured
    nested: Any = {key: value for key, value in measured.items() if str(key).partition(".")[0] == key}
    for key in measured.keys() - nested.keys():
        nested = complaints.note(_with_part, nested, str(key), measured[key]) or nested
    return nested


def _with_part(measured: Mapping[str, Any], key: str, value: Any) -> Any:
    figure, _, part = key.partition(".")
    if figure not in MEASURED:
        return {**measured, key: value}
    if isinstance(parts := measured.get(figure), Mapping) and part in parts:
        raise InputError(f"measured.{key} is stated twice")
    return with_value({"measured": measured}, f"measured.{key}", value)["measured"]


@remembered(256)
def _remarks(stated: str | Mapping[str, Any], cluster: Cluster) -> tuple[str, ...]:
    return (*read_as(stated), *made_of_technology(cluster), *forgotten_units(cluster))


def facts_of(
    parts: Parts, workload: Mapping[str, Any], plan: ReadPlan[Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what rules are asked about: the parts, the workload, and the ``values`` that the plan comes to."""
    return known_facts(
        model=None if parts.model is None else parts.model.model,
        cluster=parts.cluster,
        workload=workload,
        plan=values,
        framework=plan.framework,
        stated=plan.stated,
    )
