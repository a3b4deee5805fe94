"""Calibrates an engine's constants to a measured load by simulating its requests again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, hypot

import numpy as np

from sightline.errors import InputError
from sightline.prediction.anchoring.anchor import Anchor
from sightline.prediction.anchoring.anchored_requests import REPEATED, own_noise, site_of, unexplained
from sightline.prediction.anchoring.posterior import Unexplained
from sightline.prediction.anchoring.timed import Timed
from sightline.prediction.beliefs import Array, Beliefs, Gradient, Slopes
from sightline.prediction.generation.batch_profile import server_constants
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.sites import NOTHING, PACE, constants_at, shifts, site_spread
from sightline.scenario import GenerationScenario, ServingScenario
from sightline.simulation.deployment import alike
from sightline.simulation.load import Floats, Integers, Requests, joined, load_of, mean_lengths
from sightline.simulation.outcome import Outcome
from sightline.simulation.results.times import Z, error_of_mean, request_times, times_of
from sightline.simulation.server import Server, server_of

QUANTITIES = ("ttft_s", "tpot_s")
PARTS = 4
"""Consecutive parts of a load, whose rates differ by chance or on purpose."""
LEAST = 12
"""Requests of a cell."""
BATCHES = 10
"""Parts of a cell whose means say how sure its own is."""
UNLIKE = 1.5
"""Long prompts over short ones from which both have cells of their own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """A group of requests and one measured time of theirs."""

    quantity: str
    rows: Integers
    """In order of arrival."""
    logarithm: float
    """Of the measured seconds, as the mean of the requests' logarithms or as the logarithm of their mean."""
    is_mean: bool = False
    """Whether the logarithm is that of the mean."""

    def of(self, times: Floats) -> float:
        """Return the same logarithm of other times of all the load's requests; those that are not known count not."""
        seconds = times[self.rows]
        return float(np.log(np.nanmean(seconds)) if self.is_mean else np.nanmean(np.log(seconds)))

    def uncertainty(self, ratios: Floats) -> float:
        """Return the standard error of its logarithm, from those of measured over simulated times, or of times.

        That of a normal error as wide as what few parts that resemble each other say.
        """
        known = ratios[self.rows]
        known = known[np.isfinite(known)]
        if known.size < 2:
            return 1.0
        parts = np.array([part.mean() for part in np.array_split(known, min(BATCHES, known.size))])
        return min(error_of_mean(parts).half_width / Z, 1.0)


def cells_of(requests: Requests, quantity: str, seconds: Floats) -> list[Cell]:
    """Split a time measured per request into cells; ``seconds`` is NaN where it was not measured."""
    known = np.flatnonzero(seconds > 0)
    parts = np.array_split(known, max(min(PARTS, known.size // LEAST), 1))
    if quantity == "ttft_s":
        # Further tokens follow the whole batch, not the prompt.
        parts = [half for part in parts for half in _by_length(part, requests.prompt_tokens)]
    return [
        Cell(quantity=quantity, rows=rows, logarithm=float(np.log(seconds[rows]).mean())) for rows in parts if rows.size
    ]


def _by_length(rows: Integers, prompt_tokens: Integers) -> list[Integers]:
    """Requests with short and with long prompts, if these differ; else all of them."""
    if rows.size < 2 * LEAST:
        return [rows]
    lengths = prompt_tokens[rows]
    short = lengths <= np.median(lengths)
    if short.all() or lengths[~short].mean() < UNLIKE * lengths[short].mean():
        return [rows]
    return [rows[short], rows[~short]]


STEP, LEAST_STEP = 0.5, 0.08
"""By how many of its standard deviations an effect is moved to see what it does, and at least by how much: far enough
that it does more than chance, since other requests meet in every schedule."""
LEAST_SENSITIVITY = 0.1
"""Of a time that hardly hangs on the server."""
MOST_REQUESTS = 20_000
"""Of a load that is simulated again; more take longer and teach no more."""
SLOWDOWNS = ("prompt_times", "decode_times")
"""A load's own, which no constant explains."""
Point = tuple[tuple[str, float], ...]
"""Shifts of constants, by name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ServedLoad:
    """The requests of a load and the times at which a real server answered them."""

    name: str
    scenario: ServingScenario
    """Whose server it was; the load is that of ``requests``."""
    requests: Requests
    """In order of arrival."""
    first_token_s: Floats = field(default_factory=lambda: np.zeros(0))
    """NaN where a request failed, or nobody looked; empty where means are stated only."""
    last_token_s: Floats = field(default_factory=lambda: np.zeros(0))
    means: Mapping[str, float] = field(default_factory=dict)
    """``ttft_s`` and ``tpot_s`` where they were not measured request by request."""
    kv_tokens: int | None = None
    """Capacity of the server's KV cache, where it is known."""
    _known: dict[Point, Array] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse a load of which nothing was measured."""
        if not self.cells:
            raise InputError(f"anchor '{self.name}' has no answered request")

    @cached_property
    def cells(self) -> Sequence[Cell]:
        """What was measured."""
        rows = np.arange(len(self.requests))
        stated = [
            Cell(quantity=key, rows=rows, logarithm=float(np.log(seconds)), is_mean=True)
            for key, seconds in self.means.items()
            if seconds > 0
        ]
        if not self.first_token_s.size:
            return stated
        return [cell for key in QUANTITIES for cell in cells_of(self.requests, key, self._measured[key])]

    @property
    def _measured(self) -> Mapping[str, Floats]:
        """Seconds of every request."""
        requests = self.requests
        return request_times(requests.arrival_s, self.first_token_s, self.last_token_s, requests.output_tokens)

    def named(self, name: str) -> "ServedLoad":
        """Return the same load under another name."""
        return replace(self, name=name)

    def of_first(self, count: int) -> "ServedLoad":
        """Return the load of which only the first requests were observed; others came while they were answered."""
        if count >= len(self.requests):
            return self
        seen = np.arange(len(self.requests)) < count
        first_s, last_s = (np.where(seen, times, np.nan) for times in (self.first_token_s, self.last_token_s))
        there = np.flatnonzero(seen | (self.requests.arrival_s <= np.nanmax(last_s, initial=-np.inf)))
        return replace(
            self, requests=self.requests[there], first_token_s=first_s[there], last_token_s=last_s[there], _known={}
        )

    @cached_property
    def alone(self) -> GenerationScenario:
        """A typical request of the load by itself."""
        mean = mean_lengths([self.requests])
        return alike(self.scenario, mean.prompt_tokens, mean.output_tokens)

    @cached_property
    def timed(self) -> Sequence[Timed[GenerationScenario]]:
        """What was measured, a time for each cell."""
        return [
            Timed(
                scenario=self.alone,
                seconds=exp(cell.logarithm),
                quantity=cell.quantity,
                name=self.name,
                sensitivity=moved,
            )
            for cell, moved in zip(self.cells, self._sensitivities, strict=True)
        ]

    @cached_property
    def unexplained(self) -> Sequence[Unexplained]:
        """What effects do not explain of each time.

        That is an error of the passes' times, of which a request that waits in a queue sees a multiple. Each cell is a
        case of its own.
        """
        scatter = self._scatter()
        noises = [
            hypot(wide, moved * own_noise(), scatter[cell.quantity])
            for cell, moved, wide in zip(self.cells, self._sensitivities, self._uncertainties(), strict=True)
        ]
        wholes = [unexplained(self.alone, cell.quantity) for cell in self.cells]
        return [replace(of, noise=noise, near={}, common={}) for of, noise in zip(wholes, noises, strict=True)]

    @cached_property
    def cases(self) -> Mapping[str, Unexplained]:
        """The load's own slowdowns, and what plans have in common with them."""
        return {
            self._effect(name): replace(unexplained(self.alone, quantity), noise=REPEATED)
            for name, quantity in zip(SLOWDOWNS, QUANTITIES, strict=True)
        }

    def _scatter(self) -> dict[str, float]:
        """How far errors differ between the cells of a time: no constant need explain that."""
        errors = np.array([cell.logarithm for cell in self.cells]) - self._logarithms(self._before)
        scatter = {}
        for quantity in {cell.quantity for cell in self.cells}:
            own = [place for place, cell in enumerate(self.cells) if cell.quantity == quantity]
            scatter[quantity] = float(errors[own].std(ddof=1)) if len(own) > 1 else 0.0
        return scatter

    def _uncertainties(self) -> list[float]:
        """Standard errors of the cells' logarithms, by how far requests are from those simulated before."""
        simulated = times_of(self._outcome(self._before))
        if self.means:
            # The requests that were measured were others than the simulated ones.
            return [
                2**0.5 * cell.uncertainty(simulated[cell.quantity] / np.nanmean(simulated[cell.quantity]))
                for cell in self.cells
            ]
        return [
            cell.uncertainty(np.log(self._measured[cell.quantity]) - np.log(simulated[cell.quantity]))
            for cell in self.cells
        ]

    @cached_property
    def _sensitivities(self) -> list[float]:
        """How each time moves with the engine's pace."""
        at = self._before
        step = self._step(PACE)
        slopes = (self._logarithms({**at, PACE: step}) - self._logarithms(at)) / step
        return [max(float(abs(slope)), LEAST_SENSITIVITY) for slope in slopes]

    def predict(self, beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        """Return the logarithms of the cells' times as simulated at the means of beliefs, and their gradients."""
        own = {name: beliefs.mean_of(self._effect(name)) for name in SLOWDOWNS}
        at = {**shifts(beliefs, self._site), **own}
        return self._logarithms(at), Slopes(len(self.cells), lambda: self._gradients(at))

    def _gradients(self, at: Mapping[str, float]) -> list[dict[str, float]]:
        here = self._logarithms(at)
        gradients: list[dict[str, float]] = [{} for _ in self.cells]
        for name in at:
            if name not in (PACE, *SLOWDOWNS) and not getattr(self._base, name):
                continue
            step = self._step(name)
            slopes = (self._logarithms({**at, name: at[name] + step}) - here) / step
            for gradient, slope in zip(gradients, slopes, strict=True):
                if slope:
                    gradient[self._effect(name)] = float(slope)
        return gradients

    def _logarithms(self, shift: Mapping[str, float]) -> Array:
        point = tuple(sorted(shift.items()))
        if point not in self._known:
            times = times_of(self._outcome(shift))
            self._known[point] = np.array([cell.of(times[cell.quantity]) for cell in self.cells])
        return self._known[point]

    def _outcome(self, shift: Mapping[str, float]) -> Outcome:
        constants = {name: change for name, change in shift.items() if name not in SLOWDOWNS}
        prompts, decodes = (exp(shift[PACE] + shift[name]) for name in SLOWDOWNS)
        server = self._server.running(lambda base: constants_at(base, constants))
        return server.at_pace(prompts, decodes).serve(self.scenario, [self.requests])

    @cached_property
    def _server(self) -> Server:
        return server_of(self.scenario, load=[self.requests]).with_kv_tokens(self.kv_tokens)

    @cached_property
    def _base(self) -> InferenceConstants:
        return server_constants(self.alone)[0]

    @property
    def _before(self) -> Mapping[str, float]:
        """No shifts."""
        return {**shifts(NOTHING, self._site), **dict.fromkeys(SLOWDOWNS, 0.0)}

    @property
    def _site(self) -> str:
        return site_of(self.alone)

    def _step(self, constant: str) -> float:
        spread = 0.0 if constant in SLOWDOWNS else site_spread(self._effect(constant))
        return max(STEP * spread, LEAST_STEP)

    def _effect(self, constant: str) -> str:
        if constant in SLOWDOWNS:
            return f"{constant}/case/{self.name}"
        return f"{constant}/site/{self._site}"


def without_rows(name: str, scenario: ServingScenario, means: Mapping[str, float]) -> ServedLoad:
    """Return a load with measured means only; its requests are drawn from the scenario."""
    return ServedLoad(name=name, scenario=scenario, requests=joined(list(load_of(scenario))), means=means)


def anchor_of_load(load: ServedLoad, unused: Sequence[str] = ()) -> Anchor:
    """Return the anchor of a measured load; only the beginning of a long load is used."""
    shown = load if load.means else load.of_first(MOST_REQUESTS)
    return Anchor(name=load.name, timed=(), loads=(shown,), unused=tuple(unused))


__all__ = ["ServedLoad", "anchor_of_load", "without_rows"]
