"""What inference engines reach beyond single operators: fitted per engine and version, the same on every device.

The device's own speed is in its operators' calibrations; an engine adds the host's time, gaps between kernels, and how
much slower its kernels run between each other than alone in a benchmark.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Any

from sightline.catalog import entry, names
from sightline.catalog.index import minor_release
from sightline.content import description
from sightline.cost.families import Stated, family_of
from sightline.cost.matmul import borrows
from sightline.frameworks.behavior import measured_line
from sightline.prediction.common_figures import not_calibrated
from sightline.scenario import Cluster, Device, Host, Interconnect

HOST_TIMES = (
    *("launch_s", "eager_launch_s", "iteration_s", "sequence_s", "prefill_s", "prompt_token_s"),
    *("handover_s", "worker_s", "drafting_s", "drafted_sequence_s"),
)
"""Constants that a faster host shortens."""
LONG_PREFILL_TOKENS = 2560
UNMEASURED = "unmeasured"
"""The set that stands in for engines that were not measured."""


@description
class InferenceConstants(Stated):
    """One set per engine and version; the catalog's entry holds value, source and residuals."""

    matmul_slowdown: float
    """Time of a matmul between other kernels over that of the benchmark, where reading weights binds it."""
    prefill_matmul_slowdown: float
    """The same where arithmetic does: a device that works for long under its power limit, on what others left."""
    prefill_attention_slowdown: float
    decode_attention_slowdown: float
    experts_slowdown: float
    """The same as ``matmul_slowdown`` for grouped matmuls."""
    elementwise_slowdown: float
    collective_slowdown: float
    synchronization_s: float
    """Time that ranks lose by synchronization in a collective."""
    kernel_gap_s: float
    """Device time between two kernels of a captured graph, or launched ahead."""
    launch_s: float
    """Host time per kernel where launches are not captured in a graph."""
    eager_launch_s: float = 4.08e-5
    """The same where an engine's Python calls each, and no compiler has joined or written them (``python_launches``):
    the ``launch_s`` of vLLM 0.2, which had no graphs, for all."""
    iteration_s: float
    """The engine's own code per iteration: it schedules, prepares the batch and hands tokens out; where it schedules
    ahead, while the device runs the iteration before."""
    sequence_s: float
    """The same per sequence of the batch."""
    exposed_share: float = 0.5
    """Share of both that the device waits for where iterations are scheduled ahead. Nothing is fitted to it: the
    schedulers' sources say 0, as vLLM has it, measured steps of TensorRT-LLM about this."""
    prefill_s: float
    """Host time per prefill that the device waits for."""
    prompt_token_s: float
    """Host time per prompt token of a prefill: tokenization, block tables, copies."""
    handover_s: float = 0.0
    """Host time per boundary between pipeline stages that wait for each other, in addition to the transfer itself."""
    worker_s: float = 0.0
    """Host time per iteration for each rank of a replica after the first, where one process calls them in turn and
    compares their results, as vLLM of 2023 did (``_run_workers`` of engine/llm_engine.py)."""
    drafting_s: float = 0.0
    """Host time that drafting adds to an iteration: launches of the drafting passes, choice of the tokens to keep."""
    drafted_sequence_s: float = 0.0
    """The same per sequence of the batch: which of its drafts hold, and what of the cache is dropped with the
    others."""
    host_copy_bandwidth: float = 6e9
    """Bytes per second of activations that go from device to device through the host's memory, where engines do
    that."""
    vector_memory_fraction: float = 0.9
    """Share of the datasheet's memory bandwidth at which the engine's own matrix-vector kernels read weights."""
    vector_unit_bandwidth: float = 10e9
    """Bytes per second that a compute unit takes in there, having only so many loads under way."""
    long_prefill_slowdown: float = 1.0
    """Time of collectives among over two ranks for tokens beyond ``LONG_PREFILL_TOKENS`` of a pass, over that of the
    others; observed in vLLM of 2023, whose memory was laid out for that many, and not explained."""
    nvfp4_slowdown: float = 1.25
    """Time of a dense matmul of 4-bit operands over that of the formula, whose constants are those of 8 bits: on top of
    ``matmul_slowdown``, because no table of such kernels was published; vLLM and TensorRT-LLM agree on the default."""
    fp8_block_slowdown: float = 1.3
    """The same of operands in 8 bits with scales by blocks, on devices that have their constants from others: what was
    measured are DeepGEMM's long products on H800 and H20, not those of a few rows; vLLM, SGLang and TensorRT-LLM
    agree."""
    narrow_prefill_slowdown: float = 1.0
    """Time of long products of operands in 8 bits and fewer on top of ``prefill_matmul_slowdown``, where those are the
    engine's own kernels (vLLM's CUTLASS) and not the library's, which tables are of."""
    prefill_experts_slowdown: float = 1.05
    """The same as ``prefill_matmul_slowdown`` for grouped matmuls: where many rows come to an expert."""
    peak_share: float = 0.0
    """Of a bound on what any engine reaches: share of the peak, for all operators but collectives; 0 for engines."""
    bandwidth_share: float = 0.0
    """The same of the memory's bandwidth, and of the L2 cache's."""
    ttft_spread: float = 0.0
    """Four in five measured times to first token lie within exp(+-spread) of the prediction; 0 where nobody knows."""
    tpot_spread: float = 0.0
    """The same of the time per further token."""
    pools_spread: float = 0.0
    """The same of ``tpot_spread`` where prefill has workers of its own; 0 where it is no other."""
    experts_spread: float = 0.0
    """The same of mixtures of experts, where ``tpot_spread`` is of dense models alone; 0 where it is of both."""
    shared_share: float = 0.5
    """Share of an error's square that cases of one deployment have in common."""
    fitted_devices: tuple[str, ...] = ()
    """What the fit had measurements of; empty where the spreads are estimates."""
    fitted_kinds: tuple[str, ...] = ()
    """Kinds of models (``uncertainty.kind_of``)."""
    fitted_formats: tuple[str, ...] = ()
    fitted_experts: tuple[str, ...] = ()
    """Formats of routed experts, each of which has kernels of its own."""
    fitted_context: float = 0.0
    """Longest context, in tokens."""
    fitted_links: tuple[str, ...] = ()
    """Topologies of the links that its collectives ran over."""

    def slowdown_of_experts(self, kernel: str) -> tuple[float, float]:
        """Return `experts_slowdown` and `prefill_experts_slowdown` for experts of a format.

        What an engine's kernels of some formats reach says nothing of those of another, which engines that were not
        measured stand in for.
        """
        known = not self.fitted_experts or kernel in self.fitted_experts
        of = self if known else load_inference(UNMEASURED)[0]
        return of.experts_slowdown, of.prefill_experts_slowdown

    @property
    def is_bound(self) -> bool:
        """Whether these are the constants of no engine, but of the least that any could take."""
        return self.peak_share > 0

    def running_on(self, cluster: Cluster) -> "InferenceConstants":
        """The same engine on a cluster's hosts and devices: the constants that `iteration_time` takes."""
        return self.on(cluster.host).multiplying_on(cluster.device).linked_by(cluster.intra_node)

    def on(self, host: Host) -> "InferenceConstants":
        """The same engine where another processor runs its host code."""
        if self.is_bound or (host.launch_time_s is None and type(host.speed) is float and host.speed == 1.0):
            return self
        times = {name: getattr(self, name) / host.speed for name in HOST_TIMES}
        if host.launch_time_s is not None:
            times["launch_s"] = host.launch_time_s
        return replace(self, **times)

    def multiplying_on(self, device: Device) -> "InferenceConstants":
        """The same engine on a device whose products by blocks may have been measured themselves."""
        if borrows(family_of(device, "matmul"), "fp8-block"):
            return self
        return replace(self, fp8_block_slowdown=1.0)

    def linked_by(self, link: Interconnect) -> "InferenceConstants":
        """The same engine over links of a kind that its collectives may never have been fitted on.

        What ranks lose over NVLink's switches says nothing of PCIe or of another maker's mesh and library: there
        collectives are those of the library, as engines that were not measured have them.
        """
        if not self.fitted_links or link.topology in self.fitted_links:
            return self
        usual, _ = load_inference(UNMEASURED)
        names = ("collective_slowdown", "synchronization_s", "long_prefill_slowdown")
        return replace(self, **{name: getattr(usual, name) for name in names})


ONE_BY_ONE = InferenceConstants.from_mapping(
    {f.name: 1.0 if f.name.endswith("_slowdown") else 0.0 for f in fields(InferenceConstants) if f.default is MISSING}
    | {"ttft_spread": 0.25, "tpot_spread": 0.25}
)
"""Constants where operators are called one after the other and each call returns when its work is done: host time is in
the calls. Spreads are estimated."""


def serving_one_by_one(engine: str) -> InferenceConstants:
    """Return the constants of a server whose processor is the device too: its own code takes turns with operators.

    An engine whose server was not measured there takes the code of another one.
    """
    stated = entry("generation", "server_code")
    own: Mapping[str, Any] = stated["engines"].get(engine) or stated["engines"][stated["others"]]
    return replace(ONE_BY_ONE, **own)


def set_of(engine: str, version: str = "") -> Mapping[str, Any]:
    """Return the catalog's set of an engine's release: that of its line, or the engine's own.

    A line's set is whole; a release that nobody measured has that of the nearest one, an engine that nobody
    measured that of ``UNMEASURED``.
    """
    stated: Mapping[str, Any] = entry("inference", engine if engine in names("inference") else UNMEASURED)
    versions: Mapping[str, Mapping[str, Any]] = stated.get("versions") or {}
    return versions.get(measured_line(version, stated), stated)


@cache
def load_inference(engine: str, version: str = "") -> tuple[InferenceConstants, str]:
    """Return the constants of an engine's release, and their evidence.

    An engine without measurements takes a relative's (``like``) but for what it gives itself. Calibrated is what
    enough rows of enough sources were fitted to (``missing_measurements``).
    """
    stated = set_of(engine, version)
    chosen = dict(stated.get("constants", {}))
    if "like" in stated:
        relative, _ = load_inference(stated["like"])
        chosen = {f.name: getattr(relative, f.name) for f in fields(InferenceConstants)} | {**FITTED_NOWHERE, **chosen}
    constants = InferenceConstants.from_mapping(chosen)
    if engine not in names("inference"):
        return constants, "estimated"
    if stated["evidence"] != "fitted":
        return constants, str(stated["evidence"])
    return constants, "extrapolated" if missing_measurements(engine, version) else "calibrated"


FITTED_NOWHERE: Mapping[str, Any] = {
    "fitted_devices": (),
    "fitted_kinds": (),
    "fitted_formats": (),
    "fitted_experts": (),
}
"""What a relative was fitted to says nothing of an engine that was not."""


@cache
def missing_measurements(engine: str, version: str = "", device: str = "") -> str:
    """Return what an engine's set lacks to be calibrated, on a ``device`` where one is named; empty for nothing."""
    stated = set_of(engine, version)
    if stated["evidence"] != "fitted" or engine not in names("inference"):
        return ""
    called = f"{engine} {minor_release(version)}" if version else engine
    if device and device not in stated["constants"]["fitted_devices"]:
        return not_calibrated(0, 0, "run", f"{called} on {device}")
    measured = [str(release) for release in stated.get("releases", ())]
    if version and measured and minor_release(version) not in measured:
        called = f"{engine} {', '.join(measured)}"
    return not_calibrated(int(stated["rows"]["fitted"]), len(stated["sources"]), "run", called)


def borrowed_releases(engine: str, version: str) -> tuple[str, ...]:
    """Return a remark where the release that a plan states was not measured: those whose constants stand in."""
    measured = set_of(engine, version).get("releases") if engine in names("inference") else None
    if not version or measured is None or minor_release(version) in measured:
        return ()
    return (f"no measurement of {engine} {version}; using the constants of {', '.join(measured) or 'another release'}",)
