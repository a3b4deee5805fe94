"""How far off a generation may be: what is left of measured cases, and what comes on top for cases unlike them.

A user's run is none of the sources that an engine was fitted to. Its error has what cases of one source have - their
scatter and what a deployment has in common -, the effect of a source, and a term for each thing that the engine was
never fitted with: the device, the kind of model, the number format, a longer context. The terms are independent and add
up as squares. Each was estimated by leaving out whole sources, devices, kinds and formats (`scripts/engine_terms.py`).
A device's kernels err too where they were not measured, the more the farther their constants come from
(`cost.families`), and collectives in a host whose links nobody measured.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from math import hypot, inf, sqrt

import numpy as np

from sightline.catalog import entry, names
from sightline.content import description
from sightline.cost.collectives.libraries import PCIE, is_unknown_server
from sightline.cost.device_model import device_model
from sightline.cost.families import SERVER_UNKNOWN, Stated, distance, evidence_of, family_of, unmeasured_half_width
from sightline.frameworks import read_engine
from sightline.prediction.generation.engine_constants import InferenceConstants, borrowed_releases, set_of
from sightline.quantities import FOUR_IN_FIVE, Number, anywhere, larger, years_of
from sightline.scenario import Device, Generate, GenerationPlan, GenerationScenario, Model, ServingScenario

PRODUCTS = "matmul"
HELD_HOST_TIME = 1.0
"""Standard deviation of the logarithm of a host time that no measurement showed, as fits assume it before they begin
(`calibration/manifest/inference.yaml`)."""
PLAIN = "softmax dense"
"""The kind of model that every release served; others were measured in later releases than those before them all."""
MIXERS = ("latent", "sparse", "compressed", "linear", "state_space", "convolution")
"""Parts of a model other than softmax attention with keys and values per head."""


@description
class Extrapolation(Stated):
    """Standard deviations of the logarithmic error that comes on top where an engine was not fitted."""

    source: float
    """Of any run but those fitted: of dense models, which every source left out has. Mixtures' is larger as the rest of
    their errors is."""
    device: float
    kind: float
    """Of a model with other layers."""
    format: float
    release: float
    """Of a release with the constants of others, at least."""
    year: float
    """The same per square root of a year between it and the nearest of them, where that is more."""
    context: float
    """Per doubling of the context beyond the longest fitted."""
    loads: Mapping[str, float]
    """Of first tokens under a load where no fit has any, by `load_kind`."""


@cache
def load_extrapolation() -> Extrapolation:
    """The catalog's terms, the same for all engines."""
    return Extrapolation.from_mapping(entry("generation", "effects")["beyond"])


def kind_of(model: Model) -> str:
    """Return what the layers of a model are, such as ``latent experts``."""
    mixers = [name for name in MIXERS if getattr(model, name) is not None]
    return " ".join([*(mixers or ["softmax"]), "experts" if model.experts is not None else "dense"])


def format_of(plan: GenerationPlan) -> str:
    """Return the formats of a plan's weights and cache, or ``16-bit``."""
    return "+".join(plan.quantization) if plan.quantization else "16-bit"


def extrapolated_terms(scenario: GenerationScenario, constants: InferenceConstants) -> dict[str, Number]:
    """Return what a scenario adds to the spread of its engine's fitted cases, as standard deviations by cause.

    Of the kernels alone where nothing was fitted: such a set states estimated spreads, which are of whole engines. An
    engine that was fitted on a device's architecture has the errors of its kernels in those of its cases.
    """
    device = scenario.cluster.device
    known = device.architecture in _architectures(constants.fitted_devices)
    kernels_sd = 0.0 if known else unmeasured_kernels(device)
    kernels: dict[str, Number] = {"kernels": kernels_sd} if kernels_sd else {}
    if not constants.fitted_devices:
        return kernels | ({"kind": load_extrapolation().kind} if scenario.is_assumed else {})
    return kernels | _beyond_fitted(scenario, constants)


def _beyond_fitted(scenario: GenerationScenario, constants: InferenceConstants) -> dict[str, Number]:
    """The terms of what the engine was never fitted with."""
    terms, work = load_extrapolation(), scenario.workload
    engine, version, kind = scenario.plan.engine.name, scenario.plan.engine.version, kind_of(scenario.model)
    borrowed = bool(borrowed_releases(engine, version))
    own, measured = ((version,), tuple(set_of(engine, version)["releases"])) if borrowed else ((), ())
    older = borrowed and min(release_years(engine, own), default=inf) < min(release_years(engine, measured), default=0)
    unlike = scenario.is_assumed or scenario.plan.expert_devices > 0
    new = {
        "device": scenario.cluster.device.name not in constants.fitted_devices,
        "kind": unlike or kind not in constants.fitted_kinds or (older and kind != PLAIN),
        "format": format_of(scenario.plan) not in constants.fitted_formats,
    }
    added: dict[str, Number] = {"source": terms.source * _usual(scenario, constants) / constants.tpot_spread}
    added |= {name: getattr(terms, name) for name, unseen in new.items() if unseen}
    if borrowed:
        added["release"] = max(terms.release, terms.year * sqrt(years_apart(engine, own, measured)))
    doublings = np.log2(larger(context_of(work) / constants.fitted_context, 1.0))
    return added | ({"context": terms.context * doublings} if anywhere(doublings > 0) else {})


@cache
def release_years(engine: str, releases: tuple[str, ...]) -> tuple[float, ...]:
    """Return when those releases of an engine came whose month is known, as years."""
    months = (read_engine(engine, release).since for release in releases)
    return tuple(years_of(month) for month in months if month)


def years_apart(engine: str, some: tuple[str, ...], others: tuple[str, ...]) -> float:
    """Return the years between the nearest of some releases of an engine and of others; 0 where no month is known."""
    pairs = product(release_years(engine, some), release_years(engine, others))
    return min((abs(one - other) for one, other in pairs), default=0.0)


@cache
def _architectures(devices: tuple[str, ...]) -> frozenset[str]:
    """The architectures of devices of the catalog."""
    known = names("devices")
    return frozenset(str(entry("devices", name).get("architecture", "")) for name in devices if name in known) - {""}


def unmeasured_kernels(device: Device) -> float:
    """Return how far products, which take most of the time, stray on a device that they were not measured on.

    A standard deviation by the distance to the devices that its constants come from; 0 where its own were measured, and
    where a processor runs operators one by one.
    """
    if not device_model(device).asynchronous or evidence_of(device, PRODUCTS) == "calibrated":
        return 0.0
    return unmeasured_half_width(PRODUCTS, distance(device, family_of(device, PRODUCTS))) / FOUR_IN_FIVE


def context_of(work: Generate) -> Number:
    """Return the tokens that a sequence has at its end."""
    return 1.0 * work.prompt_tokens + work.output_tokens


Share = Callable[[], Number]
"""Of a scenario's time, what collectives take."""


def spreads(scenario: GenerationScenario, constants: InferenceConstants, sent: Share) -> tuple[float, float]:
    """Return the half-widths of the time to first token and per further token; 0 where they are unknown."""
    first, step = iteration_spreads(scenario, constants, sent)
    if not first or not scenario.workload.continuous:
        return first, step
    return hypot(first, waiting_spread(scenario, constants)), step


def iteration_spreads(scenario: GenerationScenario, constants: InferenceConstants, sent: Share) -> tuple[float, float]:
    """Return the half-widths of iterations with prompts and of those that only decode; 0 where they are unknown."""
    first, step = fitted_spreads(scenario, constants)
    if first <= 0 or step <= 0:
        return 0.0, 0.0
    split = scenario.plan.disaggregate
    apart = None if split is None else split.prefill_cluster
    prefills = scenario if apart is None else replace(scenario, cluster=apart)
    return sqrt(first**2 + _further(prefills, constants, sent)), sqrt(step**2 + _further(scenario, constants, sent))


def waiting_spread(scenario: GenerationScenario | ServingScenario, constants: InferenceConstants) -> float:
    """Return the half-width that first tokens have beyond iterations where no fit saw any; 0 where one did.

    It is what measured loads of the kind are off by; where none was measured, the most of the engine's other loads, or
    of all.
    """
    loads, kind = load_extrapolation().loads, load_kind(scenario)
    if kind != POOLS and constants.ttft_spread != constants.tpot_spread:
        return 0.0
    engine = [sd for name, sd in loads.items() if name.split()[0] == kind.split()[0]]
    return FOUR_IN_FIVE * loads.get(kind, max(engine or loads.values()))


POOLS = "pools"
"""The kind of loads that workers for prompts and others for decoding share, whatever their engine."""


def load_kind(scenario: GenerationScenario | ServingScenario) -> str:
    """Return `POOLS`, or the engine and whether its model is a mixture, such as ``vllm experts`` and ``vllm dense``."""
    if scenario.plan.disaggregate is not None:
        return POOLS
    return f"{scenario.plan.engine.name} {kind_of(scenario.model).split()[-1]}"


def request_spread(engine: str, version: str) -> float:
    """Return the half-width of what passes before an engine's queue: 0 where the time of a prefill was fitted."""
    fitted = "prefill_s" in set_of(engine, version).get("free", ())
    return 0.0 if fitted else FOUR_IN_FIVE * HELD_HOST_TIME


def _further(scenario: GenerationScenario, constants: InferenceConstants, sent: Share) -> float:
    """The square of the half-width that comes on top of the fitted cases'."""
    terms = FOUR_IN_FIVE**2 * sum(float(sd) ** 2 for sd in extrapolated_terms(scenario, constants).values())
    if PCIE in constants.fitted_links or not is_unknown_server(scenario.cluster, "all_reduce"):
        return terms
    return terms + (float(sent()) * unmeasured_half_width("collectives", SERVER_UNKNOWN)) ** 2


Case = tuple[GenerationScenario, InferenceConstants]
"""A scenario, and the constants of its engine."""


def spreads_of_ratio(one: Case, other: Case) -> tuple[float, float]:
    """Return the half-widths of the ratios of two plans' times to first and per further token; 0 where unknown.

    What both share cancels. Plans of one engine's release on one device have what their deployment has in common
    (``shared_share``) and everything that the engine was never fitted with; those of two engines the device's kernels.
    """
    (first, constants), (second, others) = one, other
    same_device = first.cluster.device.name == second.cluster.device.name
    same = same_device and constants == others and first.plan.engine.name == second.plan.engine.name
    fitted = [fitted_spreads(*one), fitted_spreads(*other)]
    if min(min(spread) for spread in fitted) <= 0:
        return 0.0, 0.0
    terms = [extrapolated_terms(*one), extrapolated_terms(*other)]
    shared = {name for name in ({*terms[0]} & {*terms[1]}) if same or (same_device and name == "kernels")}
    apart = sum(float(sd) ** 2 for of in terms for name, sd in of.items() if name not in shared)
    own = 1.0 - constants.shared_share if same else 1.0
    squares = (own * (a**2 + b**2) + FOUR_IN_FIVE**2 * apart for a, b in zip(*fitted, strict=True))
    first_token, further = map(sqrt, squares)
    return first_token, further


def fitted_spreads(
    scenario: GenerationScenario | ServingScenario, constants: InferenceConstants
) -> tuple[float, float]:
    """Return the spreads of cases like the fitted ones, of first tokens and of the further ones.

    First tokens that no fit saw have that of the others (``scripts/engine_terms.py``).
    """
    usual = _usual(scenario, constants)
    first = usual if constants.ttft_spread == constants.tpot_spread else constants.ttft_spread
    return first, (constants.pools_spread if scenario.plan.disaggregate is not None else 0.0) or usual


def _usual(scenario: GenerationScenario | ServingScenario, constants: InferenceConstants) -> float:
    """The spread of further tokens where the same workers process prompts."""
    return (constants.experts_spread if scenario.model.experts is not None else 0.0) or constants.tpot_spread
