"""Laws of the loss of a language model by its size and the tokens it has seen, and the best model for a compute budget.

Legend: N parameters, D tokens, C FLOPs of training with C = 6 N D, L loss in nats per token.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sightline.quantities import DAY, Number

FLOPS_PER_PARAMETER_AND_TOKEN = 6.0
"""Two forward and four backward, without attention (Kaplan 2020, arXiv 2001.08361, section 2.1)."""
PF_DAY = 1e15 * DAY
"""FLOPs of a petaFLOP/s for a day, the unit of compute in arXiv 2001.08361."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChinchillaLaw:
    """L = E + A / N^alpha + B / D^beta (Hoffmann 2022, arXiv 2203.15556, equation 2)."""

    name: str
    source: str
    irreducible: float
    """E, the loss of a model of any size after any number of tokens."""
    a: float
    b: float
    alpha: float
    beta: float

    def loss(self, parameters: Number, tokens: Number) -> Number:
        """Return the loss of a model after so many tokens, seen once each."""
        return self.irreducible + self.a / parameters**self.alpha + self.b / tokens**self.beta

    def best_parameters(self, flops: Number) -> Number:
        """Return the N of least loss where 6 N D = C (the same paper, equation 4)."""
        alpha, beta = self.alpha, self.beta
        scale: float = (alpha * self.a / (beta * self.b)) ** (1.0 / (alpha + beta))
        return scale * (flops / FLOPS_PER_PARAMETER_AND_TOKEN) ** (beta / (alpha + beta))


@dataclass(frozen=True, slots=True, kw_only=True)
class KaplanLaw:
    """L = ((Nc / N)^(alphaN / alphaD) + Dc / D)^alphaD, and N = Ne C^pN (Kaplan 2020, arXiv 2001.08361).

    N counts no embeddings. The best N is the paper's own, for training that stops well before a model has converged;
    it is not the minimum of L, which the paper fits to models trained as long as they improve.
    """

    name: str
    source: str
    critical_parameters: float
    critical_tokens: float
    alpha_n: float
    alpha_d: float
    best_scale: float
    """Parameters at one PF-day."""
    best_exponent: float

    def loss(self, parameters: Number, tokens: Number) -> Number:
        """Return the loss of a model after so many tokens."""
        of_size = (self.critical_parameters / parameters) ** (self.alpha_n / self.alpha_d)
        return (of_size + self.critical_tokens / tokens) ** self.alpha_d

    def best_parameters(self, flops: Number) -> Number:
        """Return the N that reaches the least loss with C FLOPs."""
        return self.best_scale * (flops / PF_DAY) ** self.best_exponent


Law = ChinchillaLaw | KaplanLaw
LAWS: Mapping[str, Law] = {
    law.name: law
    for law in (
        ChinchillaLaw(
            name="chinchilla-2024",
            source="arXiv 2404.10102, the fit of Hoffmann 2022 done again",
            irreducible=1.8172,
            a=482.01,
            b=2085.43,
            alpha=0.3478,
            beta=0.3658,
        ),
        ChinchillaLaw(
            name="chinchilla-2022",
            source="arXiv 2203.15556, approach 3 as the paper prints it",
            irreducible=1.69,
            a=406.4,
            b=410.7,
            alpha=0.34,
            beta=0.28,
        ),
        KaplanLaw(
            name="kaplan-2020",
            source="arXiv 2001.08361, tables 2 and 6",
            critical_parameters=6.4e13,
            critical_tokens=1.8e13,
            alpha_n=0.076,
            alpha_d=0.103,
            best_scale=1.3e9,
            best_exponent=0.73,
        ),
    )
}
"""Published laws by name, the one that studies follow first."""


def tokens_of(flops: Number, parameters: Number) -> Number:
    """Return the D of C = 6 N D."""
    return flops / (FLOPS_PER_PARAMETER_AND_TOKEN * parameters)


def flops_to_match(law: ChinchillaLaw, loss: Number, tokens_per_parameter: Number) -> Number:
    """Return the C at which a model with ``tokens_per_parameter`` D / N reaches a loss; infinite where none does.

    Solved for N by bisection on its logarithm, as the two powers of N differ.
    """
    shape = np.broadcast(loss, tokens_per_parameter).shape
    low, high = np.zeros(shape), np.full(shape, 40.0)
    for _ in range(80):
        middle = (low + high) / 2
        parameters = np.exp(middle)
        too_high = law.loss(parameters, parameters * tokens_per_parameter) > loss
        low, high = np.where(too_high, middle, low), np.where(too_high, high, middle)
    parameters = np.exp(high)
    reached = np.where(high < 39.9, parameters, np.inf)
    found: Number = FLOPS_PER_PARAMETER_AND_TOKEN * tokens_per_parameter * reached**2
    return found
