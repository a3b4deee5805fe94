"""Files and mappings into scenarios: YAML, JSON and CSV, catalog names, overrides, sweeps, defaults, every complaint."""

from sightline.loading.generation import generation_from_mapping
from sightline.loading.loader import load, load_all
from sightline.loading.operations import operation_from_mapping
from sightline.loading.training import scenario_from_mapping
from sightline.loading.written import to_mapping
