"""The systems between one of A100s and one of B200s: changes made one after another, the plan searched after each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sightline import catalog
from sightline.exploration.answer import View
from sightline.exploration.fastest import Restricted, fastest
from sightline.exploration.views import in_view
from sightline.loading import scenario_from_mapping
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.progress import Progress

OLD, NEW = "a100-sxm-80gb", "gb200"
PLAN_OF_2021: Mapping[str, Any] = {
    "tensor_parallel": 8,
    "pipeline_parallel": 8,
    "virtual_stages": 2,
    "schedule": "interleaved",
    "micro_batch": 1,
    "zero_stage": 0,
    "sequence_parallel": False,
    "attention": "eager",
}
"""As Megatron-LM trained on A100s then (arXiv 2104.04473)."""
RELEASE_OF_2021: Mapping[str, Any] = {"framework_version": "2021-04"}
NOT_OVERLAPPED: Mapping[str, Any] = {
    "overlap_gradient_reduce": False,
    "overlap_parameter_gather": False,
    "tensor_overlap": "none",
}
"""What the release of then did not overlap; the ideal view has no releases, so that the plan says it."""
RECOMPUTATIONS = ("none", "selective", "full")
PROCESSOR = (
    *("peak_flops", "vector_flops", "l2", "l2_bandwidth", "compute_units", "architecture", "tdp", "idle_power"),
    *("calibration", "relatives"),
)
"""Figures of a device that its processor brings; the others are its memory's."""
NETWORKS: Mapping[tuple[bool, bool], Any] = {
    (False, False): "infiniband-hdr",
    (True, False): "infiniband-ndr",
    (False, True): {"same_as": "infiniband-hdr", "bandwidth_per_node": "1800 GB/s"},
    (True, True): "infiniband-ndr-72",
}
"""Between nodes, by whether it is the newer one and whether nodes have 72 devices; each device has a port to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that differs between the two systems."""

    name: str
    words: str
    """What is changed, as a table says it."""
    needs: frozenset[str] = frozenset()
    """Changes without which it means nothing."""


PLAN = "plan"
_SEARCHED = frozenset({PLAN})
CHANGES = (
    Change(name=PLAN, words="searched plan, overlap, fused attention"),
    Change(name="compute", words="16-bit peak, caches and kernels of B200", needs=_SEARCHED),
    Change(name="precision", words="nvfp4 in place of fp16", needs=_SEARCHED | {"compute"}),
    Change(name="memory_bandwidth", words="memory bandwidth of B200", needs=_SEARCHED),
    Change(name="recomputation", words="only as much recomputation as the plan needs", needs=_SEARCHED),
    Change(name="memory_capacity", words="memory capacity of B200", needs=_SEARCHED),
    Change(name="interconnect", words="NVLink 5 and InfiniBand NDR", needs=_SEARCHED),
    Change(name="domain", words="72 devices in an NVLink domain", needs=_SEARCHED),
)
"""In the order in which they are made."""
NAMES = tuple(change.name for change in CHANGES)
ALL = frozenset(NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The systems as one view of devices sees them; each is predicted once."""

    base: Mapping[str, Any]
    """Scenario of training without cluster, dtype and layout."""
    devices: int
    view: View
    searched: Restricted
    """Fields of the plan that are searched, but for recomputation."""
    progress: Progress
    known: dict[frozenset[str], Profile] = field(default_factory=dict)
    """Predictions by the changes that are made."""

    def at(self, made: frozenset[str]) -> Profile:
        """Return the step of the system in which some changes are made, under its fastest plan."""
        if made not in self.known:
            self.known[made] = self._predicted(made)
            self.progress.advance()
        return self.known[made]

    def seconds(self, made: frozenset[str]) -> float:
        """Return the time of that step."""
        return float(self.at(made).step_time_s)

    def steps(self, made: frozenset[str]) -> Iterator[tuple[Change, frozenset[str], frozenset[str]]]:
        """Yield the changes that are not made yet, in order, with those that are made before and after each."""
        for change in CHANGES:
            if change.name not in made:
                yield change, made, made | {change.name}
                made |= {change.name}

    def factors(self) -> dict[str, float]:
        """Return what each change gains, in order; the product is the gain over the plan of 2021."""
        return {
            change.name: self.seconds(before) / self.seconds(after) for change, before, after in self.steps(frozenset())
        }

    def first_and_last(self) -> dict[str, tuple[float, float]]:
        """Return what each change but the plan's gains where it is made before, and after, all others that it can."""
        found = {}
        for change in CHANGES[1:]:
            others = frozenset(other.name for other in CHANGES if change.name not in {other.name, *other.needs})
            found[change.name] = (
                self.seconds(change.needs) / self.seconds(change.needs | {change.name}),
                self.seconds(others) / self.seconds(others | {change.name}),
            )
        return found

    def _predicted(self, made: frozenset[str]) -> Profile:
        scenario = in_view({**self.base, "cluster": self._cluster(made), "plan": self._plan(made)}, self.view)
        if PLAN not in made:
            return predict(scenario_from_mapping(scenario))
        recompute = RECOMPUTATIONS if "recomputation" in made else ("full",)
        return fastest(scenario, {**self.searched, "recompute": recompute}, self.progress)

    def _plan(self, made: frozenset[str]) -> dict[str, Any]:
        """The plan as far as it is not searched."""
        plan = {**self.base["plan"], "dtype": "nvfp4" if "precision" in made else "fp16"}
        if PLAN in made:
            return plan
        then = NOT_OVERLAPPED if self.view == "ideal" else RELEASE_OF_2021
        return {**plan, **PLAN_OF_2021, **then, "recompute": "full"}

    def _cluster(self, made: frozenset[str]) -> dict[str, Any]:
        new = catalog.entry("devices", NEW)
        newer, domain = "interconnect" in made, "domain" in made
        of_change = {"compute": PROCESSOR, "memory_bandwidth": ("memory_bandwidth",), "memory_capacity": ("memory",)}
        taken = {key: new[key] for change, keys in of_change.items() if change in made for key in keys if key in new}
        name = OLD if not taken else NEW if made >= of_change.keys() else f"{OLD} to {NEW}"
        return {
            "devices": f"{self.devices}x {OLD}",
            "per_node": 72 if domain else 8,
            "device": {"same_as": OLD, "name": name, **taken},
            "intra_node": "nvlink3" if not newer else "nvlink5-nvl72" if domain else "nvlink5",
            "network": NETWORKS[newer, domain],
            "host": catalog.entry("devices", NEW if "compute" in made else OLD)["server"]["host"],
        }
