"""What people drop on the page: recognized by its content, and made the address that shows it.

Files are bounded in size. Results and traces of requests are kept for a while; all others are read once.
"""

import json
import os
import re
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sightline.answers.labels import by_dotted_key, phrases, texts_of_scenario, title
from sightline.errors import InputError, SightlineError, prefixed
from sightline.loading import sources
from sightline.quantities import BYTES, parse_quantity
from sightline.web.fields import START, completed, groups
from sightline.web.jobs import Request
from sightline.web.request import ANCHOR, CONFIG, Asked, read
from sightline.whole_files import write_whole

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sightline.loading.traces.shapes import Shape
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile

PATH: Final = "/open"
TRACE, NAME, OF_SCENARIO = "trace", "name", "of_scenario"
"""Fields of an address: what stands for a trace's content, its name, and whether it is of the scenario there."""
VARIABLE: Final = "SIGHTLINE_TRACE_SIZE"
"""Environment variable with another largest size than the usual."""
_USUAL: Final = "64 MB"
_MOST_NAME: Final = 80
_MOST_ADDRESS: Final = 50_000
"""Characters that an address may have."""
_MOST_KEPT, _MOST_KEPT_S = 20, 30 * 86400
"""Files, and for how long since they were opened."""
_HEAD: Final = 2**20
_SERVED: Final = ("generate", "serve")
READ: Final = (
    "a PyTorch trace, a scenario, a config.json, a launch script or configuration, a benchmark result, or a trace of "
    "requests"
)


def most_bytes() -> int:
    """Return how large a file that is opened may be, as it is sent: usually packed."""
    with prefixed(f"{VARIABLE} "):
        return int(parse_quantity(os.environ.get(VARIABLE) or _USUAL, BYTES))


class Found(NamedTuple):
    """What a file is, and the fields of the address that shows it."""

    what: str
    values: Mapping[str, str]
    remarks: tuple[str, ...] = ()


class _Sent(NamedTuple):
    """A file as it was sent from a page."""

    body: bytes
    name: str
    page: Asked
    """The scenario of the page, or the usual one."""

    @property
    def is_trace(self) -> bool:
        """Whether it is a profiler's trace, by its first bytes."""
        from sightline.traces.files import begins_as_trace

        head = self.body[:_HEAD]
        with suppress(zlib.error):
            head = zlib.decompressobj(31).decompress(self.body, _HEAD)
        return begins_as_trace(head)

    @property
    def text(self) -> str:
        """The text, which ends with a line break so that it is no path."""
        return f"{self.body.decode('utf-8-sig', 'replace')}\n"


def open_route() -> "BaseRoute":
    """Return the route that takes a file as the body of a request, and answers with the address that shows it."""

    async def sent(request: HttpRequest) -> Response:
        fields, body = dict(request.query_params), await request.body()
        page = Asked.of(parse_qsl(fields.get("of", "")))
        page = page if {"model", CONFIG} & page.values.keys() else Asked({**START, **page.values})
        file = _Sent(body, PurePath(fields.get(NAME, "file")).name[-_MOST_NAME:] or "file", page)
        if file.is_trace:
            return await _traced(request, file, is_of_scenario=OF_SCENARIO in fields)
        found = await run_in_threadpool(recognized, file)
        view = _view(found.values.get("workload.task", ""), fields.get("view", ""))
        address = f"/{view}?{urlencode(found.values)}"
        if len(address) > _MOST_ADDRESS:
            raise InputError(f"{file.name} is too long for an address; use the command line")
        return JSONResponse({"address": address, "what": f"{file.name}: {found.what}", "remarks": found.remarks})

    return Route(PATH, sent, methods=["POST"])


async def _traced(request: HttpRequest, file: _Sent, *, is_of_scenario: bool) -> Response:
    """Begin to explain a trace; the address shows it."""
    scenario = {**file.page.scenario_values, OF_SCENARIO: "yes"} if is_of_scenario else {}
    asked = Asked({**scenario, TRACE: sha256(file.body).hexdigest(), NAME: file.name})
    work = await run_in_threadpool(trace_job, asked)
    await run_in_threadpool(request.app.state.jobs.start, work, file.body)
    return JSONResponse({"address": f"/explain?{asked.query}", "what": f"{file.name}: a PyTorch trace"}, 202)


def trace_job(asked: Asked) -> Request | None:
    """Return the work on the trace that an address stands for; None for an address without one."""
    if TRACE not in asked.values:
        return None
    scenario = {"scenario": asked.mapping} if OF_SCENARIO in asked.values else {}
    name = PurePath(asked.option(NAME, "trace")).name[:_MOST_NAME]
    return Request(kind="trace", mapping={TRACE: asked.option(TRACE), **scenario}, options={"name": name})


def _view(task: str, here: str) -> str:
    """The view that shows a scenario of a task: that at hand, where it has the task."""
    from sightline.web.views import views

    fits = (one.name for one in views() if one.name == here and one.shares_scenario and task in (one.tasks or (task,)))
    return next(fits, "serve" if task == "serve" else "predict")


def recognized(file: _Sent) -> Found:
    """Return what a file is; raise `InputError` with what it was tried as."""
    from sightline.loading.foreign import MODEL, of_mapping
    from sightline.loading.traces import measured_in, open_trace

    if not file.body.strip():
        raise InputError(f"{file.name} is empty")
    path, remarks = _keep(file), list[str]()
    try:
        if (measured := measured_in(path)) is not None:
            return _of_result(file, measured, f"{sources.OPENED}{path.name}")
        try:
            shape = open_trace(path, remarks.append).shape
        except InputError as error:  # most texts are none
            said = list(error.problems)
        else:
            return _of_requests(file, shape, f"{sources.OPENED}{path.name}", remarks)
    except InputError as error:
        raise InputError([one.replace(str(path), file.name) for one in error.problems]) from None
    path.unlink()
    with sources.without_files():
        document: Any = None
        with suppress(InputError):
            document = sources.question_of(sources.read_source(file.text).documents[0].mapping)
        keys = {str(key).partition(".")[0] for key in document} if isinstance(document, Mapping) else set()
        if len(keys & {"model", "cluster", "workload", "plan"}) > 1:
            values = texts_of_scenario(document)
            return Found(f"a scenario: {_label(values)}", values)
        if (form := of_mapping(document)) is not None and form is MODEL:
            return _of_config(file, document)
        try:
            return _of_launch(file)
        except InputError as error:
            known = "readable: " not in error.problems[0]
            said = list(error.problems) if known else [f"{file.name} is not recognized; allowed: {READ}", *said]
    raise InputError([one.replace(str(path), file.name).replace("the text", file.name) for one in said])


def _keep(file: _Sent) -> Path:
    """Keep a file under the name of its content, and forget those that are too old or too many."""
    name = f"{sha256(file.body).hexdigest()[:12]}-{re.sub(r'[^A-Za-z0-9_.-]+', '-', file.name)}"
    write_whole(sources.opened_folder() / name, file.body)
    kept = sorted(sources.opened_folder().glob("*-*"), key=lambda path: -path.stat().st_mtime)
    for place, path in enumerate(kept):
        if place >= _MOST_KEPT or time.time() - path.stat().st_mtime > _MOST_KEPT_S:
            path.unlink(missing_ok=True)
    return sources.opened_folder() / name


def _label(values: Mapping[str, str]) -> str:
    """What a scenario is, in a few words; what is wrong with it is said by the view that shows it."""
    with suppress(SightlineError):
        scenario: Any = Asked(values).loaded.scenarios[0]
        return ", ".join([title(scenario), *phrases(scenario)[:3]])
    return "with something to correct"


def _of_config(file: _Sent, document: Mapping[str, Any]) -> Found:
    """The scenario of the page with another model."""
    from sightline.loading.models import resolve_model

    model = resolve_model(document, Path()).model
    others = {k: text for k, text in file.page.values.items() if k.partition(".")[0] not in ("model", CONFIG, ANCHOR)}
    what = f"a config.json: {document.get('model_type', 'model')}, {model.parameters / 1e9:.3g} B parameters"
    return Found(what, {CONFIG: json.dumps(document, separators=(",", ":")), **others})


def _of_launch(file: _Sent) -> Found:
    """The scenario of a launch, with what that does not say as the page states it."""
    from sightline.launching import completed as completing
    from sightline.launching import read as read_launch

    reading, page = read_launch(file.text), file.page.mapping
    task, load = reading.scenario.get("workload", {}).get("task", ""), page.get("workload", {})
    if task == "generate" and load.get("task") in _SERVED:  # of its load a command of a server says nothing
        reading = replace(reading, scenario={**reading.scenario, "workload": load}, assumed={})
    starts = completed({"workload.task": task}, groups())
    stated = {**{key: sources.value_of(key, text) for key, text in starts.items()}, **dict(by_dotted_key(page))}
    known = {key: stated[key] for key in reading.missing if key in stated and not key.startswith("plan.")}
    if count := re.search(r"(\d+)x ", reading.missing.get("cluster", "")):
        known["cluster"] = re.sub(r"^\d+x ", count[0], str(stated["cluster"]))
    reading = completing(reading, known)
    values = texts_of_scenario(reading.scenario)
    missing = [f"{key} is missing: {what}" for key, what in reading.missing.items()]
    taken = [f"{key} {value} as on the page before" for key, value in known.items()]
    taken += [f"{key} {value} assumed" for key, value in reading.assumed.items()]
    what = f"{reading.read_as.removeprefix('parsed the text as ')}: {_label(values)}"
    return Found(what, values, remarks=(*missing, *taken, *reading.without_counterpart))


def _of_requests(file: _Sent, shape: "Shape", kept: str, remarks: list[str]) -> Found:
    """The load of a trace on the model, cluster and engine of the page."""
    from sightline.loading.traces.shapes import TIME

    page = file.page.scenario_values
    parts = ("plan.", "workload.slo.") if page.get("workload.task") in _SERVED else ()
    others = {key: text for key, text in page.items() if key.startswith(("model", "cluster", CONFIG, *parts))}
    sent = {"process": "trace"} if TIME in shape.columns else shape.arrival or {"process": "all_at_once"}
    load = {"workload.task": "serve", "workload.trace": kept, **_arrival(sent)}
    said = tuple(one.replace(str(sources.opened_file(kept)), file.name) for one in remarks)
    return Found(shape.name or "a trace of requests", {**others, **load}, remarks=said)


def _arrival(sent: Mapping[str, Any]) -> dict[str, str]:
    return {f"workload.arrival.{key}": sources.as_text(value) for key, value in sent.items()}


def _of_result(file: _Sent, measured: Mapping[str, Any], kept: str) -> Found:
    """The scenario of the page, corrected by what a load client measured of it."""
    page, task = file.page.scenario_values, file.page.option("workload.task")
    if task not in _SERVED:
        said = f"{file.name} is {measured['source']}, but workload.task is {task or 'missing'}"
        raise InputError(f"{said}; open it in a scenario of the measured server, with task serve or generate")
    server = {key: text for key, text in page.items() if not key.startswith(("workload.", "name"))}
    load = {key: text for key, text in page.items() if key.startswith("workload.requests")}
    if task == "generate":
        sizes = {key: page.get(f"workload.{key}", "") for key in ("prompt_tokens", "output_tokens")}
        load = {f"workload.requests.{key}": text for key, text in {"count": "256", **sizes}.items()}
    load = {"workload.task": "serve", **load, **_arrival(measured["sent"]), "measured": kept}
    anchor = urlencode({"name": file.name, **server, **load})
    (told,) = learned(anchor).to_dicts("generation")
    anchors = dict.fromkeys([*file.page.option(ANCHOR).splitlines(), anchor])
    return Found(f"{measured['source']}; {told['sentence']}", {**page, ANCHOR: "\n".join(anchors)})


@lru_cache(8)
def learned(anchors: str) -> "Anchored":
    """Return what anchors of an address teach: a scenario with ``measured`` a line, as the query of an address."""
    from sightline.anchors.corrected import anchored as learn

    with prefixed(f"{ANCHOR}: "):
        stated = [Asked.of(parse_qsl(line)).mapping for line in anchors.splitlines()]
        measured: Any = read(stated).scenarios
        return learn(measured)


def anchored(asked: Asked) -> "Profile":
    """Return the prediction of what an address asks, corrected by its anchors where they measured its task."""
    from sightline.anchors.corrected import predict

    return predict(asked.scenario(), anchor=known_of(asked))


def known_of(asked: Asked) -> "Anchored | tuple[()]":
    """Return what the anchors of an address that measured its task teach."""
    anchors = anchors_for(asked)
    return learned(anchors) if anchors else ()


def anchors_for(asked: Asked) -> str:
    """Return the anchors of an address that measured its task; empty where they measured another one."""
    stated = asked.option(ANCHOR)
    known = learned(stated) if stated else None
    is_served = asked.option("workload.task") in _SERVED
    return stated if known and (known.requests if is_served else known.steps) else ""
