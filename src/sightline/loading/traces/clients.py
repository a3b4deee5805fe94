"""Results of load clients: their requests, the figures of the whole run and how it was sent, by ``clients.yaml``."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import Any, Final

from sightline.catalog.yaml12 import parse
from sightline.content import record
from sightline.errors import InputError
from sightline.loading.sources import numbered
from sightline.quantities import show

Rows = Sequence[Mapping[str, Any]]
PROCESSES: Final = {
    "constant": "constant",
    "poisson": "poisson",
    "concurrent": "closed",
    "synchronous": "closed",
    "throughput": "all_at_once",
}
"""Our arrival process for each word of a client."""
SECONDS: Final = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""What one is of a unit that stands beside a value."""
FAILED: Final = "that failed or did not finish"
MOST_FAILED: Final = 0.05
"""Share of failed requests up to which the others show the load that was sent."""


@record
class Client:
    """What one load client writes, as ``clients.yaml`` says."""

    name: str
    has: str
    names: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    rows: str = ""
    left_out: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
    changes: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, float] = field(default_factory=dict)
    load: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_log(self) -> bool:
        """Whether it is a list of requests, or a line for each."""
        return not (self.run or self.rows or self.figures)

    def wrote(self, document: Any) -> bool:
        """Whether a document looks like its own."""
        top = _first(document)
        return isinstance(top, Mapping) and any(top.keys() >= {*keys.split("+")} for keys in self.has.split())


@record
class Result:
    """What is in a result."""

    client: Client
    rows: Rows | None
    """Its requests under our names, in order of their times; None where the client wrote figures alone."""
    left_out: Mapping[str, int]
    """Requests that are not among the rows, by the reason."""
    unread: tuple[str, ...]
    """Keys that say how requests were sent and are not read."""
    figures: Mapping[str, float]
    arrival: Mapping[str, Any]
    """Keys of ``workload.arrival`` that it states."""


@cache
def clients() -> tuple[Client, ...]:
    """Return the clients whose results are read."""
    stated = parse(Path(__file__).with_name("clients.yaml").read_text(encoding="utf-8"))
    return tuple(Client(name=name, **described) for name, described in stated.items())


def client_of(document: Any) -> Client | None:
    """Return whose result a document is, or None."""
    client = next((client for client in clients() if client.wrote(document)), None)
    if client is None:
        return None
    names = (name for name, paths in client.names.items() if _at(_first(document), paths) is not None)
    return replace(client, name=next(names, client.name))


def _first(document: Any) -> Any:
    """A document, or the first of a list."""
    return document[0] if isinstance(document, list) and document else document


def failures(measured: Mapping[str, Any]) -> str:
    """Return how many requests of a measured load failed; empty where it is too few to matter, or not said."""
    completed, failed = (_number(measured.get(key)) or 0 for key in ("completed", "failed"))
    total = completed + failed
    return f"{failed:g} of {total:g} requests failed" if failed > MOST_FAILED * total else ""


def result_of(client: Client, document: Any, place: str) -> Result:
    """Return what is in the one run of a result; raise `InputError` where it has another form."""
    run = _run(client, document, place)
    left_out = {FAILED: sum(len(_at(run, path) or ()) for path in client.left_out.split())}
    for reason, rule in client.skipped.items():
        kept = [row for row in run if not _is_skipped(row, rule)] if isinstance(run, list) else run
        left_out[reason] = len(run) - len(kept)
        run = kept
    rows = _rows(client, run, place)
    figures = {ours: _in_unit(run, client, ours, paths) for ours, paths in client.figures.items()}
    figures = {ours: sum(map(bool, value)) if isinstance(value, list) else value for ours, value in figures.items()}
    if client.is_log and left_out[FAILED]:
        figures |= {"completed": len(rows or ()), "failed": left_out[FAILED]}
    return Result(
        client=client,
        rows=rows and sorted(rows, key=lambda row: _number(row.get("arrival_s")) or 0.0),
        left_out={reason: count for reason, count in left_out.items() if count},
        unread=tuple(path for path in client.changes.split() if _at(run, path)),
        figures={ours: float(n) for ours, n in figures.items() if _number(n) is not None and (n or ours != "failed")},
        arrival=_arrival({ours: _at(run, paths) for ours, paths in client.load.items()}),
    )


def _is_skipped(row: Any, rule: str) -> bool:
    """Whether a request has a value at a path, or after a ``=`` a certain one."""
    path, _, word = rule.partition("=")
    return _at(row, path) == word if word else bool(_at(row, path))


def _run(client: Client, document: Any, place: str) -> Any:
    """The result of a document, or of ``FILE#2`` its second one."""
    listed = document[client.run] if client.run else document
    results = listed if isinstance(listed, list) and not client.is_log else [] if client.run else [listed]
    number, count = numbered(place)[1], f"{len(results)} {client.run or 'results'}"
    if number is None and len(results) != 1:
        raise InputError(f"{place} has {count}; allowed: one, such as {place}#1")
    if not 1 <= (number or 1) <= len(results):
        raise InputError(f"{place} does not exist; the file has {count}")
    return results[(number or 1) - 1]


def _rows(client: Client, run: Any, place: str) -> list[dict[str, Any]] | None:
    """The requests; of lists side by side one from each."""
    if client.rows or client.is_log:
        listed = _at(run, client.rows) if client.rows else run
        if listed is None:
            return None
        if not isinstance(listed, list) or not all(isinstance(row, Mapping) for row in listed):
            raise InputError(f"{place} has an unknown structure; {client.name} has a list of requests")
        columns = client.columns.items()
        rows = [{ours: _in_unit(row, client, ours, paths) for ours, paths in columns} for row in listed]
        return [{ours: value for ours, value in row.items() if value is not None} for row in rows]
    lists = {ours: _at(run, path) for ours, path in client.columns.items()}
    given = {ours: values for ours, values in lists.items() if isinstance(values, list)}
    if not {"prompt_tokens", "output_tokens"} & given.keys():
        return None
    count = max(map(len, given.values()))
    for ours in ("prompt_tokens", "output_tokens"):
        if len(given.get(ours, ())) != count:
            raise InputError(f"{place} lacks {client.columns[ours]}, one for each request; run the client with details")
    return [_with_last_token({k: v[i] for k, v in given.items() if len(v) == count}) for i in range(count)]


def _with_last_token(row: dict[str, Any]) -> dict[str, Any]:
    """A request with its latency: the gaps between its tokens come after the first."""
    gaps = row.pop("gaps_s", None)
    if isinstance(gaps, list) and _number(row.get("ttft_s")) is not None and all(_number(g) is not None for g in gaps):
        *_, row["latency_s"] = accumulate(gaps, initial=row["ttft_s"])
    return row


def _arrival(stated: Mapping[str, Any]) -> dict[str, Any]:
    """How requests were sent; a rate without end is none. Empty where the client does not say."""
    rate, clients_, word = _number(stated.get("rate")), _number(stated.get("concurrency")), stated.get("process")
    process = PROCESSES.get(str(word)) or ("poisson" if rate else "closed" if clients_ else "")
    if process == "closed":
        return {"process": process, "concurrency": int(clients_ or 1)}
    if process in ("poisson", "constant") and rate:
        burstiness = _number(stated.get("burstiness")) or 1.0
        bursts = {"process": "gamma", "cv": burstiness**-0.5} if burstiness != 1.0 else {"process": process}
        return {**bursts, "rate": rate, **({"concurrency": int(clients_)} if clients_ else {})}
    return {"process": process} if process == "all_at_once" else {}


def _in_unit(row: Any, client: Client, ours: str, paths: str) -> Any:
    """What stands at a path, in the unit of our figure: of one that is stated beside it, else of its client's."""
    value, unit = _at(row, paths), client.units.get(ours)
    if unit is None or _number(value) is None:
        return value
    stated = _at(row, " ".join(path.rpartition(".")[0] + ".unit" for path in paths.split()))
    if stated is not None and stated not in SECONDS:
        raise InputError(f"{paths.split(maxsplit=1)[0]} is in {show(stated)}; allowed: {', '.join(SECONDS)}")
    return value * (unit if stated is None else SECONDS[stated])


def _number(value: Any) -> float | None:
    """A finite number above 0 or 0 itself; None of anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and isfinite(value) and value >= 0 else None


def _at(value: Any, paths: str) -> Any:
    """What stands at the first of several paths at which anything does."""
    for path in paths.split():
        found = value
        for step in path.split("."):
            if isinstance(found, list) and step.lstrip("-").isdigit() and -len(found) <= int(step) < len(found):
                found = found[int(step)]
            else:
                found = found.get(step) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None
