"""Iteration times of a replica that is faster or slower than its tables say, as far as they may be off."""

from sightline.simulation.requests import Floats
from sightline.simulation.times.tables import LAUNCHES, IterationTimes


def at_pace(times: IterationTimes, prompts: float, decodes: float) -> IterationTimes:
    """Return the times with factors on those of iterations with prompts, and of iterations that only decode."""
    # What the host launches counts in both; captured graphs leave it to prompts.
    launching = prompts if times.captured else decodes
    return times._replace(
        tokens=_seconds_times(times.tokens, prompts),
        logits=_seconds_times(times.logits, prompts),
        decodes=_seconds_times(times.decodes, decodes),
        drafts=_seconds_times(times.drafts, decodes),
        decode_attention=times.decode_attention * decodes,
        prompt_attention=times.prompt_attention * prompts,
        attention_start_s=times.attention_start_s * prompts,
        launch_s=times.launch_s * launching,
        iteration_s=times.iteration_s * decodes,
        sequence_s=times.sequence_s * decodes,
        prefill_s=times.prefill_s * prompts,
        prompt_token_s=times.prompt_token_s * prompts,
        request_s=times.request_s * prompts,
        request_token_s=times.request_token_s * prompts,
        boundaries_s=times.boundaries_s * decodes,
    )


def _seconds_times(table: Floats, factor: float) -> Floats:
    """A table over counts, of which one column holds kernels and not seconds."""
    found = table * factor
    found[:, LAUNCHES] = table[:, LAUNCHES]
    return found
