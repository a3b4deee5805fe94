"""The generated parts of docs/accuracy.md, from the figures in docs/accuracy."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from generated import markdown_table

from sightline import quantities
from sightline.answers.decisions import decision_tables
from sightline.catalog import entry, names
from sightline.validation.left_out import Figures, together

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "accuracy"
AIM = 0.05
"""How much slower than the best a plan may be."""
COLUMNS = ["case", "mean error", "inside 80 % interval", "typical half-width", "measured on"]
ANCHORED = {
    "one anchor": "with one measured step of your cluster",
    "three anchors": "with three measured steps",
    "one anchor of the same model and cluster": "with one measured step of the same model and devices",
}
SERVED = {"ttft_s": "time to first token", "tpot_s": "time per token", "latency_s": "latency"}
SERVERS: Mapping[str, Callable[[str], bool]] = {
    "**Serving** with vLLM, no anchor": lambda suite: "anchored" not in suite,
    "Serving with vLLM, one measured load of the server as an anchor": lambda suite: "anchored" in suite,
}
"""What is asked of a loaded server, and which suites of real ones that are not full tell how far off it is."""


def figures(section: str) -> dict[str, Any]:
    """Return what a section's command printed."""
    found: dict[str, Any] = json.loads((FIGURES / f"{section}.json").read_text(encoding="utf-8"))
    return found


def training_constants() -> str:
    """Return a digest of what training is predicted with, and how sure it is: figures of others are out of date."""
    content = json.dumps([entry("training", name) for name in ("constants", "effects")], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def expectations() -> str:
    """Return the table of what to expect from an answer."""
    rows = [*_training(), *_anchored(), *_generation(), *_serving(), *_operators()]
    return markdown_table(COLUMNS, [list(row) for row in rows])


Row = tuple[str, str, str, str, str]


def _training() -> Iterable[Row]:
    found = figures("left-out")["left_out"]
    asked = "**Training** on your own cluster, no anchor"
    yield _of_sources(f"{asked}: dense models", found["dense"])
    yield _of_sources(f"{asked}: mixtures of experts", found["experts"])
    yield _of_sources("of these, fine-tuning, mostly small batches on few devices", found["fine-tuning"])
    devices = found["unmeasured_devices"]
    left = f"{devices['sources']} architectures left out, {devices['rows']} steps"
    yield _row("Training on a device of an architecture that nobody measured", devices, left)


def _of_sources(asked: str, found: Mapping[str, Any]) -> Row:
    return _row(asked, found, f"{found['sources']} sources left out, {found['rows']} steps")


def _row(asked: str, found: Mapping[str, Any], left: str) -> Row:
    return asked, percent(found["mape"]), _whole(found["coverage"]), _half(found["half_width"]), left


def _anchored() -> Iterable[Row]:
    for title, asked in ANCHORED.items():
        every = figures("anchors")[title]
        for kind, experts in (("dense models", False), ("with mixtures of experts", True)):
            if of := [one for one in every if one["experts"] == experts]:
                found = together(
                    [
                        Figures(rows=x["rows"], mape=x["anchored"], coverage=x["covered"], half_width=x["half_width"])
                        for x in of
                    ]
                )
                before, best = (percent(fmean(one[key] for one in of)) for key in ("unanchored", "best_factor"))
                left = f"{len(of)} sources left out; without an anchor {before}, with the best single factor {best}"
                yield _row(f"Training {asked}: {kind}", found, left)


def _generation() -> Iterable[Row]:
    found = entry("generation", "effects")["residuals"]
    for what in ("source", "device"):
        of = found[f"{what} left out"]
        asked = {
            "source": "**Generation** with a fitted engine, new source",
            "device": "Generation with a fitted engine, new device",
        }
        width = {"mape": of["mean"], "coverage": of["coverage"], "half_width": float(np.expm1(of["half_width"]))}
        counted = {"source": f"{of['groups']} sources", "device": "every device"}[what]
        yield _row(asked[what], width, f"{counted} left out, {of['rows']} cases")


def _serving() -> Iterable[Row]:
    every = [one for one in figures("suites")["suites"] if one["kind"] == "serving" and one["split"] == "test"]
    apart, sampled = (
        [one for one in every if one["suite"].startswith("serving-aiconfigurator") and _is_apart(one) == is_apart]
        for is_apart in (True, False)
    )
    full = [one for one in every if one["suite"].startswith("serving-vllm-saturated")]
    rest = [one for one in every if one not in (*sampled, *apart, *full)]
    for asked, is_of in SERVERS.items():
        of = [one for one in rest if is_of(one["suite"])]
        for key, said in SERVED.items():
            timed = [one for one in of if one["quantity"] in (f"{key}.p50", f"{key}.mean")]
            yield _of_runs(f"{asked}: {said}", timed, "that no fit saw")
    yield _of_runs("Serving with a saturated vLLM server: requests per second", full, "that no fit saw")
    asked = "Serving closed loops with vLLM, SGLang and TensorRT-LLM"
    for group, named in ((sampled, asked), (apart, "The same, disaggregated")):
        for key, said in SERVED.items():
            if of := [one for one in group if one["quantity"] == f"{key}.mean"]:
                yield _of_runs(f"{named}: {said}", of, "of InferenceX that no fit saw")


def _is_apart(result: Mapping[str, Any]) -> bool:
    """Whether some workers of the servers of a suite process prompts and others decode."""
    return "-disaggregated-" in str(result["suite"])


def _of_runs(asked: str, suites: Sequence[Mapping[str, Any]], which: str) -> Row:
    """Means and medians of answered runs, each of which counts the same."""
    runs = [one["cases"] - one["unanswered"] for one in suites]
    found = {key: float(np.average([one[key] for one in suites], weights=runs)) for key in ("mape", "coverage")}
    found["half_width"] = float(np.median(np.repeat([one["half_width"] for one in suites], runs)))
    counted = f"{sum(runs)} runs in {len(suites)} suites" if len(suites) > 1 else f"{sum(runs)} runs"
    if unanswered := sum(one["unanswered"] for one in suites):
        counted += f" ({unanswered} more unanswered)"
    return _row(asked, found, f"{counted} {which}")


def _operators() -> Iterable[Row]:
    measured = [r for r in figures("suites")["suites"] if r["kind"] == "operators" and _is_measured(r)]
    found = {key: fmean(_known(measured, key)) for key in ("mape", "coverage")}
    found["half_width"] = median(_known(measured, "half_width"))
    yield _row("**Single operators** on measured devices", found, f"test parts of {len(measured)} tables")
    known = [row for row in figures("operators")["rows"] if row["half_width"] is not None]
    siblings = [row for row in known if row["distance"] == "same architecture"]
    yield _of_devices("Single operators, only other devices of the architecture measured", siblings)
    unmeasured = [row for row in known if row["distance"] != "same architecture"]
    yield _of_devices("Single operators on an architecture that nobody measured", unmeasured)


def _of_devices(asked: str, rows: Sequence[Mapping[str, Any]]) -> Row:
    found = together(
        [
            Figures(
                rows=row["rows"],
                mape=row["mean"],
                coverage=row["coverage"],
                half_width=float(np.expm1(row["half_width"])),
            )
            for row in rows
        ]
    )
    middle = percent(median(row["median"] for row in rows))
    devices = len({row["device"] for row in rows})
    return _row(asked, found, f"{devices} devices left out, {len(rows)} tables, median of the medians {middle}")


def _is_measured(result: Mapping[str, Any]) -> bool:
    """Whether it is the test part of a table whose fitted part gave the constants."""
    return result["split"] == "test" and not result["suite"].endswith(("never fitted", "sibling fitted"))


def _known(results: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [result[key] for result in results if result[key] is not None]


def locked_table() -> str:
    """Return the errors of the sources that are locked as test."""
    rows = [
        [of["suite"], str(of["cases"]), percent(of["mape"]), percent(of["bias"], signed=True), _whole(of["coverage"])]
        for of in figures("locked")["suites"]
    ]
    return markdown_table(["source", "cases", "mean error", "bias", "inside 80 % interval"], rows)


def baseline_table() -> str:
    """Return the errors of published measurements before anything was fitted to them, by source and quantity."""
    found, latest = figures("baseline"), figures("published")
    today = {_published(row): row for row in latest["sources"]}
    rows = [
        [
            row["source"] + (f", `{row['variant']}`" if row["variant"] else ""),
            f"{row['kind']}: `{row['quantity']}`",
            f"{row['cases'] - sum(row['unanswered'].values())} of {row['cases']}",
            *(percent(row["mape"]), percent(row["bias"], signed=True)),
            *(_whole(row["coverage"]), _half(row["half_width"])),
            "/".join(str(then["said_not_to_fit"] or "-") for then in (row, today[_published(row)])),
            *(percent(today[_published(row)]["mape"]), _whole(today[_published(row)]["coverage"])),
        ]
        for row in found["sources"]
    ]
    heads = ["source", "quantity", "answered", "mean error", "bias", "80 % intervals hold", "typical half-width"]
    failed = [
        f"Of {of['plans']} plans that ran out of memory (`{of['file']}`), {of['said_to_fit']} were predicted to fit. "
        + "".join(
            f"Today {now['surely']} surely fit and {now['tight']} are tight"
            + (f" as `{now['variant']}`, written from that trainer's source since. " if now["variant"] else ". ")
            for now in latest["out_of_memory"]
            if now["file"] == of["file"]
        ).strip()
        for of in found["out_of_memory"]
    ]
    table = markdown_table([*heads, "ran, said not to fit/today", "error today", "hold today"], rows)
    said = f"Predicted on {found['asked']}; today is {latest['asked']}."
    return "\n\n".join((said, table, _mean_of_training(found, latest), *failed))


def _mean_of_training(found: Mapping[str, Any], latest: Mapping[str, Any]) -> str:
    """Return the mean over sources of training, each once, before the rows were looked at and today."""
    means = []
    for of in (found, latest):
        rows = [row for row in of["sources"] if row["kind"] == "training" and not row["variant"]]
        means.append(" and ".join(percent(fmean(row[key] for row in rows)) for key in ("mape", "coverage")))
    return (
        f"Over the training sources, each counted once, mean error and intervals that hold were {means[0]} before "
        f"anybody looked at these rows; today {means[1]}."
    )


def _published(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells a row of published measurements from others."""
    return tuple(row[key] for key in ("source", "kind", "quantity", "variant"))


def published_plans() -> str:
    """Return how close plans of published trainings come to the best ones of a search."""
    cases, compared = figures("plans")["plans"], ("of_all", "of_its_recomputation")
    reached, alike = (sum(case[of] <= 1 + AIM for case in cases) for of in compared)
    rows = [[case["name"], case["source"], *(_slower(case[of]) for of in compared)] for case in cases]
    told = f"{reached} of {len(cases)} plans are within {AIM:.0%} of the best".replace("%", " %")
    table = markdown_table(
        ["training", "source", "slower than the best", "than the best with the same recomputation"], rows
    )
    return f"{told}, {alike} of the best with the same recomputation.\n\n{table}"


def _slower(ratio: float) -> str:
    return f"{100 * (ratio - 1):.0f} %"


def sweeps_table() -> str:
    """Return how predictions decide between measured plans: sweeps by suite, single choices and memory of all."""
    found = figures("decisions")
    every = found["all"]
    sweeps, _, _ = decision_tables([*found["decisions"], every])
    _, pairs, _ = decision_tables([every])
    reached, ran = every["sweeps"], every["ran"]
    told = (
        f"The plan that is predicted to be fastest is within 5 % of the best measured one in "
        f"{reached['within_5_percent']} of {reached['count']} sweeps."
    )
    fits = (
        f"Of {sum(ran.values()):,} measured plans, {ran['no']} are predicted not to fit, and {ran['tight']} are tight."
    )
    tables = (markdown_table(list(one.headings), [list(map(str, row)) for row in one.rows]) for one in (sweeps, pairs))
    return "\n\n".join((told, *tables, fits))


def reading_rules() -> str:
    """Return how many rules of reading name single days or images of their source."""
    counts = {name: sum(map(_names_a_run, _launch_rules(name))) for name in names("published")}
    told = [f"`{name}`: {count}" for name, count in counts.items() if count and not _borrows(name)]
    return f"Reading rules that name single days or images of a source: {', '.join(told) or 'none'}."


def _launch_rules(name: str) -> Sequence[Mapping[str, Any]]:
    rules: Sequence[Mapping[str, Any]] = entry("published", name).get("csv", {}).get("launches", ())
    return rules


def _borrows(name: str) -> bool:
    """Whether a suite takes another's rules."""
    text = (Path(__file__).parents[1] / "src/sightline/catalog/data/published" / f"{name}.yaml").read_text("utf-8")
    return "same_as:" in text


def _names_a_run(rule: Mapping[str, Any]) -> bool:
    return bool({"since", "on", "image"} & rule["where"].keys())


def percent(value: float | None, *, signed: bool = False) -> str:
    """Return a fraction in per cent, a dash where nothing is known."""
    return "-" if value is None else quantities.percent(value, 1, signed=signed)


def _whole(value: float | None) -> str:
    return "-" if value is None else quantities.percent(value)


def _half(value: float | None) -> str:
    return "-" if value is None else f"±{quantities.percent(value)}"
