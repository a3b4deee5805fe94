"""Files and mappings into scenarios: YAML, JSON and CSV, catalog names, overrides, sweeps, defaults, complaints."""

from typing import TYPE_CHECKING

from sightline.loading.loader import load, load_all, read_all
from sightline.loading.training import scenario_from_mapping
from sightline.on_demand import names_on_demand

if TYPE_CHECKING:
    from sightline.loading.generation import generation_from_mapping
    from sightline.loading.operations import operation_from_mapping
    from sightline.loading.written import to_mapping
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "sightline.loading.generation": "generation_from_mapping",
            "sightline.loading.operations": "operation_from_mapping",
            "sightline.loading.written": "to_mapping",
        },
    )

__all__ = [
    "generation_from_mapping",
    "load",
    "load_all",
    "operation_from_mapping",
    "read_all",
    "scenario_from_mapping",
    "to_mapping",
]
