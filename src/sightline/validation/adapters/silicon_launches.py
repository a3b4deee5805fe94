"""How InferenceX started an engine, where its rows in AIConfigurator's sample do not say: cache type, drafted tokens.

The suite's catalog entry lists ``launches``: rules ``{where, set}``. In ``where`` the facts of a row (engine, model,
device, precision, version, image, mode, prompt, answer, devices, experts, ranks, concurrency) equal a value or one of
several; ``since`` and ``on`` compare its day, ``least`` its concurrency. Rules that hold add up, later ones over
earlier ones. ``served`` are such rules for limits of the engine's scheduler, which only a load makes felt.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sightline.validation.cells import Cells, scalar

LAYOUT = {"devices": "devices", "experts": "plan.expert_parallel", "ranks": "plan.data_parallel"}


def launched(cells: Cells, row: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the rules say of a row (``cache``: its type, ``drafted``: tokens per pass); {} where nothing."""
    facts = _facts(cells, row)
    said: dict[str, Any] = {}
    for rule in rules:
        if all(_holds(facts, key, wanted) for key, wanted in rule["where"].items()):
            said |= rule["set"]
    return said


def _facts(cells: Cells, row: Mapping[str, Any]) -> dict[str, Any]:
    source = cells["silicon_data_source"]
    day = re.search(r"measured=(\d{4}-\d\d-\d\d)", source)
    image = re.search(r"[/#]([^/;\s]+:[^/;\s]+)$", source)
    return {
        "engine": row["plan.framework"],
        "model": row["model"],
        "device": row["device"],
        "precision": cells["precision"],
        "version": cells["backend_version"],
        "mode": cells["mode"],
        "prompt": scalar(cells["isl"]),
        "answer": scalar(cells["osl"]),
        "concurrency": row["workload.batch"],
        "day": day.group(1) if day else "",
        "image": image.group(1) if image else "",
        **{fact: row.get(key, 1) for fact, key in LAYOUT.items()},
    }


def _holds(facts: Mapping[str, Any], key: str, wanted: Any) -> bool:
    match key:
        case "since":
            return bool(facts["day"] >= str(wanted))
        case "on":
            return bool(facts["day"] == str(wanted))
        case "least":
            return bool(facts["concurrency"] >= wanted)
        case _:
            return facts[key] in (wanted if isinstance(wanted, list) else [wanted])
