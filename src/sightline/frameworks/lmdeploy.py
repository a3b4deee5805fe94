"""What LMDeploy alone does: how TurboMind takes requests when it is idle."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TurboMind:
    """Behavior of LMDeploy's TurboMind; the defaults change nothing."""

    first_alone: bool = False
    """A prompt that finds the engine idle is taken at once and those sent with it wait for its step: of batches that are
    sent again and again one sequence is always ahead."""
    decodes_single_tokens: bool = False
    """A prompt of one token runs as a decoding step and costs the host no prefill."""
