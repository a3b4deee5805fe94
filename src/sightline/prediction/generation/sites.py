"""What a site - a cluster, its host and its software - does to an engine's constants.

The effects of the sites that were measured are estimated beside the constants that all share. They tell how well a
known site is predicted. A user's run is none of them, so they move none of its figures, and its interval is wider.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log

import numpy as np

from sightline.catalog import entry
from sightline.content import description, record
from sightline.prediction.beliefs import Beliefs, Gradient, stated_spread, stated_spreads
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.policies import Latencies, Workers, latencies
from sightline.quantities import Number, either, larger
from sightline.scenario import Device, GenerationScenario

PACE = "pace"
"""A site's slowdown of everything."""
STEP = 0.03
"""By how much an effect is moved to see what it does."""
IDEAL = 1e-9
"""Of an engine's constants, where nothing but its kernels' floors binds."""
BANDWIDTHS = ("vector_unit_bandwidth",)
"""Constants that make a result faster as they grow."""
RATES = ("output_tokens_per_s",)
"""Results whose seconds are those per token."""


def site_spread(effect: str) -> float:
    """Return the standard deviation of an effect before anything is measured; its name is CONSTANT/site/WHICH."""
    return stated_spread("generation", effect)


NOTHING = Beliefs(names=(), mean=np.zeros(0), covariance=np.zeros((0, 0)), prior=site_spread)
"""Before anything is measured."""


def straying() -> tuple[str, ...]:
    """Return the constants that differ between sites, and their pace."""
    return tuple(name for name, spreads in stated_spreads("generation").items() if "site" in spreads)


def shifts(beliefs: Beliefs, site: str) -> dict[str, float]:
    """Return how far each constant is shifted at a site."""
    return {name: beliefs.mean_of(f"{name}/site/{site}") for name in straying()}


def constants_at(base: InferenceConstants, shift: Mapping[str, float]) -> InferenceConstants:
    """Return an engine's constants shifted on their logarithms; what takes no time still takes none."""
    names = [name for name in shift if name != PACE]
    return replace(base, **{name: getattr(base, name) * exp(shift[name]) for name in names})


def at_pace(reached: Latencies, constants: InferenceConstants, first: Number, further: Number) -> Latencies:
    """Return latencies with factors on the time to first token and per further token, no faster than physics allows.

    ``constants``, on the scenario's cluster, are those that they were found with.
    """
    least = least_latencies(reached.workers, constants)
    shares = [_share(getattr(least, name), getattr(reached, name)) for name in ("ttft_s", "tpot_s")]
    return reached.paced(larger(first, shares[0]), larger(further, shares[1]))


def least_latencies(workers: Workers, constants: InferenceConstants) -> Latencies:
    """Return what physics allows: without the time that engines add, kernels take what their work and bytes need."""
    ideal = {name: -log(IDEAL) if name in BANDWIDTHS else log(IDEAL) for name in straying()}
    if workers.prefill_constants is not None:
        workers = replace(workers, prefill_constants=constants_at(workers.prefill_constants, ideal))
    return latencies(workers, constants_at(constants, ideal))


def _share(least: Number, seconds: Number) -> Number:
    """The least time over the one found; 0 where there is none, as of further tokens where there is one."""
    return least / either(seconds > 0.0, seconds, np.inf)


def source_site(source: str, engine: str, device: Device) -> str:
    """Return the name of a site: what one source measured of an engine on one family of devices."""
    return f"{source} with {engine} on {device.calibration}"


@record
class EngineAtSite:
    """An engine's constants at shifts of their logarithms, and seconds of a scenario with them."""

    scenario: GenerationScenario
    workers: Workers
    base: InferenceConstants
    site: str

    def seconds(self, quantity: str, shift: Mapping[str, float]) -> float:
        """Return the seconds of a result; of a rate those per token."""
        reached = latencies(self.workers, constants_at(self.base, shift).running_on(self.scenario.cluster))
        value = float(getattr(reached, quantity))
        return (1.0 / value if quantity in RATES else value) * exp(shift.get(PACE, 0.0))

    def gradient(self, quantity: str, beliefs: Beliefs) -> tuple[float, Gradient]:
        """Return the logarithm of a result's seconds, and how it moves with each effect of its site."""
        at = shifts(beliefs, self.site)
        logarithm = np.log(self.seconds(quantity, at))
        slopes = {
            name: (np.log(self.seconds(quantity, at | {name: at[name] + STEP})) - logarithm) / STEP for name in at
        }
        return float(logarithm), {f"{name}/site/{self.site}": float(slope) for name, slope in slopes.items() if slope}


@description
class MeasuredSite:
    """A site whose effects the catalog has; intervals stay those of a site that nobody measured."""

    name: str

    @property
    def shift(self) -> Mapping[str, float]:
        """How far its constants are shifted; nothing where no fit part is of the site."""
        sites: Mapping[str, Mapping[str, float]] = entry("generation", "effects")["sites"]
        return sites.get(self.name, {})

    def constants(self, scenario: GenerationScenario, base: InferenceConstants) -> InferenceConstants:  # noqa: ARG002
        """Return the engine's constants at the site."""
        return constants_at(base, self.shift)

    def pace(self, scenario: GenerationScenario, quantity: str) -> float:  # noqa: ARG002
        """Return the factor on a result's seconds."""
        return exp(self.shift.get(PACE, 0.0))

    def narrowed(self, scenario: GenerationScenario, usual: Mapping[str, float]) -> dict[str, float]:  # noqa: ARG002
        """Return the intervals' half-widths as they are."""
        return dict(usual)

    def evidence(self, scenario: GenerationScenario, usual: str) -> str:  # noqa: ARG002
        """Return what the constants rest on, which the site does not change."""
        return usual
