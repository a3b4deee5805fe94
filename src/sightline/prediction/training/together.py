"""Many training steps at once: scenarios that differ in numbers of their plans alone are the rows of one mesh."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.content import content, fields_of
from sightline.prediction.changes import what_would_fit
from sightline.prediction.training.knowledge import Knowledge
from sightline.prediction.training.memory import StageLedger
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.step import StepTimes
from sightline.prediction.training.step_profile import (
    assemble,
    described,
    host_remarks,
    interval_with,
    predict,
    remarks,
    spread_of,
)
from sightline.profile import Profile
from sightline.profile.profile import StageMemory, held
from sightline.scenario import Scenario

NUMBERS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(
        ("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel"), 1
    ),
    "virtual_stages": 1,
    "micro_batch": 1,
    "zero_stage": 0,
    "sequence_parallel": False,
}
"""Fields of a plan that are arrays in a mesh, each with the value of a scenario that stands for all."""
MOST_ROWS: Final = 512
"""Of a mesh: so that progress moves, and memory stays small."""
_FROM_MESH: Final = (
    *("step_time_s", "phases", "memory_bytes", "fits", "host_fits", "model_flops", "hardware_flops", "limits"),
    *("levels", "energy_per_step_j", "stages", "forward_pass_s", "evidence", "missing"),
)
"""Figures that rows of a mesh have; whatever else is asked for, the scenario is predicted alone for."""


class Together:
    """Predicts scenarios that are asked about one after another, together where that is possible."""

    def __init__(self, scenarios: Iterable[Scenario]) -> None:
        """Find the scenarios that are alike."""
        alike: dict[Hashable, list[Scenario]] = {}
        for scenario in scenarios:
            plan, work = scenario.plan, scenario.workload
            if plan.micro_batch is not None and plan.stage_layers is None and not scenario.cluster.groups:
                shared = {**fields_of(work), **fields_of(plan), "global_batch": 1, **NUMBERS}
                alike.setdefault(content((scenario.model, scenario.cluster, work.task, shared), 0), []).append(scenario)
        self._place: dict[int, tuple[_Mesh, int]] = {}
        for several in alike.values():
            for first in range(0, len(several), MOST_ROWS):
                mesh = _Mesh(several[first : first + MOST_ROWS])
                if len(mesh.scenarios) > 1:
                    self._place |= {id(one): (mesh, row) for row, one in enumerate(mesh.scenarios)}

    def predict(self, scenario: Scenario) -> Profile:
        """Return what `sightline.prediction.training.step_profile.predict` does."""
        mesh, row = self._place.get(id(scenario), (None, 0))
        return predict(scenario) if mesh is None else mesh.profile(row)


class _Mesh:
    """Scenarios that are rows of one, which is predicted when the first is asked about."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self.scenarios = scenarios
        self._known = Knowledge()

    @cached_property
    def _whole(self) -> Scenario:
        first = self.scenarios[0]
        numbers: Any = {name: np.array([getattr(one.plan, name) for one in self.scenarios]) for name in NUMBERS}
        batch: Any = np.array([one.workload.global_batch for one in self.scenarios])
        return replace(first, plan=replace(first.plan, **numbers), workload=replace(first.workload, global_batch=batch))

    @cached_property
    def _step(self) -> tuple[Priced, StepTimes, Sequence[StageLedger]]:
        return assemble(self._whole, self._known.constants(self._whole))

    @cached_property
    def _figures(self) -> Profile:
        return described(self._whole, *self._step, constants=None, known=self._known, details={})

    @cached_property
    def _spreads(self) -> NDArray[np.float64]:
        return np.broadcast_to(spread_of(self._whole, *self._step[:2], self._known), len(self.scenarios))

    @cached_property
    def _rows(self) -> Any:
        return _rows_of({name: getattr(self._figures, name) for name in _FROM_MESH}, len(self.scenarios))

    def profile(self, row: int) -> Profile:
        """Return the profile of one."""
        scenario, own = self.scenarios[row], self._rows[row]
        return Profile(
            scenario=scenario,
            source="predicted",
            **{**own, "stages": held(own["stages"])},
            rows=lambda _: predict(scenario).rows,
            stage_times=lambda _: predict(scenario).stage_times,
            interval=lambda p: interval_with(p, None, lambda: self._spreads[row]),
            advice=lambda p: what_would_fit(p, predict),
            warnings=lambda p: (*scenario.warnings, *remarks(scenario), *host_remarks(p.stages, scenario.cluster)),
        )


def _rows_of(value: Any, count: int) -> Any:
    """Return ``value`` for each of ``count`` rows, with an element of every array in it."""
    if isinstance(value, np.ndarray):
        return np.broadcast_to(value, count).tolist()
    if isinstance(value, Mapping):
        columns = [_rows_of(item, count) for item in value.values()]
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)] or [{}] * count
    if isinstance(value, StageMemory):
        return [StageMemory(**fields) for fields in _rows_of(fields_of(value), count)]
    if isinstance(value, list):
        return list(zip(*(_rows_of(item, count) for item in value), strict=True))
    return [value] * count
