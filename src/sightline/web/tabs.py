"""What stands below the cards of a prediction, a tab at a time."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from sightline.answers import outline as out
from sightline.answers.profile import label_of, modules_table, stage_tables
from sightline.answers.summary import anchor_sentences
from sightline.errors import InputError, prefixed
from sightline.profile.metrics import metric_of
from sightline.render.html import Piece, joined, outline_piece, paragraphs, section, text
from sightline.web.opened import known_of
from sightline.web.pages import render
from sightline.web.request import SWEPT, Asked, read

if TYPE_CHECKING:
    from sightline.profile import Profile

TAB: Final = "tab"
"""The option: which tab is shown."""
_SWEEPS: Final[Mapping[str, Mapping[str, str]]] = {
    "training": {
        "devices": "",
        "plan.micro_batch": "1, 2, 4, 8",
        "plan.tensor_parallel": "1, 2, 4, 8",
        "plan.pipeline_parallel": "1, 2, 4, 8",
        "plan.zero_stage": "0, 1, 2, 3",
        "plan.recompute": "none, selective, full",
        "plan.dtype": "bf16, fp8",
        "workload.global_batch": "64, 128, 256, 512",
        "workload.sequence_length": "2048, 4096, 8192, 16384",
    },
    "generation": {
        "workload.batch": "1, 4, 16, 64, 256",
        "devices": "",
        "plan.tensor_parallel": "1, 2, 4, 8",
        "plan.quantization": "none, fp8, w4a16",
        "workload.prompt_tokens": "512, 2048, 8192, 32768",
        "workload.output_tokens": "64, 256, 1024",
    },
}
"""Fields that a sweep offers, with its first values; of the devices, other counts of those of the cluster."""


def tabs_piece(asked: Asked, profile: "Profile") -> Piece:
    """Return the tabs with what the chosen one shows."""
    chosen = asked.option(TAB, next(iter(TABS)))
    if chosen not in TABS:
        raise InputError(f"{TAB} is {chosen}; allowed: {', '.join(TABS)}")
    others = {key: value for key, value in asked.values.items() if key != TAB}
    addresses = {name: f"/predict?{urlencode({**others, TAB: name})}" for name in TABS}
    head = render("tabs.html", addresses=addresses, chosen=chosen)
    return joined(head, TABS[chosen](asked, profile), "</section>")


def _parts(*parts: out.Part) -> Piece:
    return outline_piece(out.Outline(parts=parts), level=3)


def _charted(asked: Asked, profile: "Profile", name: str) -> out.Charts:
    """The charts of a kind that a prediction has."""
    start, label, narrow = f"predict-{asked.option(TAB)}".rstrip("-"), label_of(profile), not asked.is_wide
    return out.Charts(answer=profile, label=label, start=start, is_narrow=narrow, names=(name,), titled=False)


def _time(asked: Asked, profile: "Profile") -> Piece:
    limits = render("later.html", address=f"/predict/why?{asked.scenario_query}", lines=12)
    more = out.Links(links=[out.Link("Explain every module", f"/explain?{asked.scenario_query}")])
    return _parts(_charted(asked, profile, "time")) + limits + _parts(modules_table(profile), more)


def _memory(asked: Asked, profile: "Profile") -> Piece:
    from sightline.explanation.advice import later_memory_sentences

    later = out.Lines(title="If it runs out of memory later", lines=list(later_memory_sentences(profile)))
    return _parts(_charted(asked, profile, "memory"), later, *stage_tables(profile))


def _roofline(asked: Asked, profile: "Profile") -> Piece:
    return _parts(_charted(asked, profile, "roofline"), modules_table(profile))


def _timeline(asked: Asked, profile: "Profile") -> Piece:
    none = "One stage: its passes run one after the other, as the times above say."
    found = _parts(_charted(asked, profile, "pipeline"))
    return found if found.charts else _parts(out.Lines(lines=[none], kind=out.FAINT))


def _sweep(asked: Asked, profile: "Profile") -> Piece:
    from sightline.anchors.corrected import predict
    from sightline.answers.several import swept_parts

    cluster = asked.values.get("cluster", "").partition("x ")
    count = int(cluster[0]) if cluster[0].isdigit() else 0
    counts = ", ".join(str(one) for one in (count // 2, count, 2 * count, 4 * count) if one)
    offers = {key: text or counts for key, text in _SWEEPS[profile.task.name].items() if text or counts}

    def swept(key: str, text: str) -> tuple[str, str]:
        """The key of the scenario, and its values."""
        counts = [one.strip() for one in text.split(",")]
        return ("cluster", ", ".join(f"{one}x {cluster[2]}" for one in counts)) if key == "devices" else (key, text)

    keys = [asked.option("vary1", next(iter(offers))), asked.option("vary2")]
    texts = [asked.option(f"values{at}") or offers.get(key, "") for at, key in enumerate(keys, 1)]
    stated = [(key, text, *swept(key, text)) for key, text in zip(keys, texts, strict=True)]
    head = render("sweep.html", fields=stated, offers=offers, values=asked.values)
    sweep = {key: Asked({f"{SWEPT}{key}": text}).mapping["sweep"][key] for *_, key, text in stated if key and text}
    with prefixed("values1: "):
        loaded = read([{**asked.mapping, "sweep": sweep}])
    known = known_of(asked)
    profiles = [predict(one, anchor=known) for one in loaded.scenarios]
    cells = [
        {name: one.cluster.devices if name == "devices" else cell[key] for name, _, key, _ in stated if name}
        for cell, one in zip(loaded.cells, loaded.scenarios, strict=True)
    ]
    chart = out.Charts(
        answer=(profiles, cells),
        label=f"sweep of {' and '.join(sweep)}",
        start="predict-sweep",
        function="sightline.charts.study_charts:swept_chart",
        titled=False,
    )
    found = _parts(chart, *swept_parts(profiles, loaded.cells))
    return joined(head, found, render("later.html", address=f"/predict/depends?{asked.scenario_query}", lines=12))


def depends(asked: Asked) -> Piece:
    """Return how much each number of the hardware, and each single change of the plan, would change the answer."""
    from sightline.anchors.corrected import sensitivity
    from sightline.answers.analyses import sensitivity_outline

    parts = sensitivity_outline(sensitivity(asked.scenario(), anchor=known_of(asked)), "predict-depends").parts
    shown = [part for part in parts if isinstance(part, out.Charts | out.Rows)]
    return section("What it depends on", _parts(*shown), level=3)


def _trust(_: Asked, profile: "Profile") -> Piece:
    """Return what was learned from measurements, the form of one measured figure, and the evidence."""
    from sightline.answers.validation import trust_outline
    from sightline.prediction.anchoring.timed import TIMES
    from sightline.validation.nearest import nearest_cases

    figures = {key: metric_of(key) for key in TIMES.get(profile.task.name, ())}
    found = outline_piece(trust_outline(profile, nearest_cases(profile.scenario)), level=3)
    return joined(paragraphs(anchor_sentences([profile])), render("anchor.html", figures=figures), found)


def _files(asked: Asked, profile: "Profile") -> Piece:
    from sightline.answers.launched import launch_parts

    typed = text(command(asked), "command", file="predict.sh")
    stated = text(scenario_text(asked), "scenario", file="scenario.yaml")
    shown = section("Command line", typed, level=3) + section("Scenario", stated, level=3)
    return joined(_parts(*launch_parts(profile.scenario)), render("files.html", query=asked.scenario_query), shown)


def command(asked: Asked) -> str:
    """Return what gives the same answer in a terminal."""
    return f"sightline predict - <<'YAML'\n{scenario_text(asked)}YAML"


def scenario_text(asked: Asked) -> str:
    """Return the scenario as a file."""
    import yaml

    return yaml.safe_dump(dict(asked.mapping), sort_keys=False, allow_unicode=True, width=100)


TABS: Final[Mapping[str, Callable[[Asked, "Profile"], Piece]]] = {
    "time": _time,
    "memory": _memory,
    "roofline": _roofline,
    "timeline": _timeline,
    "sweep": _sweep,
    "trust": _trust,
    "files": _files,
}
"""What each tab shows."""
