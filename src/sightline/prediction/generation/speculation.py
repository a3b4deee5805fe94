"""Speculative decoding: drafted tokens that one pass verifies (arXiv 2211.17192), and the prediction layer that drafts."""

from sightline.cost.prices import Prices
from sightline.prediction.generation.worker import PricedPass, Worker
from sightline.prediction.pass_times import PassTimes, operator_times, sum_of_passes
from sightline.quantities import Number
from sightline.scenario import GenerationPlan


def drafted_tokens(plan: GenerationPlan) -> Number:
    """Return the tokens that a decode pass verifies per sequence, besides its own."""
    return 0.0 if plan.speculative is None else 1.0 * plan.speculative.tokens


def tokens_per_pass(plan: GenerationPlan) -> Number:
    """Return the tokens that a decode pass yields per sequence."""
    return 1.0 if plan.speculative is None else plan.speculative.tokens_per_pass


def with_drafts(worker: Worker, decode: PricedPass, prices: Prices, times: PassTimes) -> PassTimes:
    """Return the times of a decode pass with those of a prediction layer that drafts token by token.

    It takes a layer and the head, each for one token of every sequence.
    """
    speculative, batch = worker.plan.speculative, decode.kernels.batch
    decoding = [group.tokens for group in batch.groups if group.decode]
    if speculative is None or not worker.model.prediction_layers or not decoding:
        return times
    blocks = (decode.program.layers[-1], decode.program.head)
    share = speculative.tokens / (1.0 + speculative.tokens) * (sum(decoding) / batch.tokens)
    drafts = [operator_times(block.operators, prices) for block in blocks]
    return sum_of_passes((1.0, share, share), (times, *drafts))
