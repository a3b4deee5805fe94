"""What a configuration of a training framework leaves open."""

from collections.abc import Mapping
from typing import Any

MODEL = "a name of the catalog, a path or a mapping"


def missing_of(
    scenario: Mapping[str, Any], devices: int | None, *, model: str = "", batch: str = "samples per optimizer step"
) -> dict[str, str]:
    """Return the keys that a scenario needs and does not state, and what belongs there.

    Args:
        scenario: As far as it was read.
        devices: How many processes are started, where that is known.
        model: Why the model is not known.
        batch: What the whole batch is.
    """
    counted = "" if devices is None else f"{devices}x "
    missing = {} if scenario.get("model") else {"model": f"{MODEL}{model and '; '}{model}"}
    missing["cluster"] = f"'{counted}<device>', such as {counted or '8x '}h100-sxm-80gb"
    for key, what in (("sequence_length", "tokens per sample"), ("global_batch", batch)):
        if key not in scenario["workload"]:
            missing[f"workload.{key}"] = what
    return missing
